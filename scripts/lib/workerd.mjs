// The built Worker in a plain workerd: no wrangler, no Miniflare, Durable Objects on local disk.
// `npm run selfhost` serves with it; the measuring and killing tests run it.
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { root } from './project.mjs';
import { Explained } from './run.mjs';

/** How long workerd may take until it listens. */
const startWithinMs = 30_000;
/** Lines of workerd's output that are kept to explain a failure. */
const keptLines = 40;
/** Where a build has the console's pages. */
const consoleFolder = 'console';

const running = new Set();
// A signal handler elsewhere may end this process with exit(): its servers end with it.
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

/**
 * Starts pullq in a workerd of its own and resolves once it listens.
 *
 * - `bindings`: the text bindings, `API_TOKENS` above all.
 * - `storage`: the folder for the Durable Objects; otherwise a temporary one that `stop` removes.
 * - `host`, `port`: where it listens; port 0 takes a free one, and another one after a restart.
 * - `build`: where the Worker's modules lie. They are copied first, so that a build that is made
 *   meanwhile changes nothing under a running server.
 * - `wrangler`: the wrangler.toml that says which objects the Worker has; the benchmark runs other Workers.
 * - `ownSession`: keeps the terminal's Ctrl-C from workerd, for a caller who stops it in its own way.
 * - `onOutput`: sees what workerd prints.
 *
 * The server has `url`, `pid`, `storage`, `folder` (what is temporary besides), and:
 * - `kill()`: SIGKILL; resolves when the process is gone
 * - `start()`: starts it again on the same storage
 * - `stop()`: SIGTERM, then SIGKILL, and removes what is temporary
 * - `ended`: a promise of this run's `{code, signal}`
 * - `objectFiles(className)`: the databases of a class's objects
 * - `lastLines()`: the last lines of what it printed
 */
export async function startWorkerd({ bindings = {}, storage, host = '127.0.0.1', port = 0, build = join(root, 'build'), wrangler = join(root, 'wrangler.toml'), ownSession = false, onOutput } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'pullq-workerd-'));
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const server = new Workerd({ folder, storage: storage ?? join(folder, 'storage'), bindings, address, ownSession, onOutput });
  try {
    copyWorker(build, server.moduleFolder);
    const pages = copyConsole(build, folder);
    mkdirSync(server.storage, { recursive: true });
    writeFileSync(server.configPath, config({
      moduleFolder: server.moduleFolder, wrangler: readFileSync(wrangler, 'utf8'), textBindings: Object.keys(bindings), pages,
    }));
    await server.start();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

class Workerd {
  #child;
  #output = [];

  constructor(options) {
    Object.assign(this, options, { url: undefined, pid: undefined, ended: undefined });
    this.moduleFolder = join(this.folder, 'worker');
    this.configPath = join(this.moduleFolder, 'config.capnp');
  }

  async start() {
    if (this.#child) throw new Error('workerd is running already');
    const child = spawn(binary(), [
      'serve', '--experimental', this.configPath,
      `--socket-addr=http=${this.address}`, `--directory-path=disk=${this.storage}`, '--control-fd=3',
    ], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'], env: { ...process.env, ...this.bindings }, detached: this.ownSession });
    this.#child = child;
    this.pid = child.pid;
    running.add(child);
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => this.#heard(text));
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => resolve({ error }));
      child.once('exit', (code, signal) => resolve({ code, signal }));
    }).then((end) => {
      running.delete(child);
      if (this.#child === child) this.#child = undefined;
      return end;
    });
    const listening = await Promise.race([listeningPort(child.stdio[3]), this.ended, timeout(startWithinMs)]);
    if (typeof listening !== 'number') {
      await this.kill();
      throw new Explained(`workerd does not listen (${JSON.stringify(listening)}):\n${this.lastLines()}`);
    }
    this.url = `http://${this.address.replace(/:\d+$/, '')}:${listening}`;
  }

  async kill(signal = 'SIGKILL') {
    this.#child?.kill(signal);
    return this.ended;
  }

  async stop() {
    this.#child?.kill('SIGTERM');
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), 2_000);
    await this.ended;
    clearTimeout(timer);
    rmSync(this.folder, { recursive: true, force: true });
  }

  objectFiles(className) {
    const folder = join(this.storage, uniqueKey(className));
    if (!existsSync(folder)) return [];
    return readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name)).map((name) => join(folder, name));
  }

  lastLines() {
    return this.#output.join('\n');
  }

  #heard(text) {
    this.onOutput?.(text);
    this.#output.push(...text.split('\n').filter((line) => line !== ''));
    this.#output.splice(0, this.#output.length - keptLines);
  }
}

