// Child processes: run one and stream it, run one and read it, and take all of them down with this process.
// Each child leads a process group of its own, so that what it started (workerd, rustc) goes with it.
import { spawn, spawnSync } from 'node:child_process';
import { root } from './project.mjs';

/** How long a child may take to end by itself after a signal. */
const graceMs = 5_000;

const running = new Set();

/** A failure that one sentence explains; it is shown without a stack. */
export class Explained extends Error {}

/**
 * Runs a command, its output streamed to ours. `onOutput` sees the text as well.
 * Resolves to the exit code (1 when a signal or a missing program ended it).
 */
export async function run(command, args, { env = process.env, onOutput } = {}) {
  const child = start(command, args, { env, stdout: onOutput ? 'pipe' : 'inherit' });
  if (onOutput) {
    for (const [from, to] of [[child.stdout, process.stdout], [child.stderr, process.stderr]]) {
      from.setEncoding('utf8').on('data', (text) => {
        to.write(text);
        onOutput(text);
      });
    }
  }
  return exitCode(child);
}

/** Starts a command in its own process group and leaves it running. */
export function start(command, args, { env = process.env, stdout = 'inherit' } = {}) {
  const child = spawn(command, args, { cwd: root, env, detached: true, stdio: ['ignore', stdout, stdout] });
  running.add(child);
  child.on('close', () => running.delete(child));
  child.on('error', () => running.delete(child));
  return child;
}

export function exitCode(child) {
  return new Promise((resolve) => {
    child.on('error', (error) => {
      console.error(error.message);
      resolve(1);
    });
    // What the child left behind may hold its output open, which would put "close" off for ever.
    child.on('exit', () => {
      const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs);
      child.on('close', () => clearTimeout(timer));
    });
    child.on('close', (code) => resolve(code ?? 1));
  });
}

/** Runs a command quietly: its trimmed standard output, or undefined when it fails or doesn't exist. */
export function read(command, args, { env = process.env } = {}) {
  const { status, stdout } = spawnSync(command, args, { cwd: root, env, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

/** Ends every child and what it started: a signal first, then by force. */
export async function stopAll(signal = 'SIGTERM') {
  const children = [...running];
  if (children.length === 0) return;
  const ended = Promise.all(children.map((child) => new Promise((resolve) => child.once('close', resolve))));
  for (const child of children) signalGroup(child, signal);
  const timer = setTimeout(() => children.forEach((child) => signalGroup(child, 'SIGKILL')), graceMs);
  await ended;
  clearTimeout(timer);
  // A grandchild may have outlived its parent.
  for (const child of children) signalGroup(child, 'SIGKILL');
}

function signalGroup({ pid }, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended already.
  }
}

/** Ctrl-C and friends end the children, then this process with `code`. So does the sudden end of npm above it. */
export function stopOnSignals(code = 130) {
  let stopping = false;
  const stop = async (signal) => {
    // Ctrl-C arrives twice, from the terminal and from npm: the second must not end us before the children.
    if (stopping) return;
    stopping = true;
    await stopAll(signal);
    process.exit(code);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stop(signal));
  if (process.env.npm_lifecycle_event) onParentEnd(() => stop('SIGTERM'));
}

/** An npm killed by force passes no signal on; all that shows is that this process has another parent. */
export function onParentEnd(callback) {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    callback();
  }, 500);
  timer.unref();
}

/** Runs a script's main function; an explained failure is one sentence and exit code 1. */
export async function main(body) {
  try {
    process.exitCode = (await body()) ?? 0;
  } catch (error) {
    console.error(error instanceof Explained ? error.message : error);
    process.exitCode = 1;
  }
}

/** "850 ms", "12.3 s", "3 min 5 s" */
export function duration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}
