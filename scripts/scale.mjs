// `npm run scale`: how a queue's object in a real workerd wakes and answers with a million messages
// waiting, what memory it takes, and how long a redrive of a hundred thousand takes while the process is
// killed. Prints figures; what must hold of them, tests/scale.rs asserts as counts.
//
// The messages are sent by the engine itself, natively, into the object's own database while workerd
// is down. The database was just written, so the machine still has it in its file cache.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Api } from '../tests/support/api.mjs';
import { DEV, apiTokens } from '../tests/support/pullq.mjs';
import { toolEnv } from './lib/project.mjs';
import { Explained, duration, main, read, run, stopOnSignals } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { buildWorker } from './lib/worker.mjs';
import { startWorkerd } from './lib/workerd.mjs';

const MESSAGES = 1_000_000;
const FEW = 1_000;
const WAKES = 7;
/** Queues with a few messages, and pulls from each of them. */
const SMALL_QUEUES = 4;
const PULLS = 90;
const PULL_SIZE = 10;
const REDRIVEN = 100_000;
const REDRIVE_KILLS = 5;

const forms = [
  { name: '10,000 blocks of 100', batch: 100, out: 0 },
  { name: '1,000,000 blocks of one', batch: 1, out: 0 },
  { name: '1,000,000 blocks of one, and 240,000 more out', batch: 1, out: 240_000 },
];

stopOnSignals();
await main(async () => {
  await setup();
  await buildWorker();
  for (const form of forms) await measure(form);
  for (const kills of [0, REDRIVE_KILLS]) await redrive(kills);
});

/** Moves messages from one queue to another, and counts what arrived. */
async function redrive(kills) {
  console.log(`\n${REDRIVEN.toLocaleString('en')} messages redriven, ${kills} kills meanwhile`);
  const storage = mkdtempSync(join(tmpdir(), 'pullq-scale-'));
  const server = await startWorkerd({ bindings: { API_TOKENS: apiTokens([DEV]) }, storage });
  try {
    const api = new Api(server);
    const from = await newQueue(api, server);
    const to = await newQueue(api, server);
    await server.kill();
    await fill(from.file, REDRIVEN, 100, 0);
    await server.start();
    const began = performance.now();
    await api.ok('POST', `${from.queue.path}/redrive`, { destination_queue_name: to.queue.name });
    for (let killed = 0; killed < kills; killed += 1) {
      await sleep(700);
      await restart(server);
    }
    let status;
    do {
      await sleep(50);
      status = await api.ok('GET', `${from.queue.path}/redrive`);
    } while (status.state === 'running');
    show('until it had completed', `${duration(performance.now() - began)}, ${status.moved} moved, ${status.skipped} skipped`);
    const ids = [];
    for (let more = true; more;) {
      const messages = await to.queue.take();
      ids.push(...messages.map(({ id }) => id));
      if (messages.length > 0) await to.queue.settle({ acks: messages });
      more = messages.length > 0;
    }
    const unique = new Set(ids).size;
    const left = (await api.ok('GET', `${from.queue.path}/metrics`)).backlog_count;
    show('counted at its destination', `lost ${REDRIVEN - unique - left}, duplicated ${ids.length - unique}, left behind ${left}`);
  } finally {
    await server.stop();
    rmSync(storage, { recursive: true, force: true });
  }
}

