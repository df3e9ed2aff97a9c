// Rust in Cloudflare's Workers Builds, whose machines have none: installed for the build by rustup's own
// script. Nowhere else is anything installed that the reader didn't install.
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { isExecutable, wasmTarget } from './project.mjs';
import { run } from './run.mjs';

export const inWorkersBuilds = process.env.WORKERS_CI === '1';

/** Where rustup puts it. The next command of the same build has a PATH without that. */
export function findInstalledRust() {
  const bin = join(process.env.CARGO_HOME || join(homedir(), '.cargo'), 'bin');
  if (inWorkersBuilds && isExecutable(join(bin, 'cargo')) && !process.env.PATH.split(delimiter).includes(bin)) {
    process.env.PATH = bin + delimiter + process.env.PATH;
  }
}

export const installCommand = `curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path --target ${wasmTarget}`;

export async function installRust() {
  const code = await run('sh', ['-c', installCommand]);
  findInstalledRust();
  return code;
}
