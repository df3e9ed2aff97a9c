#!/usr/bin/env node
// `npm run selfhost`, and `npx pullq` where it is installed: serves the built Worker on a plain workerd, its
// storage in a folder, until SIGTERM or Ctrl-C. Prints one line on stdout, once it answers.
// `pullq token` is `npm run token`. selfhost/README.md has the rest.
import { spawn } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lockStorage } from './lib/lock.mjs';
import { readOptions } from './lib/options.mjs';
import { root } from './lib/project.mjs';
import { Explained, main, onParentEnd, read } from './lib/run.mjs';
import { settingsFrom } from './lib/settings.mjs';
import { devSettings, devToken } from './lib/setup.mjs';
import { startWorkerd } from './lib/workerd.mjs';

const usage = `pullq [--port N] [--host ADDRESS] [--storage FOLDER | --temporary] [--env FILE | --dev]
pullq token --name NAME --account ID|'*' …   makes an API token

  --port       8787; 0 takes a free one, which the ready line names
  --host       the address to listen on: 127.0.0.1, this machine alone
  --storage    the folder where the queues are kept: ./pullq-data
  --temporary  a folder of its own, deleted at the end
  --env        a file with settings, API_TOKENS='…' above all; they win over those of the environment
  --dev        for tests: the token "${devToken}" may do everything, the CloudEvents endpoints are open
  --help       this

It prints "pullq ready on http://…" when it answers, and ends on SIGTERM or Ctrl-C.`;

const howToGetIn = `pullq: nobody gets in yet, since no token is set. Make one with

  ${existsSync(join(root, 'src')) ? 'npm run token -- ' : 'npx pullq token '}--name NAME --account '*'

and start pullq with its API_TOKENS in the environment or in a file that --env names; or try it with --dev.`;

/** How long the Worker may take until it answers. */
const answerWithinMs = 30_000;

/** Kills workerd and removes what is temporary when its standard input closes, so also when this process is killed. */
const guardScript = 'trap "" INT TERM HUP; read -r _; kill -9 "$1" 2>/dev/null; shift; [ $# -eq 0 ] || rm -rf -- "$@"';

async function serve() {
  const options = parse(process.argv.slice(2));
  if (options.help) {
    console.log(usage);
    return 0;
  }
  const bindings = chooseSettings(options);
  await ensureBuilt();
  const storage = openStorage(options);
  const unlock = await lockStorage(storage);
  try {
    return await serveUntilStopped(options, bindings, storage);
  } finally {
    if (options.temporary) rmSync(storage, { recursive: true, force: true });
    else unlock();
  }
}

async function serveUntilStopped(options, bindings, storage) {
  const stopped = stopRequest();
  const server = await startWorkerd({
    bindings, storage, host: options.host, port: options.port, ownSession: true,
    onOutput: (text) => process.stderr.write(text),
  }).catch((error) => {
    throw explainStart(error, options);
  });
  const guard = startGuard(server, options.temporary ? [server.folder, storage] : [server.folder]);
  try {
    const died = server.ended.then(({ code, signal }) => `ended by itself (${signal ?? `exit code ${code}`})`);
    let what = await Promise.race([stopped, died, answers(server.url)]);
    if (what === 'answers') {
      console.log(`pullq ready on ${server.url}`);
      if (!bindings.API_TOKENS) console.error(howToGetIn);
      what = await Promise.race([stopped, died]);
    }
    if (what === 'stop') return 0;
    throw new Explained(`pullq: workerd ${what}. The last it said:\n${server.lastLines() || '(nothing)'}`);
  } finally {
    guard.kill('SIGKILL');
    await server.stop();
  }
}

function parse(args) {
  const values = readOptions(args, {
    port: { type: 'string', default: '8787' },
    host: { type: 'string', default: '127.0.0.1' },
    storage: { type: 'string' },
    temporary: { type: 'boolean', default: false },
    env: { type: 'string' },
    dev: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  }, usage);
  const port = Number(values.port);
  if (!/^\d+$/.test(values.port) || port > 65_535) throw new Explained(`--port must be a number from 0 to 65535, not ${values.port}.`);
  if (values.temporary && values.storage !== undefined) throw new Explained('--temporary and --storage exclude each other.');
  if (values.dev && values.env !== undefined) throw new Explained('--dev and --env exclude each other.');
  return { ...values, port };
}

function chooseSettings({ dev, env, host }) {
  const settings = settingsFrom({ env: process.env, file: env, warn: console.error });
  if (!dev) return settings;
  if (!['127.0.0.1', '::1', 'localhost'].includes(host)) {
    console.error(`pullq: --dev lets everybody in who reaches ${host}: everybody knows the token "${devToken}".`);
  }
  return { ...settings, ...devSettings() };
}

/** A clone may have to be built first; an installed package brings its build. */
async function ensureBuilt() {
  if (existsSync(join(root, 'build', 'index.js'))) return;
  if (!existsSync(join(root, 'Cargo.toml'))) throw new Explained('This package of pullq has no build in it: run npm run build and npm run package in the clone again.');
  if (!read('cargo', ['--version'])) {
    throw new Explained('pullq is not built yet, and building it needs Rust: get that from rustup.rs, or install a packed pullq, which has its build in it.');
  }
  // Its output is no part of ours: stdout is for the ready line alone.
  const child = spawn(process.execPath, [join(root, 'scripts', 'build.mjs')], { stdio: ['ignore', 2, 2] });
  const code = await new Promise((done) => child.on('exit', done).on('error', done));
  if (code !== 0) throw new Explained('pullq could not be built, see the message above.');
}

function openStorage({ temporary, storage = 'pullq-data' }) {
  if (temporary) return mkdtempSync(join(tmpdir(), 'pullq-storage-'));
  const folder = resolve(storage);
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new Explained(`The storage folder can't be used: ${error.message}.`);
  }
  return folder;
}

/** Resolves to "stop" with the first signal, or when the npm or npx above is gone. */
function stopRequest() {
  return new Promise((done) => {
    // Ctrl-C may arrive twice, from the terminal and from npm.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => done('stop'));
    if (process.env.npm_lifecycle_event) onParentEnd(() => done('stop'));
  });
}

function startGuard(server, folders) {
  const guard = spawn('sh', ['-c', guardScript, 'pullq-guard', String(server.pid), ...folders], {
    stdio: ['pipe', 'ignore', 'ignore'], detached: true,
  });
  // Without a shell the server runs all the same.
  guard.on('error', () => {});
  guard.unref();
  return guard;
}

/** Asks for what needs no token until it is there: "answers", or "does not answer" after a while. */
async function answers(url) {
  // Whoever listens on every address is asked on this machine's own.
  const own = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
  const end = Date.now() + answerWithinMs;
  while (Date.now() < end) {
    const answered = await fetch(`${own}/openapi.json`, { signal: AbortSignal.timeout(5_000) }).then((answer) => answer.ok, () => false);
    if (answered) return 'answers';
    await sleep(50);
  }
  return 'does not answer';
}

function explainStart(error, { host, port }) {
  if (!(error instanceof Explained) || !/address already in use/i.test(error.message)) return error;
  return new Explained(`Port ${port} of ${host} can't be used (is pullq running already?): choose another with --port, or 0 for a free one.`);
}

if (process.argv[2] === 'token') {
  process.argv.splice(2, 1);
  await import('./token.mjs');
} else {
  await main(serve);
}
