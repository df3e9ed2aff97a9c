// The official TypeScript SDK against a running pullq: what its users do, and
// what Cloudflare's page on pull consumers promises them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Cloudflare from "cloudflare";
import { ACCOUNT as account_id, UNKNOWN_ID, sleep } from "../support/api.mjs";
import { DEV_TOKEN, startPullq } from "../support/pullq.mjs";

let pullq, client;
before(async () => {
  pullq = await startPullq();
  client = newClient();
});
after(() => pullq?.stop());

/** No retries: one that succeeds the second time would hide a failure. */
function newClient(options = {}) {
  return new Cloudflare({ apiToken: DEV_TOKEN, baseURL: `${pullq.url}/client/v4`, maxRetries: 0, ...options });
}

const pull = (queue, params = {}) => client.queues.messages.pull(queue, { account_id, ...params });
const ack = (queue, params) => client.queues.messages.ack(queue, { account_id, ...params });
const leaseOf = ({ lease_id }) => ({ lease_id });

let made = 0;
async function newQueue(consumer = { settings: {} }) {
  const { queue_id } = await client.queues.create({ account_id, queue_name: `typescript-${++made}` });
  if (consumer !== null) await client.queues.consumers.create(queue_id, { account_id, type: "http_pull", ...consumer });
  return queue_id;
}

function bulkPush(queue, texts) {
  const messages = texts.map((body) => ({ body, content_type: "text" }));
  return client.queues.messages.bulkPush(queue, { account_id, messages });
}

async function pullUntil(queue, count, params = {}) {
  const messages = [];
  for (const end_ms = Date.now() + 5_000; messages.length < count; await sleep(20)) {
    assert.ok(Date.now() < end_ms, `${messages.length} of ${count} messages after 5 s`);
    messages.push(...(await pull(queue, { batch_size: count - messages.length, ...params })).messages);
  }
  return messages;
}

async function isDrained(queue) {
  const { messages, message_backlog_count } = await pull(queue);
  assert.deepEqual({ messages, message_backlog_count }, { messages: [], message_backlog_count: 0 });
}

async function collect(pages) {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
}

test("queues and their consumer are made, listed, read and deleted", async () => {
  const queue = await client.queues.create({ account_id, queue_name: "typescript-life" });
  assert.match(queue.queue_id, /^[0-9a-f]{32}$/);
  assert.equal(queue.queue_name, "typescript-life");
  const consumer = await client.queues.consumers.create(queue.queue_id, {
    account_id,
    type: "http_pull",
    settings: { batch_size: 50, max_retries: 3, visibility_timeout_ms: 6_000 },
  });
  assert.equal(consumer.type, "http_pull");
  assert.equal(consumer.settings.batch_size, 50);
  assert.equal(consumer.settings.visibility_timeout_ms, 6_000);

  const listed = (await collect(client.queues.list({ account_id }))).filter(({ queue_name }) => queue_name === "typescript-life");
  assert.deepEqual(listed.map(({ queue_id, consumers_total_count }) => [queue_id, consumers_total_count]), [[queue.queue_id, 1]]);
  const read = await client.queues.get(queue.queue_id, { account_id });
  assert.deepEqual(read.consumers.map(({ consumer_id }) => consumer_id), [consumer.consumer_id]);
  const consumers = await collect(client.queues.consumers.list(queue.queue_id, { account_id }));
  assert.deepEqual(consumers.map(({ consumer_id }) => consumer_id), [consumer.consumer_id]);

  assert.equal((await client.queues.consumers.delete(consumer.consumer_id, { account_id, queue_id: queue.queue_id })).success, true);
  assert.deepEqual(await collect(client.queues.consumers.list(queue.queue_id, { account_id })), []);
  assert.equal((await client.queues.delete(queue.queue_id, { account_id })).success, true);
  await assert.rejects(client.queues.get(queue.queue_id, { account_id }), Cloudflare.NotFoundError);
});

test("messages come as the page on content types says: text plain, json in base64 and the default", async () => {
  const queue = await newQueue();
  const from_ms = Date.now();
  await client.queues.messages.push(queue, { account_id, body: "grüße 🚀", content_type: "text" });
  await client.queues.messages.push(queue, { account_id, body: { greeting: "hello" }, content_type: "json" });
  await client.queues.messages.push(queue, { account_id, body: { n: [1, 2.5, null] } });
  await client.queues.messages.bulkPush(queue, {
    account_id,
    messages: [{ body: "bulk", content_type: "text" }, { body: ["bulk"], content_type: "json" }],
  });
  const { messages, message_backlog_count } = await pull(queue);
  assert.equal(message_backlog_count, 5);
  assert.deepEqual(
    messages.map(({ body, metadata, attempts }) => [body, metadata["CF-Content-Type"], attempts]),
    [
      ["grüße 🚀", "text", 1],
      ["eyJncmVldGluZyI6ImhlbGxvIn0=", "json", 1],
      ["eyJuIjpbMSwyLjUsbnVsbF19", "json", 1],
      ["bulk", "text", 1],
      ["WyJidWxrIl0=", "json", 1],
    ],
  );
  for (const { id, lease_id, timestamp_ms } of messages) {
    assert.match(id, /^[0-9a-f]{32}$/);
    assert.equal(typeof lease_id, "string");
    assert.ok(timestamp_ms >= from_ms && timestamp_ms <= Date.now());
  }
  const result = await ack(queue, { acks: messages.map(leaseOf), retries: [] });
  assert.deepEqual(result, { ackCount: 5, retryCount: 0, warnings: {} });
  await isDrained(queue);
});

