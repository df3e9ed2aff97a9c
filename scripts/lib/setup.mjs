// The set-up: a table of what has to be there, each with how to see that it is and how to bring it.
// What can't be brought from here gets one sentence that says how to get it.
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  binDir, cargoTools, isExecutable, minRuntimeNode, root, runtimeNode, toolPath, toolRoot, wasmTarget,
} from './project.mjs';
import { Explained, duration, read, run } from './run.mjs';
import { findInstalledRust, inWorkersBuilds, installRust } from './rust.mjs';
import { tokenEntry } from './tokens.mjs';

/** The token that a development server takes. It opens nothing anywhere else. */
export const devToken = 'dev-token';
export const devAccount = '0123456789abcdef0123456789abcdef';

const devVars = join(root, '.dev.vars');

/** Both tools compile into one folder: half of what they are made of is the same. */
const toolBuildDir = join(root, 'target', 'tools');

/**
 * The steps, in order. `missing()` is false or true (a reason to act); `does` and `takes` are shown before
 * `bring()` runs; `bring` is absent where only the reader can help, and `advice` says how.
 * `group` is what a caller may ask for or leave out.
 */
const steps = [
  {
    name: 'Node',
    missing: () => major(process.version) < 20,
    advice: 'pullq needs Node 20 or newer: get it from nodejs.org, then run this again.',
  },
  {
    name: 'Rust',
    missing: () => !hasRust(),
    ...(inWorkersBuilds && { does: 'the script of rustup.rs', takes: 'half a minute', bring: installRust }),
    advice: 'Rust is missing: get it from rustup.rs, then run this again.',
  },
  {
    name: 'C compiler',
    missing: () => !read('cc', ['--version']),
    advice: 'Rust needs a C compiler to link with: install gcc or clang (Debian: apt install build-essential, macOS: xcode-select --install).',
  },
  {
    name: 'wasm target',
    missing: () => !hasWasmTarget(),
    does: `rustup target add ${wasmTarget}`,
    takes: 'a few seconds',
    bring: () => run('rustup', ['target', 'add', wasmTarget]),
    advice: `Rust's standard library for ${wasmTarget} is missing: run "rustup target add ${wasmTarget}", or install your distribution's package of it.`,
  },
  {
    name: 'rustfmt and clippy',
    group: 'tests',
    missing: () => !read('cargo', ['fmt', '--version']) || !read('cargo', ['clippy', '--version']),
    does: 'rustup component add rustfmt clippy',
    takes: 'a few seconds',
    bring: () => run('rustup', ['component', 'add', 'rustfmt', 'clippy']),
    advice: 'rustfmt and clippy are missing: run "rustup component add rustfmt clippy", or install your distribution\'s packages of them.',
  },
  {
    name: 'npm packages',
    group: 'packages',
    missing: () => !packagesMatchLock(),
    does: 'npm ci',
    takes: 'under a minute',
    bring: () => npm('ci', '--no-fund', '--no-audit', '--loglevel=error'),
    advice: 'The npm packages could not be installed: see the message above, and run "npm install" if package.json was edited.',
  },
  {
    name: `Node ${minRuntimeNode}`,
    missing: () => major(read(runtimeNode(), ['--version'])) < minRuntimeNode,
    advice: `wrangler needs Node ${minRuntimeNode} or newer and the npm package that brings one could not be installed here: get it from nodejs.org, then run this again.`,
  },
  ...cargoTools.map((tool) => ({
    name: `${tool.name} ${tool.version}`,
    missing: () => !hasCargoTool(tool),
    does: `cargo install ${tool.name}@${tool.version}`,
    takes: '1 to 3 minutes, once for all clones',
    bring: () => installCargoTool(tool),
    advice: `${tool.name} could not be installed: see cargo's message above.`,
  })),
  {
    name: 'dev secrets',
    missing: () => !existsSync(devVars),
    does: 'write .dev.vars',
    takes: 'no time',
    bring: () => writeDevVars(),
  },
];

