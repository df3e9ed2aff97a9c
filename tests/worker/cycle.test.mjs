// The way of a message: sent, pulled, acknowledged. Counts, defaults and order
// as the contract has them; what goes wrong on the way is in errors.test.mjs.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, bodies } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

test("a message is delivered once, and never again after it was acknowledged", async () => {
  const queue = await api.queue();
  const sent_from_ms = Date.now();
  await queue.send({ body: { greeting: "hello" } });
  const sent_to_ms = Date.now();

  const { messages, message_backlog_count } = await queue.pull();
  assert.equal(message_backlog_count, 1);
  assert.equal(messages.length, 1);
  const [message] = messages;
  assert.match(message.id, /^[0-9a-f]{32}$/);
  assert.equal(message.attempts, 1);
  assert.equal(message.body, "eyJncmVldGluZyI6ImhlbGxvIn0=");
  assert.equal(message.metadata["CF-Content-Type"], "json");
  assert.ok(Number.isInteger(message.timestamp_ms));
  assert.ok(message.timestamp_ms >= sent_from_ms && message.timestamp_ms <= sent_to_ms, "timestamp_ms is the time of sending");
  assert.equal(typeof message.lease_id, "string");
  assert.ok(message.lease_id.length > 0);

  await queue.isQuiet(1, "while the lease runs nobody else gets the message, and it still counts");
  assert.deepEqual(await queue.settle({ acks: [message] }), { ackCount: 1, retryCount: 0, warnings: {} });
  await queue.isQuiet(0);
});

test("a pull of an empty queue answers at once with an empty list", async () => {
  const queue = await api.queue();
  const from_ms = Date.now();
  const { messages, message_backlog_count } = await queue.pull();
  assert.deepEqual(messages, []);
  assert.equal(message_backlog_count, 0);
  assert.ok(Date.now() - from_ms < 1_000);
});

test("a batch is taken whole and in its order, up to 100 messages", async () => {
  const queue = await api.queue();
  const sent = Array.from({ length: 100 }, (_, n) => `message ${n}`);
  await queue.texts(sent);
  const { messages, message_backlog_count } = await queue.pull({ batch_size: 100 });
  assert.equal(message_backlog_count, 100);
  assert.deepEqual(bodies(messages), sent);
  assert.equal(new Set(messages.map(({ id }) => id)).size, 100, "every message has an id of its own");
  assert.equal(new Set(messages.map(({ lease_id }) => lease_id)).size, 100, "every delivery has a lease id of its own");
  assert.deepEqual(await queue.settle({ acks: messages }), { ackCount: 100, retryCount: 0, warnings: {} });
  await queue.isQuiet(0);
});

test("first deliveries follow the order of the sends, single ones and batches alike", async () => {
  const queue = await api.queue();
  await queue.text("1");
  await queue.texts(["2", "3", "4"]);
  await queue.text("5");
  await queue.text("6");
  await queue.texts(["7", "8", "9", "10"]);
  const seen = [];
  for (const batch_size of [2, 3, 1, 2, 2]) seen.push(bodies((await queue.pull({ batch_size })).messages));
  assert.deepEqual(seen, [["1", "2"], ["3", "4", "5"], ["6"], ["7", "8"], ["9", "10"]]);
});

test("a pull without batch_size brings 5", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3", "4", "5", "6", "7"]);
  assert.deepEqual(bodies((await queue.pull()).messages), ["1", "2", "3", "4", "5"]);
});

test("what a consumer is set to holds where a pull doesn't say", async () => {
  const queue = await api.queue({ consumer: { settings: { batch_size: 2, visibility_timeout_ms: 300 } } });
  await queue.texts(["1", "2", "3"]);
  const from_ms = Date.now();
  assert.deepEqual(bodies((await queue.pull()).messages), ["1", "2"]);
  const rest = await queue.takeUntil(3, { visibility_timeout_ms: 60_000 });
  const attempts = Object.fromEntries(rest.map(({ body, attempts }) => [body, attempts]));
  assert.deepEqual(attempts, { 1: 2, 2: 2, 3: 1 });
  assert.ok(Date.now() - from_ms >= 300);
});

