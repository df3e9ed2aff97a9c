// The growth curves' measurements: connections and sizes. The backlog's are in waiting.mjs.
import { batchOf, measure } from './load.mjs';
import { median } from './rounds.mjs';
import { can } from './plan.mjs';

const connectionCounts = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const sizes = [100, 1_000, 4_000, 16_000, 64_000, 128_000];

/** Single sends a second, by connections. */
export function byConnections(targets, { rounds, seconds }) {
  return grow(targets, rounds, connectionCounts, (target, connections) => measure(target, 'send', { connections, seconds, warmUp: 2 }));
}

/** Messages a second through send, pull and acknowledge, 16 connections, as many in a call as a batch takes, by a message's size. */
export function bySize(targets, { rounds, seconds }) {
  const able = targets.filter((target) => can(target, { name: 'cycle' }));
  return grow(able, rounds, sizes, (target, size) => measure(target, 'cycle', { size, batch: batchOf(100, size), connections: 16, seconds, warmUp: 1 }));
}

async function grow(targets, rounds, steps, measureOne) {
  const found = [];
  for (const step of steps) {
    const speeds = new Map(targets.map((target) => [target, []]));
    for (let round = 0; round < rounds; round += 1) {
      for (const target of targets) speeds.get(target).push((await measureOne(target, step)).messages_per_s);
    }
    for (const [target, all] of speeds) found.push({ target: target.name, at: step, messages_per_s: Math.round(median(all)) });
  }
  return found;
}
