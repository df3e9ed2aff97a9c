// What a queue was told it keeps: the runtime is killed and started again on the
// same storage, with messages in every state a message can be in.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, OTHER_ACCOUNT, bodies, sleep } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

const attempts = (messages) => messages.map(({ body, attempts }) => [body, attempts]);

test("messages in every state survive a kill, and lease ids from before it stay good", async () => {
  const queue = await api.queue();
  await queue.texts(["acked 1", "kept 1", "acked 2", "kept 2", "retried now", "retried later", "let go"]);
  const before = Object.fromEntries((await queue.take({ visibility_timeout_ms: 60_000 })).map((m) => [m.body, m]));
  await queue.settle({ acks: [before["acked 1"], before["acked 2"]], retries: [before["retried now"]] });
  const retried_from_ms = Date.now();
  await queue.settle({ retries: [{ ...before["retried later"], delay_seconds: 2 }] });
  const delayed_from_ms = Date.now();
  await queue.text("delayed", { delay_seconds: 2 });
  await queue.texts(["waiting 1", "waiting 2"]);

  await pullq.restart();

  const arrivals = [];
  while (arrivals.length < 5) {
    for (const message of await queue.takeUntil(1)) arrivals.push({ ...message, at_ms: Date.now() });
  }
  const arrived = Object.fromEntries(arrivals.map((message) => [message.body, message]));
  assert.deepEqual(attempts(arrivals).sort(), [
    ["delayed", 1],
    ["retried later", 2],
    ["retried now", 2],
    ["waiting 1", 1],
    ["waiting 2", 1],
  ]);
  assert.ok(arrived["retried later"].at_ms - retried_from_ms >= 2_000, "the delay of the retry held");
  assert.ok(arrived.delayed.at_ms - delayed_from_ms >= 2_000, "the delay of the send held");
  for (const [body, { id, timestamp_ms }] of Object.entries(arrived)) {
    if (body in before) assert.deepEqual({ id, timestamp_ms }, { id: before[body].id, timestamp_ms: before[body].timestamp_ms });
  }
  await queue.isQuiet(8, "the leases from before still run, and only what was acknowledged is gone");

  const old = await queue.settle({ acks: [before["kept 1"], before["kept 2"], before["acked 1"]], retries: [before["let go"]] });
  assert.deepEqual(old, { ackCount: 3, retryCount: 1, warnings: {} });
  assert.deepEqual(attempts(await queue.take()), [["let go", 2]]);
  assert.equal((await queue.settle({ acks: [...arrivals, before["let go"]] })).ackCount, 6);
  await queue.isQuiet(0);
});

test("a lease taken before a kill ends in its own time after it", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2"]);
  const from_ms = Date.now();
  const [first] = await queue.take({ visibility_timeout_ms: 1_500 });
  await pullq.restart();
  const again = await queue.takeUntil(2, { visibility_timeout_ms: 60_000 });
  assert.deepEqual(attempts(again), [["1", 2], ["2", 2]]);
  assert.ok(Date.now() - from_ms >= 1_500);
  assert.deepEqual(await queue.settle({ acks: [first] }), { ackCount: 1, retryCount: 0, warnings: {} }, "late, and from before the kill");
  assert.equal((await queue.settle({ acks: again })).ackCount, 2);
  await queue.isQuiet(0);
});

test("what was acknowledged stays so across two kills, and order and attempts go on where they were", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3"]);
  await queue.texts(["4", "5", "6"]);
  const firstHalf = (await queue.pull({ batch_size: 4 })).messages;
  await queue.settle({ acks: [firstHalf[0], firstHalf[3]], retries: [firstHalf[1]] });
  await pullq.restart();
  await queue.text("7");
  const [second] = (await queue.pull({ batch_size: 1 })).messages;
  assert.deepEqual(attempts([second]), [["2", 2]]);
  await queue.settle({ retries: [second] });
  await pullq.restart();
  assert.deepEqual(attempts(await queue.take()), [["2", 3], ["5", 1], ["6", 1], ["7", 1]]);
  await queue.isQuiet(5, "3 is still leased from before both kills");
});

test("queues, consumers and their settings survive a kill, each in its own account", async () => {
  const other = new Api(pullq, { account: OTHER_ACCOUNT });
  const mine = await api.queue({ name: "kept", settings: { delivery_delay: 0, message_retention_period: 3_600 }, consumer: { settings: { batch_size: 1 } } });
  const theirs = await other.queue({ name: "kept" });
  await mine.texts(["mine 1", "mine 2"]);
  await theirs.text("theirs");
  const queueBefore = await api.ok("GET", mine.path);
  await pullq.restart();
  assert.deepEqual(await api.ok("GET", mine.path), queueBefore);
  assert.deepEqual(bodies((await mine.pull()).messages), ["mine 1"], "the consumer's batch_size of 1 holds");
  assert.deepEqual(bodies((await theirs.pull()).messages), ["theirs"]);
  assert.equal((await api.call("POST", "/queues", { queue_name: "kept" })).status, 409);
});

test("a send that was answered before a kill is there after it, however little time lay between", async () => {
  const queue = await api.queue();
  const answered = [];
  // Sends at full speed until the kill cuts it off, and notes each answer the moment it arrives.
  const sender = (async () => {
    for (;;) {
      const body = `message ${answered.length}`;
      await queue.text(body);
      answered.push(body);
    }
  })();
  await Promise.race([sender, sleep(300)]);
  await pullq.restart(() => assert.rejects(sender, TypeError, "the kill cut the connection"));
  assert.ok(answered.length > 0);
  const kept = [];
  for (let messages; (messages = await queue.take({ visibility_timeout_ms: 60_000 })).length > 0; ) kept.push(...bodies(messages));
  assert.deepEqual(kept.slice(0, answered.length), answered);
  assert.ok(kept.length <= answered.length + 1, "at most the send that the kill cut off is there besides");
});