test("batch_size is 5 unless it is said, and at most 100", async () => {
  const queue = await newQueue();
  const sent = Array.from({ length: 100 }, (_, n) => `${n}`);
  await bulkPush(queue, sent);
  const first = (await pull(queue)).messages.map(({ body }) => body);
  const rest = (await pull(queue, { batch_size: 100 })).messages.map(({ body }) => body);
  assert.deepEqual([first.length, rest.length], [5, 95]);
  assert.deepEqual([...first, ...rest], sent);
  await assert.rejects(pull(queue, { batch_size: 101 }), Cloudflare.BadRequestError);
});

test("some are acknowledged, some retried, some left: each does what the page says", async () => {
  const queue = await newQueue();
  await bulkPush(queue, ["acked", "retried", "retried later", "left", "acked too"]);
  const leased_ms = Date.now();
  const { messages } = await pull(queue, { batch_size: 10, visibility_timeout_ms: 1_000 });
  const lease = Object.fromEntries(messages.map((message) => [message.body, leaseOf(message)]));
  const retried_ms = Date.now();
  const result = await ack(queue, {
    acks: [lease.acked, lease["acked too"]],
    retries: [lease.retried, { ...lease["retried later"], delay_seconds: 2 }],
  });
  assert.deepEqual(result, { ackCount: 2, retryCount: 2, warnings: {} });

  const arrivals = [];
  while (arrivals.length < 3) {
    for (const message of await pullUntil(queue, 1, { visibility_timeout_ms: 60_000 })) arrivals.push({ ...message, at_ms: Date.now() });
  }
  assert.deepEqual(arrivals.map(({ body, attempts }) => [body, attempts]), [["retried", 2], ["left", 2], ["retried later", 2]]);
  const [, left, later] = arrivals;
  assert.ok(left.at_ms - leased_ms >= 1_000, "the lease held for its visibility timeout");
  assert.ok(later.at_ms - retried_ms >= 2_000, "the retry waited for its delay");

  const late = await ack(queue, { acks: [lease.left] });
  assert.deepEqual(late, { ackCount: 1, retryCount: 0, warnings: {} }, "a late acknowledgement is accepted");
  const all = await ack(queue, { acks: arrivals.map(leaseOf) });
  assert.deepEqual(all, { ackCount: 3, retryCount: 0, warnings: {} }, "and so is that of the consumer that has the message now");
  await isDrained(queue);
});

test("a lease id nobody was given is warned of, and is no error", async () => {
  const queue = await newQueue();
  const { ackCount, retryCount, warnings } = await ack(queue, { acks: [{ lease_id: "lease_id1" }], retries: [{ lease_id: "lease_id4" }] });
  assert.deepEqual({ ackCount, retryCount, warned: Object.keys(warnings).sort() }, { ackCount: 0, retryCount: 0, warned: ["lease_id1", "lease_id4"] });
});

test("several consumers at once each get a batch of their own", async () => {
  const queue = await newQueue();
  const sent = Array.from({ length: 100 }, (_, n) => `${n}`);
  await bulkPush(queue, sent);
  const batches = await Promise.all(Array.from({ length: 10 }, () => pull(queue, { batch_size: 10 })));
  assert.deepEqual(batches.map(({ messages }) => messages.length), Array(10).fill(10));
  const bodies = batches.flatMap(({ messages }) => messages.map(({ body }) => body));
  assert.deepEqual(bodies.sort(), sent.sort());
});

test("what is refused becomes the SDK's error, with its code", async () => {
  const queue = await newQueue(null);
  const cases = [
    [() => pull(queue), 405, undefined],
    [() => pull(UNKNOWN_ID), 404, undefined],
    [() => client.queues.messages.push(queue, { account_id, body: "x".repeat(128_001), content_type: "text" }), 413, 10204],
    [() => bulkPush(queue, Array(101).fill("x")), 400, 10206],
    [() => client.queues.create({ account_id, queue_name: "not a name" }), 400, undefined],
  ];
  for (const [call, status, code] of cases) {
    await assert.rejects(call(), (error) => {
      assert.ok(error instanceof Cloudflare.APIError, `${error}`);
      assert.equal(error.status, status);
      if (code !== undefined) assert.equal(error.errors[0].code, code);
      assert.ok(error.errors[0].message.length > 0);
      return true;
    });
  }
  await assert.rejects(newClient({ apiToken: "wrong" }).queues.get(queue, { account_id }), (error) => [401, 403].includes(error.status));
});

test("an SDK that repeats conflicts of its own accord asks once, since a repeat can't help", async () => {
  let requests = 0;
  const counting = newClient({ maxRetries: 2, fetch: (...request) => (requests++, fetch(...request)) });
  const queue = await newQueue();
  const { queue_name } = await client.queues.get(queue, { account_id });
  await assert.rejects(counting.queues.create({ account_id, queue_name }), Cloudflare.ConflictError);
  await assert.rejects(counting.queues.consumers.create(queue, { account_id, type: "http_pull" }), Cloudflare.ConflictError);
  assert.equal(requests, 2);
});