async function measure({ name, batch, out }) {
  console.log(`\n${MESSAGES.toLocaleString('en')} messages waiting: ${name}`);
  const storage = mkdtempSync(join(tmpdir(), 'pullq-scale-'));
  const server = await startWorkerd({ bindings: { API_TOKENS: apiTokens([DEV]) }, storage });
  try {
    const api = new Api(server);
    const empty = await newQueue(api, server);
    const big = await newQueue(api, server);
    const small = [];
    for (let made = 0; made < SMALL_QUEUES; made += 1) small.push(await newQueue(api, server));
    await server.kill();
    await fill(big.file, MESSAGES, batch, out);
    for (const { file } of small) await fill(file, FEW, batch, 0);

    const idle_kb = await memoryAfterPulls(server, empty.queue);
    const full_kb = await memoryAfterPulls(server, big.queue);
    show('memory', `workerd takes ${megabytes(full_kb)} after ${PULLS} pulls from it, ${megabytes(idle_kb)} after as many from an empty queue: ${megabytes(full_kb - idle_kb)} more`);
    show('wake-up, Worker awake', await wakes(server, big.queue, { first: empty.queue }));
    show('wake-up, process just started', await wakes(server, big.queue, {}));
    show('the same of an empty queue', await wakes(server, empty.queue, {}));
    await comparePulls(server, big.queue, small.map(({ queue }) => queue));
    const began = performance.now();
    await api.ok('POST', `${big.queue.path}/purge`, { delete_messages_permanently: true });
    show('a purge of everything', duration(performance.now() - began));
  } finally {
    await server.stop();
    rmSync(storage, { recursive: true, force: true });
  }
}

/** A queue, and the file of its object. */
async function newQueue(api, server) {
  const before = new Set(server.objectFiles('QueueObject'));
  const queue = await api.queue({ consumer: { settings: { visibility_timeout_ms: 3_600_000 } } });
  const [file] = server.objectFiles('QueueObject').filter((path) => !before.has(path));
  return { queue, file };
}

async function fill(file, messages, batch, out) {
  const env = { ...toolEnv(), PULLQ_SCALE_FILE: file, PULLQ_SCALE_MESSAGES: messages + out, PULLQ_SCALE_BATCH: batch, PULLQ_SCALE_OUT: out };
  const filled = read('cargo', ['test', '--quiet', '--test', 'scale', '--', '--ignored', '--exact', 'fill_an_objects_database'], { env });
  if (filled === undefined) throw new Explained('The database could not be filled: cargo test --test scale says why.');
}

/** The resident memory of a workerd that has done nothing but pull from one queue, in kB. */
async function memoryAfterPulls(server, queue) {
  await restart(server);
  for (let pulled = 0; pulled < PULLS; pulled += 1) await queue.pull({ batch_size: 1 });
  return Number(read('ps', ['-o', 'rss=', '-p', String(server.pid)]));
}

/** How long the first pull from an object takes that is not in memory; `first`: a queue to be asked before. */
async function wakes(server, queue, { first }) {
  const times = [];
  for (let woken = 0; woken < WAKES; woken += 1) {
    await restart(server);
    if (first) await first.pull({ batch_size: 1 });
    times.push(await timed(() => queue.pull({ batch_size: PULL_SIZE })));
  }
  return `median ${milliseconds(median(times))}, at most ${milliseconds(Math.max(...times))} (${WAKES} times)`;
}

/** Pulls from the big queue and from small ones in turn, so that both see the same machine. */
async function comparePulls(server, big, small) {
  await restart(server);
  const times = { big: [], small: [] };
  const pullOne = async (queue) => {
    const pulled = await queue.pull({ batch_size: PULL_SIZE });
    if (pulled.messages.length !== PULL_SIZE) throw new Error(`a pull brought ${pulled.messages.length} messages`);
  };
  for (const queue of [big, ...small]) await pullOne(queue);
  for (const queue of small) {
    for (let pulled = 0; pulled < PULLS; pulled += 1) {
      times.big.push(await timed(() => pullOne(big)));
      times.small.push(await timed(() => pullOne(queue)));
    }
  }
  const [few, many] = [median(times.small), median(times.big)];
  show(`pull of ${PULL_SIZE}`, `median ${milliseconds(few)} with ${FEW} waiting, ${milliseconds(many)} with ${MESSAGES}: ratio ${(many / few).toFixed(2)} (${times.big.length} of each, in turn)`);
}

async function restart(server) {
  await server.kill();
  await server.start();
}

async function timed(work) {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

function milliseconds(ms) {
  return `${ms.toFixed(1)} ms`;
}

function megabytes(kb) {
  return `${((kb * 1_024) / 1_000_000).toFixed(1)} MB`;
}

function show(what, figure) {
  console.log(`  ${what.padEnd(30)} ${figure}`);
}
