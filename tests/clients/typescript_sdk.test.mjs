// The official TypeScript SDK against a running pullq: what its users do, and
// what Cloudflare's page on pull consumers promises them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Cloudflare from "cloudflare";
import { ACCOUNT as account_id, UNKNOWN_ID, sleep } from "../support/api.mjs";
import { DEV_TOKEN, startPullq } from "../support/pullq.mjs";

let pullq, client;
/** What of the client was called and what there is to call, "messages.push" and so on. */
const called = new Set();
const methods = new Set();
before(async () => {
  pullq = await startPullq();
  client = newClient();
  const { queues } = client;
  for (const [name, resource] of Object.entries({ queues, ...subresources(queues) })) {
    for (const method of methodsOf(resource)) {
      methods.add(`${name}.${method}`);
      const original = resource[method];
      resource[method] = (...args) => (called.add(`${name}.${method}`), original.apply(resource, args));
    }
  }
});
after(() => pullq?.stop());

/** No retries: one that succeeds the second time would hide a failure. */
function newClient(options = {}) {
  return new Cloudflare({ apiToken: DEV_TOKEN, baseURL: `${pullq.url}/client/v4`, maxRetries: 0, ...options });
}

/** What hangs below a resource of the SDK: messages, consumers and so on. */
function subresources(resource) {
  return Object.fromEntries(Object.entries(resource).filter(([name, value]) => !name.startsWith("_") && typeof value === "object"));
}