/** The binary that the npm package `workerd` has for this machine. */
function binary() {
  return createRequire(import.meta.url)('workerd').default;
}

/** The port in the message that workerd writes once it listens. */
function listeningPort(control) {
  return new Promise((resolve) => {
    let text = '';
    control.setEncoding('utf8').on('data', (more) => {
      text += more;
      for (const line of text.split('\n').slice(0, -1)) {
        const { event, socket, port } = JSON.parse(line);
        if (event === 'listen' && socket === 'http') resolve(port);
      }
    });
  });
}

function timeout(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms, `not within ${ms} ms`).unref());
}

function copyWorker(build, to) {
  if (!existsSync(join(build, 'index.js'))) {
    throw new Explained(`There is no Worker in ${relative(process.cwd(), build) || '.'}: run npm run build first.`);
  }
  for (const { path } of modules(build)) {
    mkdirSync(dirname(join(to, path)), { recursive: true });
    cpSync(join(build, path), join(to, path));
  }
}

/** The console's pages, where they are built: undefined without them. */
function copyConsole(build, folder) {
  if (!existsSync(join(build, consoleFolder))) return undefined;
  const to = join(folder, consoleFolder);
  cpSync(join(build, consoleFolder), to, { recursive: true });
  return to;
}

/** Every module of a build, the entry first. The console's scripts are files for browsers. */
function modules(build) {
  const entry = existsSync(join(build, 'worker/shim.mjs')) ? 'worker/shim.mjs' : 'index.js';
  const kinds = { js: 'esModule', mjs: 'esModule', wasm: 'wasm' };
  return readdirSync(build, { recursive: true })
    // Names that begin with a dot are worker-build's staging area.
    .filter((path) => !path.split('/').some((part) => part.startsWith('.')))
    .filter((path) => !path.startsWith(`${consoleFolder}/`))
    .map((path) => ({ path, kind: kinds[path.split('.').at(-1)] }))
    .filter(({ kind }) => kind !== undefined)
    .sort((a, b) => (b.path === entry) - (a.path === entry));
}

/** workerd's configuration. What the Worker is made of and when it was written for stands in wrangler.toml. */
function config({ moduleFolder, wrangler, textBindings, pages }) {
  const date = wrangler.match(/^compatibility_date\s*=\s*"([^"]+)"/m)?.[1];
  const flags = wrangler.match(/^compatibility_flags\s*=\s*(\[[^\]]*\])/m)?.[1] ?? '[]';
  const objects = [...wrangler.matchAll(/\[\[durable_objects\.bindings\]\]\s+name\s*=\s*"(\w+)"\s+class_name\s*=\s*"(\w+)"/g)]
    .map(([, name, className]) => ({ name, className }));
  const withPages = (line) => (pages === undefined ? [] : [line]);
  const list = (items) => `[\n${items.map((item) => `    ${item},\n`).join('')}  ]`;
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = ${list([
    '(name = "pullq", worker = .pullq)',
    '(name = "disk", disk = (path = "overridden", writable = true))',
    ...withPages(`(name = "console", disk = (path = ${JSON.stringify(pages)}, writable = false))`),
  ])},
  sockets = [(name = "http", address = "overridden", http = (), service = "pullq")],
);

const pullq :Workerd.Worker = (
  compatibilityDate = ${JSON.stringify(date)},
  compatibilityFlags = ${flags},
  modules = ${list(modules(moduleFolder).map(({ path, kind }) => `(name = "${path}", ${kind} = embed "${path}")`))},
  bindings = ${list([
    ...textBindings.map((name) => `(name = "${name}", fromEnvironment = "${name}")`),
    ...withPages('(name = "ASSETS", service = "console")'),
    ...objects.map(({ name, className }) => `(name = "${name}", durableObjectNamespace = "${className}")`),
  ])},
  durableObjectNamespaces = ${list(objects.map(({ className }) => `(className = "${className}", uniqueKey = "${uniqueKey(className)}", enableSql = true)`))},
  durableObjectStorage = (localDisk = "disk"),
);
`;
}

/** What ties a class's objects to their files: never to be changed. */
function uniqueKey(className) {
  return `pullq-${className}`;
}