test("some, none or all of a batch may be acknowledged, in any number of calls", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3", "4", "5"]);
  const messages = await queue.take();
  assert.deepEqual(await queue.settle({}), { ackCount: 0, retryCount: 0, warnings: {} });
  assert.deepEqual(await api.ok("POST", `${queue.path}/messages/ack`, {}), { ackCount: 0, retryCount: 0, warnings: {} });
  await queue.isQuiet(5);
  assert.equal((await queue.settle({ acks: [messages[1], messages[3]] })).ackCount, 2);
  await queue.isQuiet(3);
  assert.equal((await queue.settle({ acks: [messages[0], messages[2], messages[4]] })).ackCount, 3);
  await queue.isQuiet(0);
});

test("acknowledging is idempotent: the same lease id counts each time and warns of nothing", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2"]);
  const [first, second] = await queue.take();
  assert.deepEqual(await queue.settle({ acks: [first, first] }), { ackCount: 2, retryCount: 0, warnings: {} });
  assert.deepEqual(await queue.settle({ acks: [first] }), { ackCount: 1, retryCount: 0, warnings: {} });
  await queue.isQuiet(1, "the second message is still leased");
  await queue.settle({ acks: [second] });
  assert.deepEqual(await queue.settle({ acks: [first, second] }), { ackCount: 2, retryCount: 0, warnings: {} });
  await queue.isQuiet(0);
});

test("lease ids are read as plain strings and amid further keys too", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3"]);
  const [first, second, third] = await queue.take();
  const settled = await api.ok("POST", `${queue.path}/messages/ack`, {
    acks: [first.lease_id, second],
    retries: [{ ...third, note: "more than is needed" }],
    more: true,
  });
  assert.deepEqual(settled, { ackCount: 2, retryCount: 1, warnings: {} });
  assert.deepEqual(bodies(await queue.take()), ["3"]);
});

test("visibility_timeout without its unit means milliseconds", async () => {
  const queue = await api.queue();
  await queue.text("1");
  await queue.pull({ visibility_timeout: 200 });
  assert.equal((await queue.takeUntil(1, { within_ms: 3_000 }))[0].attempts, 2);
});

test("whole numbers are numbers however they are spelled, as a client with floats spells them", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3"]);
  for (const body of ['{"batch_size":2.0,"visibility_timeout_ms":30000.0}', '{"batch_size":1e0,"visibility_timeout_ms":3e4}']) {
    const { status, json } = await api.call("POST", `${queue.path}/messages/pull`, body);
    assert.equal(status, 200, `${body}: ${JSON.stringify(json)}`);
  }
  await queue.isQuiet(3);
});

test("the greatest values are taken: 100 messages for 12 hours, a delay of 24 hours", async () => {
  const queue = await api.queue();
  await queue.text("now");
  await queue.text("tomorrow", { delay_seconds: 86_400 });
  const { messages } = await queue.pull({ batch_size: 100, visibility_timeout_ms: 43_200_000 });
  assert.deepEqual(bodies(messages), ["now"]);
  assert.equal((await queue.settle({ retries: [{ ...messages[0], delay_seconds: 86_400 }] })).retryCount, 1);
  await queue.isQuiet(2);
});

test("a body is read as JSON whatever its Content-Type says", async () => {
  const queue = await api.queue();
  const types = ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/octet-stream", "nonsense"];
  for (const type of types) {
    const { status } = await api.call("POST", `${queue.path}/messages`, JSON.stringify({ body: type, content_type: "text" }), {
      "content-type": type,
    });
    assert.equal(status, 200, type);
  }
  const { status, json } = await api.call("POST", `${queue.path}/messages/pull`, "{}", { "content-type": "text/plain" });
  assert.equal(status, 200);
  assert.deepEqual(bodies(json.result.messages), types);
});

test("the headers the official SDKs send change nothing", async () => {
  const queue = await api.queue();
  const headers = { "api-version": "2026-11-30", "x-stainless-lang": "js", "x-stainless-retry-count": "0", "idempotency-key": "k" };
  const { status } = await api.call("POST", `${queue.path}/messages`, { body: 1 }, headers);
  assert.equal(status, 200);
  assert.deepEqual(bodies(await queue.take()), ["MQ=="]);
});
