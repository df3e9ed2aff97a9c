// A queue with many messages waiting: what a pull takes, and what the object takes to wake.
import { measure } from './load.mjs';
import { memoryBytes } from './processes.mjs';
import { median } from './rounds.mjs';
import { callApi } from './workers.mjs';

const few = 1_000;
const many = 1_000_000;
/** Pulls of so many messages, the usual ten; each is acknowledged and as many are sent, so that as many are waiting as before. */
const pullSize = 10;

/** p50 of a pull in ms with 1,000, 10,000, 100,000 and 1,000,000 messages waiting, for each target that has queues. */
export async function pullByBacklog(targets, { rounds, seconds, upTo = many, say }) {
  const found = [];
  for (const target of targets) {
    const queue = await target.newQueue();
    let waiting = 0;
    for (let wanted = few; wanted <= upTo; wanted *= 10) {
      const began = performance.now();
      await measure(target, 'fill', { queue, prefill: wanted - waiting });
      waiting = wanted;
      const filled_s = (performance.now() - began) / 1_000;
      const pulls = [];
      for (let round = 0; round < rounds; round += 1) pulls.push((await measure(target, 'cycle', { queue, batch: pullSize, seconds })).pull.p50_ms);
      found.push({ target: target.name, waiting, pull_ms: median(pulls) });
      say(`bench: ${target.name}: a pull of ${pullSize} with ${waiting.toLocaleString('en')} waiting ${median(pulls).toFixed(3)} ms (filled in ${filled_s.toFixed(1)} s)`);
    }
    await queue.remove?.();
  }
  return found;
}

/**
 * pullq with a million messages waiting against a thousand, turn by turn, and its waking: workerd is killed
 * and started again on what is stored, another queue is asked first so that the Worker itself is awake.
 */
export async function manyWaiting(target, { rounds, seconds, messages = many, say }) {
  const small = await target.newQueue();
  const big = await target.newQueue();
  const empty = await target.newQueue();
  await measure(target, 'fill', { queue: small, prefill: few });
  await measure(target, 'fill', { queue: big, prefill: messages });
  const pulls = { small: [], big: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, queue] of [['small', small], ['big', big]]) {
      pulls[name].push((await measure(target, 'cycle', { queue, batch: pullSize, seconds })).pull.p50_ms);
    }
  }
  const wakes = [];
  const grown = [];
  for (let round = 0; round < rounds; round += 1) {
    await restart(target);
    await pull(target, empty);
    const idle = memoryBytes(target.pid());
    const began = performance.now();
    const { messages: pulled } = await pull(target, big);
    wakes.push(performance.now() - began);
    if (pulled.length !== pullSize) throw new Error(`${pulled.length} messages pulled after waking`);
    for (let more = 0; more < 50; more += 1) await pull(target, big);
    grown.push(memoryBytes(target.pid()) - idle);
  }
  const result = {
    messages,
    pull_ms: { few: median(pulls.small), many: median(pulls.big) },
    pull_ratio: median(pulls.big.map((ms, at) => ms / pulls.small[at])),
    wake_ms: { median: median(wakes), slowest: Math.max(...wakes) },
    memory_growth_bytes: Math.max(...grown),
  };
  say(`bench: ${messages.toLocaleString('en')} waiting: ${JSON.stringify(result)}`);
  return result;
}

async function restart({ server }) {
  await server.kill();
  await server.start();
}

function pull({ server }, queue) {
  return callApi(server, 'POST', `${queue.path}/messages/pull`, { batch_size: pullSize });
}
