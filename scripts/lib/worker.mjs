// Builds the Worker into build/, and knows when it is built already: a stamp beside the output holds the
// content hash of every file that went into it.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { buildConsole } from './console.mjs';
import { binDir, cargoTools, root, toolPath, wasmEnv, wasmTarget } from './project.mjs';
import { Explained, duration, read, run } from './run.mjs';

/** Files and folders a build depends on; what cargo reports besides (an included file) is added to them. */
const inputs = ['Cargo.toml', 'Cargo.lock', '.cargo/config.toml', 'build.rs', 'package-lock.json', 'src'];
const outputs = ['build/worker/shim.mjs', 'build/index.js', 'build/index_bg.wasm'];
/** Those worker-build gives to wasm-opt: what rustc and wasm-bindgen make, and nothing newer than workerd takes. */
const wasmFeatures = ['mutable-globals', 'sign-ext', 'nontrapping-float-to-int', 'bulk-memory', 'multivalue', 'reference-types', 'exception-handling'].map((name) => `--enable-${name}`);
const stampPath = join(root, 'build', 'stamp.json');

/** Builds the Worker and the console that it serves, each unless its output is up to date. */
export async function buildWorker(options = {}) {
  await buildWasm(options);
  await buildConsole(options);
}

async function buildWasm({ say = console.log, onOutput }) {
  if (isFresh()) {
    say('build: up to date');
    return;
  }
  say('build: worker-build --release (the first one usually 2 to 3 minutes, a later one half a minute)');
  const began = performance.now();
  rmSync(stampPath, { force: true });
  // Hashed before the build, so that an edit made meanwhile is built the next time.
  const before = hashes(walkInputs());
  const code = await run(toolPath('worker-build'), ['--release'], { env: wasmEnv(), onOutput });
  if (code !== 0) throw new Explained('build: failed, see the message above');
  await stripNames();
  const included = cargoInputs().filter((path) => !(path in before));
  const stamp = { tools: toolVersions(), included, files: { ...hashes(walkInputs(), before), ...hashes(included) } };
  writeFileSync(stampPath, JSON.stringify(stamp, null, 1));
  say(`build: done in ${duration(performance.now() - began)}, ${kilobytes('build/index_bg.wasm')} of wasm`);
}

/** Names of functions are a tenth of the Worker, nobody reads them there, and worker-build always keeps them. */
async function stripNames() {
  const wasm = join(root, 'build/index_bg.wasm');
  const code = await run(join(binDir, 'wasm-opt'), [wasm, ...wasmFeatures, '--strip-debug', '--strip-producers', '-o', wasm], { env: wasmEnv() });
  if (code !== 0) throw new Explained('build: the names in build/index_bg.wasm could not be stripped');
}

function isFresh() {
  if (!existsSync(stampPath) || !outputs.every((path) => existsSync(join(root, path)))) return false;
  const stamp = JSON.parse(readFileSync(stampPath, 'utf8'));
  const now = hashes([...walkInputs(), ...stamp.included]);
  return stamp.tools === toolVersions()
    && Object.keys(now).length === Object.keys(stamp.files).length
    && Object.entries(now).every(([path, hash]) => stamp.files[path] === hash);
}

function toolVersions() {
  return [read('rustc', ['--version']), ...cargoTools.map(({ name, version }) => `${name} ${version}`)].join(', ');
}

/** Every existing input file, relative to the root. */
function walkInputs(paths = inputs) {
  return paths.flatMap((path) => {
    const info = statSync(join(root, path), { throwIfNoEntry: false });
    if (!info) return [];
    if (info.isFile()) return [path];
    return walkInputs(readdirSync(join(root, path)).map((name) => `${path}/${name}`));
  });
}

/** What cargo noted as the crate's own inputs, which includes files taken in with include_str! and the like. */
function cargoInputs() {
  const release = join(resolve(root, process.env.CARGO_TARGET_DIR || 'target'), wasmTarget, 'release');
  if (!existsSync(release)) return [];
  return readdirSync(release)
    .filter((name) => name.endsWith('.d'))
    .flatMap((name) => readFileSync(join(release, name), 'utf8').split('\n'))
    .filter((line) => line.includes('.wasm:'))
    .flatMap((line) => line.slice(line.indexOf('.wasm:') + '.wasm:'.length).split(/(?<!\\) /))
    .filter((path) => path !== '')
    .map((path) => relative(root, path.replaceAll('\\ ', ' ')));
}

/** path → content hash; `known` spares files that were hashed already. */
function hashes(paths, known = {}) {
  return Object.fromEntries(paths.map((path) => [path, known[path] ?? hashFile(join(root, path))]));
}

function hashFile(path) {
  return existsSync(path) ? createHash('sha256').update(readFileSync(path)).digest('hex') : 'absent';
}

function kilobytes(path) {
  return `${Math.round(statSync(join(root, path)).size / 1_000)} kB`;
}
