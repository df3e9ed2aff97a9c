// Nothing is lost, made up or doubled when the server is killed again and again: a real workerd with
// its storage on disk, producers and consumers over HTTP, SIGKILL at random moments.
//
// PULLQ_KILLS (5) at least, over PULLQ_KILL_SECONDS (12); PULLQ_KILL_SEED for the same choices again.
// A killed process is what is shown here; what a power cut leaves is the disk's and workerd's matter.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { startWorkerd } from '../../scripts/lib/workerd.mjs';
import { Api, sleep } from '../support/api.mjs';
import { DEV, apiTokens } from '../support/pullq.mjs';
import { random as seeded } from '../support/random.mjs';
import { History } from './history.mjs';
import { judge } from './judge.mjs';
import { Load } from './load.mjs';

const KILLS = Number(process.env.PULLQ_KILLS ?? 5);
const SECONDS = Number(process.env.PULLQ_KILL_SECONDS ?? 12);
const SEED = Number(process.env.PULLQ_KILL_SEED ?? Date.now() % 1_000_000);
const PRODUCERS = 8;
const CONSUMERS = 8;

/** What the judge has to know of the queues. */
const RULES = {
  work: { max_retries: 2, dead_letter_queue: 'dead' },
  plain: { max_retries: 100 },
  dead: { max_retries: 100 },
};

/** A server with queues, and a gate that is open while it is up. */
async function setUp() {
  const server = await startWorkerd({ bindings: { API_TOKENS: apiTokens([DEV]) } });
  const api = new Api(server);
  const queues = {};
  for (const [name, { max_retries, dead_letter_queue }] of Object.entries(RULES).reverse()) {
    const settings = { max_retries, visibility_timeout_ms: 1_500 };
    queues[name] = await api.queue({ name, consumer: { settings, ...(dead_letter_queue && { dead_letter_queue }) } });
  }
  let up = Promise.resolve();
  const gate = { up: () => up, url: () => server.url };
  /** Kills the server, leaves it dead for a while, and starts it again on the same storage. */
  const kill = async (downFor_ms, meanwhile = () => {}) => {
    let opened;
    up = new Promise((open) => (opened = open));
    const { signal } = await server.kill();
    assert.equal(signal, 'SIGKILL', 'the server was alive until it was killed');
    await meanwhile();
    await sleep(downFor_ms);
    await server.start();
    opened();
  };
  const history = new History();
  return { server, queues, history, kill, load: new Load({ gate, queues, history }) };
}

test(`${KILLS} kills under load: lost 0, unexpected 0, no duplicate without a reason`, { timeout: SECONDS * 1_000 + 240_000 }, async (t) => {
  const random = seeded(SEED);
  const { server, history, kill, load } = await setUp();
  t.after(() => server.stop());
  const began_ms = Date.now();
  load.begin({ producers: PRODUCERS, consumers: CONSUMERS, random: random.fork() });
  const mean_ms = (SECONDS * 1_000) / (KILLS + 1);
  let kills = 0;
  let cutMoves = 0;
  while (kills < KILLS || Date.now() < began_ms + (SECONDS - 1) * 1_000) {
    // Most of the time in full swing, now and then right after it came up.
    await sleep(random.chance(0.15) ? random.between(0, 100) : random.between(100, mean_ms * 1.7));
    await kill(random.between(0, 100), () => (cutMoves += movesUnderWay(server)));
    kills += 1;
  }
  await load.finish();
  await load.drain(4);
  const { violations, figures } = judge(history, RULES);
  t.diagnostic(`seed ${SEED}: ${kills} kills in ${Math.round((Date.now() - began_ms) / 1_000)} s`);
  t.diagnostic(`moves to the dead-letter queue that had begun and not arrived at a kill: ${cutMoves}`);
  for (const [name, count] of Object.entries(figures)) t.diagnostic(`${name.replaceAll('_', ' ')}: ${count}`);
  assert.deepEqual(violations.slice(0, 20), [], `${violations.length} violations with seed ${SEED}`);
  assert.equal(figures.refused, 0, 'nothing was asked that may be refused');
  assert.ok(figures.messages_delivered > 50 * KILLS, `the load was real: ${figures.messages_delivered} messages`);
  assert.ok(figures.dead_lettered > 0, 'messages moved to the dead-letter queue');
  assert.ok(figures.sends_unanswered + figures.pulls_unanswered + figures.settles_unanswered > 0, 'kills cut requests off');
});

test('the count notices when storage loses a block', { timeout: 60_000 }, async (t) => {
  const random = seeded(SEED);
  const { server, queues, history, kill, load } = await setUp();
  t.after(() => server.stop());
  for (const number of [0, 1, 2]) await load.sendSome(queues.plain, 0, number, 10, random);
  await kill(0, () => server.objectFiles('QueueObject').forEach(forgetLatestBlock));
  await load.drain(2);
  const { figures, violations } = judge(history, RULES);
  assert.deepEqual([figures.messages_sent, figures.messages_delivered, figures.lost], [30, 20, 10]);
  assert.deepEqual(violations[0], 'lost: message 0-20: its send was answered, and it was never delivered');
});

/** How many moves one object had begun and the other not taken, read from a copy of what the dead server left. */
function movesUnderWay(server) {
  const folder = mkdtempSync(join(tmpdir(), 'pullq-kill-'));
  const begun = [];
  let arrived = 0;
  try {
    for (const file of server.objectFiles('QueueObject')) {
      const copy = join(folder, basename(file));
      for (const part of ['', '-wal'].filter((part) => existsSync(file + part))) copyFileSync(file + part, copy + part);
      const database = new DatabaseSync(copy);
      begun.push(...database.prepare('SELECT seq FROM hold WHERE kind = 2').all().map(({ seq }) => seq));
      arrived = Math.max(arrived, database.prepare('SELECT max(number) AS number FROM arrival').get().number ?? 0);
      database.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return begun.filter((seq) => seq > arrived).length;
}

/** Takes the latest send out of a queue's storage, and with it the ledger that counts it. */
function forgetLatestBlock(file) {
  const database = new DatabaseSync(file);
  try {
    database.exec('DELETE FROM block WHERE id = (SELECT max(id) FROM block)');
  } finally {
    database.close();
  }
}
