// Backup and restore as selfhost/README.md describes them: the folder is copied while nothing runs, or
// while everything is frozen, and a server started on the copy has all of it.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, test } from "node:test";
import { Api, Queue, bodies, sleep } from "../support/api.mjs";
import { DEV_TOKEN, startSelfhost } from "../support/selfhost.mjs";

let folder;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "pullq-backup-test-"));
});
after(() => rm(folder, { recursive: true, force: true }));

const start = async (storage) => {
  const server = await startSelfhost(["--port", "0", "--storage", storage, "--dev"]);
  return { server, api: new Api(server, { token: DEV_TOKEN }) };
};

/** What a queue says it has and has done. */
const metrics = ({ api, path }) => api.ok("GET", `${path}/metrics`);

/** Fills a queue with messages in every state; the ones that are out stay so for minutes. */
async function fill(api, name) {
  const queue = await api.queue({ name, consumer: { settings: { max_retries: 1 }, dead_letter_queue: `${name}-dead` } });
  await queue.texts(Array.from({ length: 40 }, (_, n) => `${name} ${n}`));
  const out = await queue.take({ batch_size: 10, visibility_timeout_ms: 600_000 });
  await queue.settle({ acks: out.slice(0, 4), retries: [{ ...out[4], delay_seconds: 600 }] });
  await queue.texts(["later 1", "later 2"], { delay_seconds: 600 });
  // One that is used up: delivered twice, then a dead letter.
  const poison = await queue.take({ batch_size: 1, visibility_timeout_ms: 600_000 });
  await queue.settle({ retries: poison });
  const again = await queue.take({ batch_size: 1, visibility_timeout_ms: 600_000 });
  assert.deepEqual([again[0].body, again[0].attempts], [poison[0].body, 2]);
  await queue.settle({ retries: again });
  return { queue, leased: out.slice(5), dead: again[0].body };
}

/** Everything that `fill` left is there, under the ids and leases from before. */
async function isWhole(api, { queue: { id, name }, leased, dead }, before) {
  const queue = new Queue(api, id, name);
  assert.deepEqual(await metrics(queue), before);
  const waiting = [];
  for (let batch; (batch = await queue.take({ visibility_timeout_ms: 600_000 })).length > 0; ) waiting.push(...batch);
  assert.deepEqual(bodies(waiting), Array.from({ length: 29 }, (_, n) => `${name} ${n + 11}`));
  assert.equal((await queue.settle({ acks: leased })).ackCount, 5, "leases from before are good");
  assert.equal((await queue.settle({ acks: waiting })).ackCount, 29);
  await queue.isQuiet(3, "two delayed, one retried later");
  const [{ queue_id }] = await api.ok("GET", `/queues?name=${name}-dead`);
  const letters = await new Queue(api, queue_id, `${name}-dead`).api.ok("POST", `/queues/${queue_id}/messages/peek`, {});
  assert.deepEqual(bodies(letters.messages), [dead]);
}

test("a copy of the folder of a stopped server has every message, lease, delay and setting", async () => {
  const [storage, copy] = [join(folder, "stopped"), join(folder, "stopped-copy")];
  const first = await start(storage);
  const filled = [];
  for (const name of ["one", "two", "three"]) filled.push(await fill(first.api, name));
  await sleep(200);
  const before = [];
  for (const { queue } of filled) before.push(await metrics(queue));
  assert.equal((await first.server.stop()).code, 0);
  await cp(storage, copy, { recursive: true });

  const second = await start(copy);
  for (const [index, each] of filled.entries()) await isWhole(second.api, each, before[index]);
  await second.server.stop();
});

test("a copy made while workerd is frozen has every message that was answered before", async () => {
  const [storage, copy] = [join(folder, "frozen"), join(folder, "frozen-copy")];
  const first = await start(storage);
  const filled = await fill(first.api, "kept");
  const queues = [];
  for (let n = 0; n < 4; n += 1) queues.push(await first.api.queue({ name: `busy-${n}` }));
  const answered = queues.map(() => []);
  let stopped = false;
  const senders = queues.map(async (queue, n) => {
    for (let number = 0; !stopped; number += 1) {
      await queue.text(`${number}`);
      answered[n].push(`${number}`);
    }
  });
  await sleep(500);
  const before = await metrics(filled.queue);
  const pid = workerdOf(storage);
  process.kill(pid, "SIGSTOP");
  const known = answered.map((list) => list.length);
  await cp(storage, copy, { recursive: true });
  process.kill(pid, "SIGCONT");
  await sleep(100);
  stopped = true;
  await Promise.all(senders);
  assert.ok(answered.every((list, n) => list.length > known[n]), "those who sent meanwhile were answered afterwards");

  // Beside the first, which still runs: the copy isn't that one's.
  const second = await start(copy);
  await isWhole(second.api, filled, before);
  for (const [n, { id, name }] of queues.entries()) {
    const kept = [];
    const queue = new Queue(second.api, id, name);
    for (let batch; (batch = await queue.take({ visibility_timeout_ms: 600_000 })).length > 0; ) kept.push(...bodies(batch));
    assert.ok(known[n] > 0);
    assert.deepEqual(kept.slice(0, known[n]), answered[n].slice(0, known[n]));
    assert.ok(kept.length <= known[n] + 1, "at most the send that was on its way is there besides");
  }
  await second.server.stop();
  await first.server.stop();
});

function workerdOf(storage) {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(`--directory-path=disk=${storage}`);
    } catch {
      return false;
    }
  });
  assert.equal(pids.length, 1);
  return Number(pids[0]);
}

test("VACUUM, while nothing runs, gives back the room that acknowledged messages have left, and takes nothing else", async () => {
  const storage = join(folder, "vacuum");
  const first = await start(storage);
  const queue = await first.api.queue({ name: "large" });
  for (let n = 0; n < 25; n += 1) await queue.texts(Array(4).fill("x".repeat(60_000)));
  for (let batch; (batch = await queue.take({ batch_size: 20 })).length > 0; ) await queue.settle({ acks: batch });
  const kept = await fill(first.api, "kept");
  await sleep(200);
  const before = await metrics(kept.queue);
  await first.server.stop();
  const files = readdirSync(storage, { recursive: true }).filter((name) => name.endsWith(".sqlite")).map((name) => join(storage, name));
  const bytes = () => files.flatMap((path) => [path, `${path}-wal`]).reduce((sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0), 0);
  const full = bytes();
  for (const path of files) {
    const database = new DatabaseSync(path);
    database.exec("VACUUM");
    database.close();
  }
  assert.ok(full > 6_000_000 && bytes() < 500_000, `${full} bytes became ${bytes()}`);
  const second = await start(storage);
  await isWhole(second.api, kept, before);
  await second.server.stop();
});
