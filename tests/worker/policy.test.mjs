// Delivery policy and what Cloudflare lacks, on real objects: settings that act
// at once, dead letters, purge, peek, lease extension, idempotent sends, metrics.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, bodies, sleep } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

const settings = (queue, settings) => api.ok("PATCH", queue.path, { settings });
const metrics = (queue) => api.ok("GET", `${queue.path}/metrics`);
const peek = async (queue) => (await api.ok("POST", `${queue.path}/messages/peek`, { batch_size: 100 })).messages;

/** The queue of this name, once it has been made. */
async function named(name) {
  for (let tries = 0; tries < 100; tries++) {
    const [found] = await api.ok("GET", `/queues?name=${name}`);
    if (found) return found;
    await sleep(50);
  }
  assert.fail(`no queue ${name}`);
}

test("a message whose deliveries are used up moves once to the dead-letter queue, which is made when it is missing", async () => {
  const consumer = { dead_letter_queue: "graveyard", settings: { max_retries: 1 } };
  const queue = await api.queue({ name: "mortal", consumer });
  const before_ms = Date.now();
  await queue.texts(["dies by time", "dies by retry", "lives"]);
  const first = await queue.take({ visibility_timeout_ms: 200 });
  const ids = Object.fromEntries(first.map(({ body, id }) => [body, id]));
  await queue.settle({ acks: [first[2]] });
  await sleep(250);
  const second = await queue.take({ visibility_timeout_ms: 200 });
  assert.deepEqual(second.map(({ body, attempts }) => [body, attempts]), [["dies by time", 2], ["dies by retry", 2]]);
  await queue.settle({ retries: [second[1]] });

  const { queue_id } = await named("graveyard");
  await api.ok("POST", `/queues/${queue_id}/consumers`, { type: "http_pull" });
  const graves = { path: `/queues/${queue_id}` };
  const dead = [];
  for (let tries = 0; tries < 100 && dead.length < 2; tries++) {
    const pull = await api.ok("POST", `${graves.path}/messages/pull`, { batch_size: 100 });
    dead.push(...pull.messages);
    await sleep(50);
  }
  assert.deepEqual(bodies(dead).sort(), ["dies by retry", "dies by time"]);
  for (const { id, body, attempts, metadata } of dead) {
    assert.equal(id, ids[body], "a dead letter keeps its id");
    assert.equal(attempts, 1);
    assert.equal(metadata["CF-Content-Type"], "text");
    assert.equal(metadata["pullq-dead-letter-queue"], "mortal");
    assert.equal(metadata["pullq-dead-letter-attempts"], "2");
    const first_sent_ms = Number(metadata["pullq-dead-letter-first-sent-ms"]);
    assert.ok(first_sent_ms >= before_ms && first_sent_ms <= Date.now());
  }
  await queue.isQuiet(0, "dead letters have left");
});

test("without a dead-letter queue a message is dropped after its last delivery", async () => {
  const queue = await api.queue({ consumer: { settings: { max_retries: 0 } } });
  await queue.text("once");
  const [message] = await queue.take({ visibility_timeout_ms: 100 });
  assert.equal(message.attempts, 1);
  await sleep(150);
  await queue.isQuiet(0, "dropped");
});

test("a paused queue takes sends, refuses pulls, and lets running leases be settled", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2"]);
  const [lease] = await queue.take({ batch_size: 1 });
  await settings(queue, { delivery_paused: true });
  await queue.text("3");
  const refused = await api.call("POST", `${queue.path}/messages/pull`, {});
  assert.equal(refused.status, 409);
  assert.equal(refused.json.errors[0].message, "queue_delivery_paused");
  assert.equal(refused.headers.get("x-should-retry"), "false");
  assert.equal((await queue.settle({ acks: [lease] })).ackCount, 1);
  await settings(queue, { delivery_paused: false });
  assert.deepEqual(bodies(await queue.take()), ["2", "3"]);
});

test("a queue's delivery delay, retention and consumer settings act at once", async () => {
  const queue = await api.queue({ consumer: { settings: { batch_size: 1, visibility_timeout_ms: 400, retry_delay: 1 } } });
  await settings(queue, { delivery_delay: 3_600 });
  await queue.text("delayed");
  await queue.text("0 overrides the default", { delay_seconds: 0 });
  await queue.text("now too", { delay_seconds: 0 });
  const [one, ...others] = (await queue.pull()).messages;
  assert.deepEqual([one.body, others], ["0 overrides the default", []]);
  await queue.settle({ retries: [one] });
  assert.deepEqual(bodies((await queue.pull()).messages), ["now too"]);
  await queue.isQuiet(3, "the retry waits for the consumer's delay");
  await sleep(450);
  const [late] = (await queue.pull()).messages;
  assert.deepEqual([late.body, late.attempts], ["now too", 2]);
  await queue.settle({ acks: [late] });
  const [again] = await queue.takeUntil(1);
  assert.deepEqual([again.body, again.attempts], ["0 overrides the default", 2]);
});

