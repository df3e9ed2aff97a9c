// What is measured: the workloads, and with which connections and sizes.
import { batchOf } from './load.mjs';

/**
 * - `name`: as the tables say it; a target's `cannot` begins like it
 * - `does`: what the generator is told; `batch`: messages a call
 * - `calls`: which of the calls a message needs, for what it costs
 */
export const workloads = [
  { name: 'send 1', does: 'send', batch: 1, calls: ['send'] },
  { name: 'send 100', does: 'send', batch: 100, calls: ['send'] },
  { name: 'drain 1', does: 'drain', batch: 1, calls: ['pull', 'ack'] },
  { name: 'drain 100', does: 'drain', batch: 100, calls: ['pull', 'ack'] },
  { name: 'cycle 1', does: 'cycle', batch: 1, calls: ['send', 'pull', 'ack'] },
  { name: 'cycle 100', does: 'cycle', batch: 100, calls: ['send', 'pull', 'ack'] },
];

const handOver = { name: 'hand-over', does: 'hand-over', batch: 1, calls: ['send', 'pull', 'ack'] };

/** The cells of one round: every workload, 1, 16 and 64 connections at 200 B, and 16 at 4 kB and 64 kB. */
export const fullPlan = [
  ...[1, 16, 64].flatMap((connections) => workloads.map((workload) => ({ workload, connections, size: 200 }))),
  ...[1, 16].map((connections) => ({ workload: handOver, connections, size: 200 })),
  ...[4_000, 64_000].flatMap((size) => workloads.map((workload) => ({ workload, connections: 16, size }))),
];

/** The least that shows that everything runs. */
export const smokePlan = [
  ...workloads.map((workload) => ({ workload, connections: 16, size: 200 })),
  { workload: handOver, connections: 1, size: 200 },
];

export function can(target, workload) {
  return !target.cannot.some((prefix) => workload.name.startsWith(prefix));
}

/** "cycle 100, 16 connections, 200 B"; a batch that can't hold 100 messages of a size holds fewer. */
export function cellName({ workload, connections, size }) {
  return `${workload.name}, ${connections} connection${connections === 1 ? '' : 's'}, ${bytes(size)}`;
}

export function callBatch({ workload, size }) {
  return batchOf(workload.batch, size);
}

export function bytes(size) {
  return size < 1_000 ? `${size} B` : `${size / 1_000} kB`;
}
