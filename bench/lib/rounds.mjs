// The rounds: each goes through all cells, and in each cell through all targets, so that what else the
// machine does meanwhile meets everybody alike.
import { measure } from './load.mjs';
import { callBatch, can, cellName } from './plan.mjs';

/** Messages that a drain has waiting at first; later as many as it got through. */
const firstPrefill = { 1: 400, 100: 8_000 };
const maxPrefill = { 1: 8_000, 100: 60_000 };
/** Calls before the measurement, of one connection and of each of many: the server is warm after the first round. */
const warmUpCalls = { alone: 10, each: 1 };
/** Room for a round that is faster than the last one. */
const prefillMargin = 1.4;

/** Measures; `results` are {cell, target, round, …what was measured}. */
export async function runRounds({ plan, targets, rounds, seconds, say }) {
  const results = [];
  const drained = new Map();
  for (let round = 1; round <= rounds; round += 1) {
    const began = performance.now();
    for (const cell of plan) {
      // The order turns from round to round: nobody is always first.
      for (const target of turned(targets.filter((each) => can(each, cell.workload)), round)) {
        const key = `${cellName(cell)}/${target.name}`;
        const batch = callBatch(cell);
        const { workload, connections, size } = cell;
        const prefill = workload.does === 'drain' ? prefillFor(drained.get(key), workload.batch, size, connections) : 0;
        const result = await measure(target, workload.does, {
          batch, size, connections, seconds, prefill, warmUp: connections === 1 ? warmUpCalls.alone : warmUpCalls.each,
        });
        drained.set(key, result.messages_per_s * seconds);
        results.push({ cell: cellName(cell), target: target.name, round, batch, ...result });
      }
    }
    say(`bench: round ${round} of ${rounds} took ${((performance.now() - began) / 1_000).toFixed(0)} s`);
  }
  return results;
}

function prefillFor(before, batch, size, connections) {
  const wanted = before ? before * prefillMargin : firstPrefill[batch];
  const most = Math.min(maxPrefill[batch], Math.floor(200_000_000 / size));
  // Enough for every connection to warm up and go on.
  return Math.ceil(Math.max(4 * connections * Math.min(batch, 256_000 / size), Math.min(most, wanted)));
}

function turned(list, by) {
  const at = by % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}

export function median(numbers) {
  const sorted = numbers.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return undefined;
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
}

/** For every cell and target the medians over the rounds, the spread, and the ratio to each other target, round by round. */
export function summarize(results) {
  const cells = new Map();
  for (const result of results) {
    if (!cells.has(result.cell)) cells.set(result.cell, new Map());
    const targets = cells.get(result.cell);
    if (!targets.has(result.target)) targets.set(result.target, []);
    targets.get(result.target).push(result);
  }
  return [...cells].map(([cell, targets]) => ({
    cell,
    targets: Object.fromEntries([...targets].map(([target, rounds]) => [target, summary(rounds)])),
    ratios: ratios(targets),
  }));
}

function summary(rounds) {
  const of = (pick) => median(rounds.map(pick));
  const speeds = rounds.map(({ messages_per_s: speed }) => speed);
  const latency = (name) => rounds[0][name] && Object.fromEntries(
    ['p50_ms', 'p90_ms', 'p99_ms'].map((key) => [key, round(of((result) => result[name]?.[key]), 3)]),
  );
  return {
    batch: rounds[0].batch,
    messages_per_s: round(of((result) => result.messages_per_s), 0),
    slowest_per_s: round(Math.min(...speeds), 0),
    fastest_per_s: round(Math.max(...speeds), 0),
    latency: Object.fromEntries(['step', 'send', 'pull', 'ack', 'hand_over'].map((name) => [name, latency(name)]).filter(([, value]) => value)),
    server_cpu_ms_per_call: round(of((result) => result.server_cpu_ms_per_call), 3),
    generator_cpu_share: round(of((result) => result.generator_cpu_share), 3),
    memory_bytes: of((result) => result.memory_bytes),
  };
}

function ratios(targets) {
  const own = targets.get('pullq');
  if (!own) return {};
  return Object.fromEntries([...targets].filter(([name]) => name !== 'pullq').map(([name, rounds]) => [
    name,
    round(median(own.map((mine) => {
      const theirs = rounds.find((each) => each.round === mine.round);
      return mine.hand_over
        ? theirs.hand_over.p50_ms / mine.hand_over.p50_ms
        : mine.messages_per_s / theirs.messages_per_s;
    })), 2),
  ]));
}

export function round(number, digits) {
  return number === undefined ? undefined : Number(number.toFixed(digits));
}
