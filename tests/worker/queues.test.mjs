// Queues and consumers: made, listed, read, deleted; and that no queue and no
// account ever touches another.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, OTHER_ACCOUNT, UNKNOWN_ID, bodies, everyCall } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

const DUPLICATE_QUEUE = { status: 409, code: 11009 };
const SECOND_CONSUMER = { status: 409, code: 11004 };
const NO_SUCH_QUEUE = { status: 404 };
const NO_SUCH_CONSUMER = { status: 404 };

const DEFAULT_SETTINGS = { delivery_delay: 0, delivery_paused: false, message_retention_period: 345_600 };

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

async function refused([method, path, body], expected, who = api) {
  const { status, headers, json } = await who.call(method, path, body);
  const shown = `${method} ${path}: ${status} ${JSON.stringify(json)}`;
  assert.equal(status, expected.status, shown);
  if (expected.code !== undefined) assert.equal(json.errors[0].code, expected.code, shown);
  // The SDKs repeat a 409 of their own accord unless told that it can't help.
  if (status === 409) assert.equal(headers.get("x-should-retry"), "false", shown);
}

test("a new queue says its id, name, times, settings, and that it has no producers and consumers", async () => {
  const from_ms = Date.now();
  const queue = await api.ok("POST", "/queues", { queue_name: "fresh" });
  const { queue_id, created_on, modified_on, ...rest } = queue;
  assert.match(queue_id, /^[0-9a-f]{32}$/);
  assert.deepEqual(rest, {
    queue_name: "fresh",
    settings: DEFAULT_SETTINGS,
    producers: [],
    producers_total_count: 0,
    consumers: [],
    consumers_total_count: 0,
  });
  for (const time of [created_on, modified_on]) {
    assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/);
    // A time may be cut to the second.
    assert.ok(Date.parse(time) >= from_ms - 1_000 && Date.parse(time) <= Date.now());
  }
  assert.deepEqual(await api.ok("GET", `/queues/${queue_id}`), queue);
});

test("a queue keeps the settings it is made with", async () => {
  for (const settings of [
    { delivery_delay: 5, delivery_paused: true, message_retention_period: 60 },
    { delivery_delay: 86_400, delivery_paused: false, message_retention_period: 1_209_600 },
    { message_retention_period: 86_400 },
    {},
  ]) {
    const { queue_id } = await api.ok("POST", "/queues", { queue_name: `set-${JSON.stringify(settings).length}`, settings });
    assert.deepEqual((await api.ok("GET", `/queues/${queue_id}`)).settings, { ...DEFAULT_SETTINGS, ...settings });
  }
});

test("every letter a queue's name may have is taken, up to 63 of them", async () => {
  for (const queue_name of ["a", "0", "MiXed-Case_1.2", "x".repeat(63)]) {
    assert.equal((await api.ok("POST", "/queues", { queue_name })).queue_name, queue_name);
  }
});

test("a second queue of a name is refused, and the first is untouched", async () => {
  const queue = await api.queue({ name: "one-of-a-kind" });
  await queue.text("1");
  await refused(["POST", "/queues", { queue_name: "one-of-a-kind" }], DUPLICATE_QUEUE);
  assert.deepEqual(bodies(await queue.take()), ["1"]);
});

test("two creations of one name at the same moment make one queue", async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => api.call("POST", "/queues", { queue_name: "raced" })));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409, 409, 409]);
  assert.equal((await api.ok("GET", "/queues?name=raced")).length, 1);
});

test("the list has every queue of the account, whole, and pages through them", async () => {
  const lister = new Api(pullq, { account: "11111111111111111111111111111111" });
  const empty = await lister.call("GET", "/queues");
  assert.deepEqual(empty.json.result, []);
  assert.equal(empty.json.result_info.total_count, 0);

  for (const name of ["one", "two", "three"]) await lister.queue({ name });
  const { json } = await lister.call("GET", "/queues");
  assert.deepEqual(json.result.map(({ queue_name }) => queue_name).sort(), ["one", "three", "two"]);
  const { page, per_page, count, total_count, total_pages } = json.result_info;
  assert.deepEqual({ page, per_page, count, total_count, total_pages }, { page: 1, per_page: 20, count: 3, total_count: 3, total_pages: 1 });
  for (const queue of json.result) {
    assert.equal(queue.consumers.length, 1);
    assert.equal(queue.consumers[0].type, "http_pull");
    assert.equal(queue.consumers_total_count, 1);
    assert.deepEqual(queue, await lister.ok("GET", `/queues/${queue.queue_id}`));
  }

  const pages = [];
  for (const page of [1, 2, 3]) pages.push((await lister.ok("GET", `/queues?page=${page}&per_page=2`)).map(({ queue_name }) => queue_name));
  assert.deepEqual(pages.map((names) => names.length), [2, 1, 0]);
  assert.deepEqual(pages.flat().sort(), ["one", "three", "two"]);
});

test("a deleted queue is gone with its consumer and messages, and its name is free", async () => {
  const queue = await api.queue({ name: "short-lived" });
  await queue.texts(["1", "2"]);
  const [leased] = (await queue.pull({ batch_size: 1 })).messages;
  const { status, json } = await api.call("DELETE", queue.path);
  assert.equal(status, 200);
  assert.ok(json.result === undefined || json.result === null);

  for (const call of everyCall(queue)) await refused(call, NO_SUCH_QUEUE);
  assert.deepEqual(await api.ok("GET", "/queues?name=short-lived"), []);

  const successor = await api.queue({ name: "short-lived" });
  assert.notEqual(successor.id, queue.id);
  await successor.isQuiet(0);
  const late = await successor.settle({ acks: [leased] });
  assert.deepEqual({ ...late, warnings: Object.keys(late.warnings) }, { ackCount: 0, retryCount: 0, warnings: [leased.lease_id] });
});

