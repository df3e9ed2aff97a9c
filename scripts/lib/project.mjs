// Where things are and which versions are pinned, and the environment that the build tools run in.
// npm packages are pinned in package.json; the tools that cargo installs are pinned here.
import { accessSync, constants, existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const binDir = join(root, 'node_modules', '.bin');
export const wasmTarget = 'wasm32-unknown-unknown';

/** What wrangler and miniflare need at least. */
export const minRuntimeNode = 22;

/** worker-build wants wasm-bindgen's CLI at the very version of the crate in Cargo.toml. */
export const cargoTools = [
  { name: 'wasm-bindgen-cli', version: '0.2.129', bin: 'wasm-bindgen' },
  { name: 'worker-build', version: '0.8.7', bin: 'worker-build' },
];

/** A per-user cache, so that the next clone finds the tools again. */
export const toolCache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'pullq', 'tools');

export function toolRoot({ name, version }) {
  return join(toolCache, `${name}-${version}`);
}

export function toolPath(binName) {
  const tool = cargoTools.find(({ bin }) => bin === binName);
  return join(toolRoot(tool), 'bin', binName);
}

/** The Node that comes with the npm packages, or this one. The machine's own may be too old for wrangler. */
export function runtimeNode() {
  const packaged = join(binDir, 'node');
  return isExecutable(packaged) ? packaged : process.execPath;
}

/** node_modules/.bin leads PATH: what starts with `#!/usr/bin/env node` must find the newer Node there. */
export function toolEnv() {
  return {
    ...process.env,
    PATH: binDir + delimiter + process.env.PATH,
    WRANGLER_SEND_METRICS: 'false',
  };
}

/**
 * The environment for everything that compiles to wasm. A flags variable in it would silently override
 * .cargo/config.toml, and a *_BIN variable that names nothing makes worker-build download the tool.
 */
export function wasmEnv() {
  const { RUSTFLAGS, CARGO_ENCODED_RUSTFLAGS, CARGO_BUILD_TARGET, ...env } = toolEnv();
  return {
    ...env,
    WASM_BINDGEN_BIN: toolPath('wasm-bindgen'),
    WASM_OPT_BIN: join(binDir, 'wasm-opt'),
    ESBUILD_BIN: join(binDir, 'esbuild'),
  };
}

export function isExecutable(path) {
  if (!existsSync(path)) return false;
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
