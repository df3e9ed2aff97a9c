// All queues at a glance: the overview, the last hour, /metrics, what a token may do, and the log.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, ACCOUNT, OTHER_ACCOUNT, sleep } from "../support/api.mjs";
import { DEV, startPullq } from "../support/pullq.mjs";

const reader = { name: "reader", token: "reads-some", account: ACCOUNT, queues: ["seen-*"], permissions: ["queues:read"] };
let pullq, api;
before(async () => {
  pullq = await startPullq({ tokens: [DEV, reader], bindings: { COUNT_ROWS: "on" } });
  api = new Api(pullq);
});
after(() => pullq?.stop());

const overview = (since, who = api) => who.ok("GET", since === undefined ? "/overview" : `/overview?since=${since}`);
const byName = ({ queues }, name) => queues.find(({ queue_name }) => queue_name === name);
const scrape = async (token, query = "") => {
  const response = await fetch(`${pullq.url}/metrics${query}`, { headers: { authorization: `Bearer ${token}` } });
  return { status: response.status, type: response.headers.get("content-type"), text: await response.text() };
};

/** What `look` gives once it satisfies `is`: a queue tells the directory of a change beside its answer. */
async function once(look, is) {
  for (let tries = 0; tries < 100; tries++) {
    const seen = await look();
    if (is(seen)) return seen;
    await sleep(20);
  }
  assert.fail(`not seen: ${JSON.stringify(await look())}`);
}

test("the overview shows how each queue stands, and then only what has changed", async () => {
  const queue = await api.queue({ name: "seen-orders", consumer: { dead_letter_queue: "seen-dead" } });
  await api.queue({ name: "unseen" });
  await queue.texts(["a", "b", "c"]);
  await queue.text("later", { delay_seconds: 600 });
  await queue.take({ batch_size: 1 });
  const all = await once(() => overview(), (seen) => byName(seen, "seen-orders")?.out_count === 1);
  const { created_on, oldest_message_timestamp_ms, state_as_of_ms, counters, ...shown } = byName(all, "seen-orders");
  assert.deepEqual(shown, {
    queue_id: queue.id, queue_name: "seen-orders", delivery_paused: false, has_consumer: true, dead_letter_queue: "seen-dead",
    waiting_count: 2, out_count: 1, delayed_count: 1, backlog_bytes: 8,
  });
  assert.ok(Math.abs(oldest_message_timestamp_ms - Date.now()) < 60_000 && state_as_of_ms >= oldest_message_timestamp_ms && created_on);
  assert.deepEqual([counters.sent, counters.delivered], [4, 1]);
  assert.equal(all.queue_count, 2);

  const quiet = await once(() => overview(all.version + 1), ({ queues }) => queues.length === 0);
  await queue.settle({ acks: await queue.take() });
  const changed = await once(() => overview(quiet.version + 1), ({ queues }) => queues.length > 0);
  assert.deepEqual(changed.queues.map(({ queue_name, waiting_count, out_count }) => [queue_name, waiting_count, out_count]), [["seen-orders", 0, 1]]);
  const renamed = await overview();
  await api.ok("PATCH", queue.path, { settings: { delivery_paused: true } });
  const paused = await overview(renamed.version);
  assert.equal(byName(paused, "seen-orders").delivery_paused, true);
  assert.equal((await api.call("GET", "/overview?since=x")).status, 400);
});

test("time alone is seen too: a lease that ends, a delay that is over", async () => {
  const queue = await api.queue({ name: "seen-in-time" });
  await queue.text("leased");
  await queue.take({ visibility_timeout_ms: 300 });
  await once(() => overview(), (seen) => byName(seen, "seen-in-time").out_count === 1);
  await once(() => overview(), (seen) => byName(seen, "seen-in-time").waiting_count === 1);
});