/** The methods of a resource, those that its class inherits too. */
function methodsOf(resource) {
  const names = [];
  for (let type = Object.getPrototypeOf(resource); type !== Object.prototype; type = Object.getPrototypeOf(type)) {
    names.push(...Object.getOwnPropertyNames(type).filter((name) => name !== "constructor"));
  }
  return names;
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

/** Asserts that a call is refused with this status and code. */
function isRefused(call, status, code, what) {
  return assert.rejects(call, (error) => {
    assert.ok(error instanceof Cloudflare.APIError, `${what}: ${error}`);
    assert.deepEqual([error.status, error.errors[0].code], [status, code], what);
    return true;
  });
}

test("a queue is changed in part by edit and whole by update, its name too", async () => {
  const made = await client.queues.create({ account_id, queue_name: "typescript-settings" });
  assert.deepEqual(made.settings, { delivery_delay: 0, delivery_paused: false, message_retention_period: 345_600 });
  const edited = await client.queues.edit(made.queue_id, { account_id, settings: { delivery_delay: 7, delivery_paused: true } });
  assert.deepEqual(edited.settings, { delivery_delay: 7, delivery_paused: true, message_retention_period: 345_600 });
  await isRefused(pull(made.queue_id), 405, 19001, "a queue without a pull consumer");
  const updated = await client.queues.update(made.queue_id, {
    account_id,
    queue_name: "typescript-renamed",
    settings: { message_retention_period: 600 },
  });
  assert.deepEqual(updated.settings, { delivery_delay: 0, delivery_paused: false, message_retention_period: 600 });
  const read = await client.queues.get(made.queue_id, { account_id });
  assert.deepEqual([read.queue_id, read.queue_name, read.settings], [made.queue_id, "typescript-renamed", updated.settings]);
  await isRefused(client.queues.edit(made.queue_id, { account_id, jurisdiction: "eu" }), 400, 10026, "a jurisdiction");
});

test("a queue whose delivery is paused takes messages and gives them out again when it is resumed", async () => {
  const queue = await newQueue();
  await client.queues.edit(queue, { account_id, settings: { delivery_paused: true } });
  await bulkPush(queue, ["1"]);
  await assert.rejects(pull(queue), Cloudflare.ConflictError);
  await client.queues.edit(queue, { account_id, settings: { delivery_paused: false } });
  assert.deepEqual((await pull(queue)).messages.map(({ body }) => body), ["1"]);
});

test("a consumer is replaced, or made under the id it is given, and read by it", async () => {
  const queue_id = await newQueue(null);
  const id = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  const update = (settings, rest) => client.queues.consumers.update(id, { account_id, queue_id, type: "http_pull", settings, ...rest });
  const made = await update({ batch_size: 7, retry_delay: 5 }, { dead_letter_queue: "typescript-dead" });
  const settings = { batch_size: 7, max_retries: 3, retry_delay: 5, visibility_timeout_ms: 30_000 };
  assert.deepEqual([made.consumer_id, made.type, made.dead_letter_queue, made.settings], [id, "http_pull", "typescript-dead", settings]);
  const replaced = await update({ max_retries: 9 });
  assert.deepEqual(replaced.settings, { batch_size: 5, max_retries: 9, retry_delay: 0, visibility_timeout_ms: 30_000 });
  assert.equal(replaced.dead_letter_queue, "", "what is not said is at its default");
  assert.deepEqual(await client.queues.consumers.get(id, { account_id, queue_id }), replaced);
  await isRefused(client.queues.consumers.get(UNKNOWN_ID, { account_id, queue_id }), 404, 11006, "an unknown consumer");
  const worker = { account_id, type: "worker", script_name: "my-worker" };
  await isRefused(client.queues.consumers.create(await newQueue(null), worker), 400, 10026, "a Worker as consumer");
});

test("a peek takes no lease and counts as no delivery, and what it shows can be deleted by its ref", async () => {
  const queue = await newQueue();
  await bulkPush(queue, ["deleted", "kept"]);
  const { messages } = await client.queues.messages.peek(queue, { account_id, batch_size: 10 });
  assert.deepEqual(messages.map(({ body, attempts, lease_id }) => [body, attempts, lease_id]), [["deleted", 0, undefined], ["kept", 0, undefined]]);
  const { errors, warnings } = await client.queues.messages.purge(queue, { account_id, refs: [{ ref: messages[0].ref }, { ref: "unknown" }] });
  assert.deepEqual([errors, Object.keys(warnings)], [[], ["unknown"]]);
  const pulled = (await pull(queue)).messages;
  assert.deepEqual(pulled.map(({ id, body, attempts }) => [id, body, attempts]), [[messages[1].id, "kept", 1]]);
});

test("metrics count what is not acknowledged, and a purge leaves nothing", async () => {
  const queue = await newQueue();
  const from_ms = Date.now();
  const pushed = await client.queues.messages.push(queue, { account_id, body: "12345", content_type: "text", delay_seconds: 60 });
  assert.equal(pushed.metadata.metrics.backlog_count, 1);
  const bulk = await client.queues.messages.bulkPush(queue, { account_id, messages: [{ body: "123", content_type: "text" }] });
  assert.equal(bulk.metadata.metrics.backlog_count, 2);
  await pull(queue);
  const { backlog_count, backlog_bytes, oldest_message_timestamp_ms } = await client.queues.getMetrics(queue, { account_id });
  assert.deepEqual([backlog_count, backlog_bytes], [2, 8]);
  assert.ok(oldest_message_timestamp_ms >= from_ms && oldest_message_timestamp_ms <= Date.now());

  assert.deepEqual(await client.queues.purge.status(queue, { account_id }), {}, "no purge yet");
  await isRefused(client.queues.purge.start(queue, { account_id, delete_messages_permanently: false }), 400, 10026, "an unconfirmed purge");
  const purged = await client.queues.purge.start(queue, { account_id, delete_messages_permanently: true });
  assert.equal(purged.queue_id, queue);
  const { completed, started_at } = await client.queues.purge.status(queue, { account_id });
  assert.equal(completed, "true");
  assert.ok(Date.parse(started_at) >= from_ms - 1, started_at);
  const after = await client.queues.getMetrics(queue, { account_id });
  assert.deepEqual([after.backlog_count, after.backlog_bytes, after.oldest_message_timestamp_ms], [0, 0, 0]);
  await isDrained(queue);
});

test("event subscriptions: the list ends by itself, and everything else is refused", async () => {
  const subscriptions = client.queues.subscriptions;
  let requests = 0;
  const counting = newClient({ fetch: (...request) => (requests++, fetch(...request)) });
  const pages = { account_id, per_page: 10, order: "name", direction: "desc" };
  assert.deepEqual(await collect(counting.queues.subscriptions.list(pages)), []);
  assert.equal(requests, 1);
  assert.deepEqual(await collect(subscriptions.list({ account_id })), []);
  const subscription = {
    account_id,
    name: "uploads",
    enabled: true,
    events: ["bucket.created"],
    source: { type: "r2" },
    destination: { type: "queues.queue", queue_id: UNKNOWN_ID },
  };
  await isRefused(subscriptions.create(subscription), 403, 19004, "create");
  await isRefused(subscriptions.get(UNKNOWN_ID, { account_id }), 404, 19005, "get");
  await isRefused(subscriptions.update(UNKNOWN_ID, { account_id, enabled: false }), 404, 19005, "update");
  await isRefused(subscriptions.delete(UNKNOWN_ID, { account_id }), 404, 19005, "delete");
});

test("the SDK's list of queues is one page of 20, and asks for others in its query", async () => {
  const account_id = "b0a1b2c3d4e5f60718293a4b5c6d7e8f";
  const names = Array.from({ length: 23 }, (_, n) => `typescript-list-${String(n).padStart(2, "0")}`);
  for (const queue_name of names) await client.queues.create({ account_id, queue_name });
  const list = async (query) => (await collect(client.queues.list({ account_id }, { query }))).map(({ queue_name }) => queue_name);
  assert.equal((await list()).length, 20);
  const all = [...(await list({ page: 1 })), ...(await list({ page: 2 })), ...(await list({ page: 3 }))];
  assert.deepEqual(all.sort(), names);
  assert.deepEqual((await list({ per_page: 100 })).sort(), names);
});

test("an API key with an email is as good as a token", async () => {
  const keyed = new Cloudflare({
    apiToken: null,
    apiKey: DEV_TOKEN,
    apiEmail: "me@example.com",
    baseURL: `${pullq.url}/client/v4`,
    maxRetries: 0,
  });
  const queue = await newQueue();
  assert.equal((await keyed.queues.get(queue, { account_id })).queue_id, queue);
});

test("every method that the SDK has under queues was called", () => {
  assert.equal(methods.size, 25, [...methods].join(", "));
  assert.deepEqual([...methods].filter((method) => !called.has(method)), []);
});
