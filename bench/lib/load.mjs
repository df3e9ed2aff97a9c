// Runs the load generator for one measurement.
import { exitCode, start } from '../../scripts/lib/run.mjs';
import { loadPath } from './build.mjs';
import { memoryBytes } from './processes.mjs';

/** A batch's bodies may be 256,000 bytes: the largest batch, up to `wanted`, of messages of `size` bytes. */
export function batchOf(wanted, size) {
  return Math.max(1, Math.min(wanted, Math.floor(256_000 / size)));
}

/**
 * Measures `workload` (send, drain, cycle, hand-over, fill) on a new queue of `target`, or on `queue` when
 * that is given, and gives back what the generator printed and what it took of the server.
 */
export async function measure(target, workload, { batch = 1, size = 200, connections = 1, seconds = 0.5, warmUp = 5, prefill = 0, count = 30, queue } = {}) {
  const own = queue ?? await target.newQueue();
  const flags = {
    ...target.flags, 'pause-ms': target.pauseMs ?? 0, queue: own.path, workload, batch, size, connections, seconds, prefill, count,
    'warm-up': warmUp, 'clean-up': queue ? 'off' : 'on', 'server-pid': target.pid(),
  };
  const printed = await load(['run', ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])]);
  const memory_bytes = memoryBytes(target.pid());
  if (!queue) await own.remove?.();
  const result = JSON.parse(printed);
  return {
    ...result,
    memory_bytes,
    messages_per_s: result.messages / result.seconds,
    calls_per_s: result.calls / result.seconds,
    server_cpu_ms_per_call: (1_000 * result.server_cpu_seconds) / result.calls,
    generator_cpu_share: result.generator_cpu_seconds / result.seconds,
  };
}

async function load(args) {
  const child = start(loadPath, args, { stdout: 'pipe' });
  let printed = '';
  let complaint = '';
  child.stdout.setEncoding('utf8').on('data', (text) => { printed += text; });
  child.stderr.setEncoding('utf8').on('data', (text) => { complaint += text; });
  const code = await exitCode(child);
  if (code !== 0) throw new Error(`${args.join(' ')}\n${complaint}`);
  return printed;
}

/**
 * What the generator reaches against a server that does nothing, in calls a second: only far above what
 * is measured does it measure the servers and not itself.
 */
export async function generatorLimit() {
  const server = start(loadPath, ['null'], { stdout: 'pipe' });
  const port = await new Promise((resolve) => server.stdout.setEncoding('utf8').once('data', (text) => resolve(text.trim())));
  const idle = {
    flags: { target: 'bare', address: `127.0.0.1:${port}` },
    pid: () => server.pid,
    newQueue: async () => ({ path: '/' }),
  };
  const limits = {};
  for (const connections of [1, 16, 64]) {
    const { calls_per_s } = await measure(idle, 'send', { connections });
    limits[connections] = Math.round(calls_per_s);
  }
  server.kill('SIGKILL');
  return limits;
}