/** Brings what is missing. `skip` names groups of steps to leave out; `say` takes the lines. */
export async function setup({ skip = [], say = console.log } = {}) {
  let done = 0;
  for (const step of steps) {
    if (skip.includes(step.group) || !step.missing()) continue;
    if (!step.bring) throw new Explained(step.advice);
    say(`set-up: ${step.name}: ${step.does} (usually ${step.takes})`);
    const began = performance.now();
    const code = await step.bring();
    if (code !== 0 || step.missing()) throw new Explained(step.advice);
    say(`set-up: ${step.name}: done in ${duration(performance.now() - began)}`);
    done += 1;
  }
  rmSync(toolBuildDir, { recursive: true, force: true });
  say(done === 0 ? 'set-up: all there' : 'set-up: complete');
}

function hasRust() {
  findInstalledRust();
  return Boolean(read('cargo', ['--version']));
}

/** Asks the compiler and not rustup: a distribution's Rust serves as well. */
function hasWasmTarget() {
  const libDir = read('rustc', ['--print', 'target-libdir', '--target', wasmTarget]);
  return Boolean(libDir) && existsSync(libDir) && readdirSync(libDir).some((name) => /^libstd-.*\.rlib$/.test(name));
}

/**
 * npm writes node_modules/.package-lock.json last, so an interrupted install has none. Packages for other
 * platforms are in the lock alone, and an install script may have changed the `node` package's own folder.
 */
function packagesMatchLock() {
  const locked = readLock(join(root, 'package-lock.json'));
  const installed = readLock(join(root, 'node_modules', '.package-lock.json'));
  if (!locked || !installed) return false;
  return Object.entries(locked)
    .filter(([path]) => path !== '')
    .every(([path, { version, optional }]) => (installed[path] ? installed[path].version === version : optional))
    && isExecutable(join(binDir, 'wrangler'));
}

function readLock(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).packages : undefined;
}

/** npm as it was called, or the one in PATH. */
function npm(...args) {
  const cli = process.env.npm_execpath;
  return cli?.endsWith('.js') ? run(process.execPath, [cli, ...args]) : run('npm', args);
}

/** cargo records a tool after its program is in place, so an interrupted install has no record. */
function hasCargoTool(tool) {
  const record = join(toolRoot(tool), '.crates2.json');
  return isExecutable(toolPath(tool.bin))
    && existsSync(record)
    && Object.keys(JSON.parse(readFileSync(record, 'utf8')).installs)
      .some((id) => id.startsWith(`${tool.name} ${tool.version} `));
}

/** Unoptimised, since both only drive others: a third of the time to compile. */
function installCargoTool(tool) {
  const { CARGO_BUILD_TARGET, ...env } = process.env;
  return run('cargo', [
    'install', `${tool.name}@${tool.version}`, '--bin', tool.bin, '--root', toolRoot(tool),
    '--locked', '--force', '--debug', '--config', 'profile.dev.debug=0',
  ], { env: { ...env, CARGO_TARGET_DIR: toolBuildDir } });
}

/** What lets `dev-token`, and everybody on the CloudEvents face, into a development server. */
export function devSettings() {
  const tokens = [tokenEntry(devToken, { name: 'dev', account: '*' })];
  return { API_TOKENS: JSON.stringify(tokens), CLOUDEVENTS_ACCOUNT: devAccount, CLOUDEVENTS_AUTH: 'off' };
}

/** The development server's secrets. Single quotes keep the JSON's double quotes as they are. */
function writeDevVars() {
  const { API_TOKENS, CLOUDEVENTS_ACCOUNT, CLOUDEVENTS_AUTH } = devSettings();
  writeFileSync(devVars, [
    '# For development alone; written by the set-up when missing. A deployed Worker gets its own with `wrangler secret put`.',
    `API_TOKENS='${API_TOKENS}'`,
    `CLOUDEVENTS_ACCOUNT=${CLOUDEVENTS_ACCOUNT}`,
    `CLOUDEVENTS_AUTH=${CLOUDEVENTS_AUTH}`,
    '',
  ].join('\n'));
  return 0;
}

function major(version = 'v0') {
  return Number(version.match(/^v(\d+)/)?.[1] ?? 0);
}
