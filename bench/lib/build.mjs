// Builds what the benchmark is made of besides pullq: the load generator and the floor's Worker.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { root, toolPath, wasmEnv } from '../../scripts/lib/project.mjs';
import { Explained, run } from '../../scripts/lib/run.mjs';

const targetDir = join(root, 'target', 'bench');
export const loadPath = join(targetDir, 'release', 'load');
export const floorFolder = join(root, 'bench', 'floor');

export async function buildLoad() {
  const code = await run('cargo', [
    'build', '--release', '--quiet', '--locked', '--manifest-path', join(root, 'bench', 'load', 'Cargo.toml'), '--target-dir', targetDir,
  ]);
  if (code !== 0) throw new Explained('The load generator could not be built: see the message above.');
}

/** A minute at first; nothing when it is newer than what it is made of. */
export async function buildFloor({ say = console.log } = {}) {
  const made = join(floorFolder, 'build', 'index_bg.wasm');
  const from = ['src/lib.rs', 'Cargo.toml', 'Cargo.lock'].map((name) => join(floorFolder, name));
  if (existsSync(made) && from.every((path) => statSync(path).mtimeMs < statSync(made).mtimeMs)) return;
  say('bench: building the floor (usually a minute)');
  // worker-build works in the current folder.
  const code = await run('sh', ['-c', 'cd "$1" && exec "$2" --release', 'sh', floorFolder, toolPath('worker-build')], {
    env: { ...wasmEnv(), CARGO_TARGET_DIR: targetDir },
  });
  if (code !== 0) throw new Explained('The floor could not be built: see the message above.');
}