test("a purge removes everything and nothing that comes later, and its status says when", async () => {
  const queue = await api.queue();
  assert.deepEqual(await api.ok("GET", `${queue.path}/purge`), {});
  await queue.texts(["1", "2"]);
  await queue.text("later", { delay_seconds: 3_600 });
  const [lease] = await queue.take({ batch_size: 1 });
  const refused = await api.call("POST", `${queue.path}/purge`, {});
  assert.equal(refused.status, 400);
  await api.ok("POST", `${queue.path}/purge`, { delete_messages_permanently: true });
  const status = await api.ok("GET", `${queue.path}/purge`);
  assert.equal(status.completed, "true");
  assert.ok(Math.abs(Date.parse(status.started_at) - Date.now()) < 60_000);
  assert.equal((await queue.settle({ acks: [lease] })).ackCount, 1);
  await queue.text("new");
  assert.deepEqual(bodies(await queue.take()), ["new"]);
  assert.equal((await metrics(queue)).backlog_count, 1);
});

test("a peek takes no lease and counts no attempt, and its refs delete single messages", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3"]);
  const seen = await peek(queue);
  assert.deepEqual(seen.map(({ body, attempts }) => [body, attempts]), [["1", 0], ["2", 0], ["3", 0]]);
  assert.deepEqual(bodies(await peek(queue)), ["1", "2", "3"]);
  const refs = [{ ref: seen[1].ref }, { ref: "made up" }];
  const purged = await api.ok("POST", `${queue.path}/messages/purge`, { refs });
  assert.deepEqual(Object.keys(purged.warnings), ["made up"]);
  const taken = await queue.take();
  assert.deepEqual(taken.map(({ body, attempts }) => [body, attempts]), [["1", 1], ["3", 1]]);
  assert.deepEqual(await peek(queue), []);
});

test("a lease is extended while it runs, and late or unknown ones are warned of", async () => {
  const queue = await api.queue();
  await queue.texts(["kept", "left"]);
  const [kept, left] = await queue.take({ visibility_timeout_ms: 500 });
  const extend = (extensions) => api.ok("POST", `${queue.path}/messages/extend`, { extensions });
  const extended = await extend([{ lease_id: kept.lease_id, visibility_timeout_ms: 60_000 }]);
  assert.deepEqual(extended.warnings, {});
  await sleep(550);
  assert.deepEqual(bodies(await queue.take()), ["left"]);
  const late = await extend([{ lease_id: left.lease_id, visibility_timeout_ms: 60_000 }, { lease_id: "x", visibility_timeout_ms: 1 }]);
  assert.deepEqual(Object.keys(late.warnings).sort(), [left.lease_id, "x"].sort());
  const tooLong = await extend([{ lease_id: kept.lease_id, visibility_timeout_ms: 43_200_000 }]);
  assert.deepEqual(Object.keys(tooLong.warnings), [kept.lease_id]);
  assert.equal((await queue.settle({ acks: [kept] })).ackCount, 1);
});

test("a send with an idempotency key is stored once and answered alike", async () => {
  const queue = await api.queue();
  const send = (key, body) => api.call("POST", `${queue.path}/messages`, { body, content_type: "text" }, { "idempotency-key": key });
  const first = await send("k1", "a");
  const again = await send("k1", "b");
  await send("k2", "c");
  assert.deepEqual(again.json.result.ids, first.json.result.ids);
  assert.deepEqual(bodies(await queue.take()), ["a", "c"]);
  const refused = await send("k".repeat(257), "d");
  assert.equal(refused.status, 400);
});

test("a queue's metrics count what is unacknowledged, its bytes and its oldest message", async () => {
  const queue = await api.queue();
  const before_ms = Date.now();
  const { counters: nothing, ...empty } = await metrics(queue);
  assert.deepEqual(empty, { backlog_count: 0, backlog_bytes: 0, oldest_message_timestamp_ms: 0, waiting_count: 0, out_count: 0, delayed_count: 0 });
  assert.deepEqual(new Set(Object.values(nothing)), new Set([0]));
  await queue.texts(["12345", "678"]);
  const [first] = await queue.take({ batch_size: 1 });
  const { backlog_count, backlog_bytes, oldest_message_timestamp_ms, waiting_count, out_count } = await metrics(queue);
  assert.deepEqual([backlog_count, backlog_bytes, waiting_count, out_count], [2, 8, 1, 1]);
  assert.ok(oldest_message_timestamp_ms >= before_ms && oldest_message_timestamp_ms <= Date.now());
  await queue.settle({ acks: [first] });
  const after = await metrics(queue);
  assert.deepEqual([after.backlog_count, after.backlog_bytes], [1, 3]);
  assert.deepEqual(after.counters, {
    sent: 2,
    delivered: 1,
    acknowledged: 1,
    retried: 0,
    dead_lettered: 0,
    dropped: 0,
    expired: 0,
    purged: 0,
    redriven: 0,
    empty_pulls: 0,
  });
});

test("pulls and metrics of settings out of range are refused and change nothing", async () => {
  const queue = await api.queue();
  for (const bad of [{ delivery_delay: 86_401 }, { message_retention_period: 59 }, { message_retention_period: 1_209_601 }, { delivery_paused: "yes" }]) {
    const { status, json } = await api.call("PATCH", queue.path, { settings: bad });
    assert.equal(status, 400, JSON.stringify(json));
  }
  const now = await api.ok("GET", queue.path);
  assert.deepEqual(now.settings, { delivery_delay: 0, delivery_paused: false, message_retention_period: 345_600 });
});