test("a token for some queues sees those alone, and learns what it may do", async () => {
  const limited = new Api(pullq, { token: reader.token });
  const { queues, queue_count } = await overview(undefined, limited);
  assert.ok(queues.length > 0 && queues.every(({ queue_name }) => queue_name.startsWith("seen-")));
  assert.equal(queue_count, queues.length);
  assert.ok(!(await scrape(reader.token)).text.includes("unseen"));
  const { permissions, queues: names } = await limited.ok("GET", "~/user/tokens/verify");
  assert.deepEqual({ permissions, names }, { permissions: ["queues:read"], names: ["seen-*"] });
  assert.equal((await new Api(pullq, { token: reader.token, account: OTHER_ACCOUNT }).call("GET", "/overview")).status, 403);
});

test("a queue of another account, and a deleted one, are not shown", async () => {
  const other = new Api(pullq, { account: OTHER_ACCOUNT });
  const queue = await other.queue({ name: "elsewhere" });
  await queue.text("x");
  await once(() => overview(undefined, other), (seen) => byName(seen, "elsewhere")?.waiting_count === 1);
  assert.equal(byName(await overview(), "elsewhere"), undefined);
  await other.ok("DELETE", queue.path);
  assert.deepEqual((await overview(undefined, other)).queues, []);
});

test("/metrics shows the same to Prometheus, to who has a token", async () => {
  const queue = await api.queue({ name: "seen-by-prometheus" });
  await queue.texts(["a", "b"]);
  await queue.settle({ acks: await queue.take({ batch_size: 1 }) });
  const labels = `account="${ACCOUNT}",queue="seen-by-prometheus"`;
  const { text, type } = await once(() => scrape(reader.token), ({ text }) => text.includes(`acknowledged_total{${labels}} 1`));
  assert.match(type, /^text\/plain; version=0\.0\.4/);
  for (const line of [
    `pullq_queue_messages{${labels},state="waiting"} 1`,
    `pullq_queue_messages{${labels},state="out"} 0`,
    `pullq_queue_messages_sent_total{${labels}} 2`,
    `pullq_queue_backlog_bytes{${labels}} 1`,
    `pullq_queue_consumers{${labels}} 1`,
  ]) assert.ok(text.split("\n").includes(line), line);
  const age = Number(new RegExp(`oldest_message_age_seconds{${labels}} (.*)`).exec(text)[1]);
  assert.ok(age >= 0 && age < 60);

  assert.equal((await fetch(`${pullq.url}/metrics`)).status, 401);
  // A token for every account says which.
  assert.equal((await scrape(DEV.token)).status, 400);
  assert.equal((await scrape(DEV.token, `?account=${ACCOUNT}`)).status, 200);
  assert.equal((await scrape(DEV.token, "?account=x")).status, 400);
  assert.equal((await scrape(reader.token, `?account=${OTHER_ACCOUNT}`)).status, 403);
});

test("a look at all queues wakes only those that did something", async () => {
  const idle = await api.queue({ name: "idle" });
  const busy = await api.queue({ name: "busy" });
  await idle.text("x");
  await busy.text("x");
  await once(() => overview(), (seen) => byName(seen, "idle").waiting_count === 1 && byName(seen, "busy").waiting_count === 1);
  await pullq.restart();
  const rows = async (queue) => Number((await api.call("GET", `${queue.path}/metrics`)).headers.get("x-pullq-rows-read"));
  await busy.text("y");
  await once(() => overview(), (seen) => byName(seen, "busy").waiting_count === 2);
  for (let looks = 0; looks < 5; looks++) await overview();
  // An object counts the rows it has read since it woke: this is the first thing it is asked.
  const first = await rows(idle);
  await pullq.restart();
  assert.equal(first, await rows(idle), "the idle queue's object had not been asked");
});

test("the last hour is told minute by minute", async () => {
  const queue = await api.queue();
  await queue.texts(["a", "b"]);
  await queue.settle({ acks: await queue.take({ batch_size: 1 }) });
  const { minutes } = await api.ok("GET", `${queue.path}/history`);
  const now = minutes.at(-1);
  assert.deepEqual([now.backlog_count, now.backlog_bytes, now.counters.sent, now.counters.acknowledged], [1, 1, 2, 1]);
  assert.equal(now.minute_ms % 60_000, 0);
});