test("a queue that was never made answers 404 to everything", async () => {
  for (const call of everyCall({ path: `/queues/${UNKNOWN_ID}` })) await refused(call, NO_SUCH_QUEUE);
});

test("a consumer says its id, queue, type and settings, is listed and shown with its queue", async () => {
  const queue = await api.queue({ consumer: null });
  assert.deepEqual(await api.ok("GET", `${queue.path}/consumers`), []);
  const consumer = await api.ok("POST", `${queue.path}/consumers`, {
    type: "http_pull",
    settings: { batch_size: 10, max_retries: 7, retry_delay: 3, visibility_timeout_ms: 6_000 },
  });
  assert.match(consumer.consumer_id, /^[0-9a-f]{32}$/);
  assert.match(consumer.created_on, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/);
  assert.equal(consumer.queue_name, queue.name);
  assert.equal(consumer.type, "http_pull");
  assert.equal(consumer.dead_letter_queue, "");
  assert.deepEqual(consumer.settings, { batch_size: 10, max_retries: 7, retry_delay: 3, visibility_timeout_ms: 6_000 });
  assert.deepEqual((await api.ok("GET", `${queue.path}/consumers`)).map(({ consumer_id }) => consumer_id), [consumer.consumer_id]);
  const shown = await api.ok("GET", queue.path);
  assert.deepEqual(shown.consumers.map(({ consumer_id }) => consumer_id), [consumer.consumer_id]);
  assert.equal(shown.consumers_total_count, 1);
});

test("a consumer made with nothing said gets a batch of 5, 30 seconds and 3 retries", async () => {
  const queue = await api.queue();
  const [{ settings }] = await api.ok("GET", `${queue.path}/consumers`);
  assert.equal(settings.batch_size, 5);
  assert.equal(settings.visibility_timeout_ms, 30_000);
  assert.equal(settings.max_retries, 3);
});

test("a queue has one consumer: a second is refused, after a deletion another may come", async () => {
  const queue = await api.queue();
  await queue.text("1");
  await refused(["POST", `${queue.path}/consumers`, { type: "http_pull" }], SECOND_CONSUMER);
  const [{ consumer_id }] = await api.ok("GET", `${queue.path}/consumers`);
  await refused(["DELETE", `${queue.path}/consumers/${UNKNOWN_ID}`], NO_SUCH_CONSUMER);
  const { status, json } = await api.call("DELETE", `${queue.path}/consumers/${consumer_id}`);
  assert.equal(status, 200);
  assert.ok(json.result === undefined || json.result === null);
  await refused(["DELETE", `${queue.path}/consumers/${consumer_id}`], NO_SUCH_CONSUMER);
  assert.deepEqual(await api.ok("GET", `${queue.path}/consumers`), []);

  await queue.text("2");
  await api.ok("POST", `${queue.path}/consumers`, { type: "http_pull" });
  assert.deepEqual(bodies(await queue.take()), ["1", "2"]);
});

test("a queue without an http_pull consumer takes messages and says how to get one when it is pulled", async () => {
  const queue = await api.queue({ consumer: null });
  await queue.text("1");
  const { status, json } = await api.call("POST", `${queue.path}/messages/pull`, {});
  assert.equal(status, 405);
  assert.match(json.errors[0].message, /http_pull/);
  assert.match(json.errors[0].message, /consumers/);
  await api.ok("POST", `${queue.path}/consumers`, { type: "http_pull" });
  assert.deepEqual(bodies(await queue.take()), ["1"]);
});

test("a lease id of another queue settles nothing and is warned of", async () => {
  const [one, two] = [await api.queue(), await api.queue()];
  await one.text("one");
  await two.text("two");
  const [leaseOfOne] = await one.take();
  const [leaseOfTwo] = await two.take();
  for (const settlement of [{ acks: [leaseOfOne] }, { retries: [leaseOfOne] }]) {
    const { ackCount, retryCount, warnings } = await two.settle(settlement);
    assert.deepEqual({ ackCount, retryCount, warned: Object.keys(warnings) }, { ackCount: 0, retryCount: 0, warned: [leaseOfOne.lease_id] });
  }
  await one.isQuiet(1);
  await two.isQuiet(1);
  assert.equal((await one.settle({ acks: [leaseOfOne] })).ackCount, 1);
  assert.equal((await two.settle({ acks: [leaseOfTwo] })).ackCount, 1);
});

test("queues of one account don't touch each other", async () => {
  const [one, two] = [await api.queue(), await api.queue()];
  await one.texts(["1", "2"]);
  await two.isQuiet(0);
  await two.text("3");
  assert.deepEqual(bodies(await two.take()), ["3"]);
  assert.deepEqual(bodies(await one.take()), ["1", "2"]);
});

test("an account never sees another's queue, by name, by id or in a list", async () => {
  const other = new Api(pullq, { account: OTHER_ACCOUNT });
  const mine = await api.queue({ name: "same-name" });
  await mine.text("mine");
  for (const call of everyCall(mine)) await refused(call, NO_SUCH_QUEUE, other);
  assert.deepEqual(await other.ok("GET", "/queues?name=same-name"), []);
  const theirs = await other.queue({ name: "same-name" });
  assert.notEqual(theirs.id, mine.id);
  await theirs.isQuiet(0);
  assert.equal((await other.call("DELETE", theirs.path)).status, 200);
  assert.deepEqual(bodies(await mine.take()), ["mine"]);
});
