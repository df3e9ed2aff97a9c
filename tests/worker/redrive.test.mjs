// Redrive on real objects: dead letters go back to where they died, exactly once, at the rate that is
// asked for, until they are there or somebody stops it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, ACCOUNT, bodies, sleep } from "../support/api.mjs";
import { DEV, startPullq } from "../support/pullq.mjs";

const ordersOnly = { name: "orders", token: "orders-only", account: ACCOUNT, queues: ["one-*"], permissions: ["queues:read", "queues:write"] };
let pullq, api;
before(async () => {
  pullq = await startPullq({ tokens: [DEV, ordersOnly] });
  api = new Api(pullq);
});
after(() => pullq?.stop());

const redrive = (queue, request = {}) => api.ok("POST", `${queue.path}/redrive`, request);
const status = (queue) => api.ok("GET", `${queue.path}/redrive`);
const counters = async (queue) => (await api.ok("GET", `${queue.path}/metrics`)).counters;

/** The redrive of a queue, once it is over. */
async function over(queue) {
  for (let tries = 0; tries < 200; tries++) {
    const now = await status(queue);
    if (now.state !== "running") return now;
    await sleep(50);
  }
  assert.fail("the redrive does not end");
}

/** A queue with messages that died in it, and its dead-letter queue. */
async function withDead(name, messages) {
  const dead = await api.queue({ name: `${name}-dead` });
  const queue = await api.queue({ name, consumer: { dead_letter_queue: `${name}-dead`, settings: { max_retries: 0 } } });
  await queue.texts(messages);
  await queue.settle({ retries: await queue.take() });
  for (let tries = 0; tries < 100; tries++) {
    const { backlog_count } = await api.ok("GET", `${dead.path}/metrics`);
    if (backlog_count === messages.length) return { queue, dead };
    await sleep(50);
  }
  assert.fail("the dead letters do not arrive");
}

test("dead letters go back to the queue in which they died and begin anew; what died nowhere stays", async () => {
  const { queue, dead } = await withDead("back", ["a", "b", "c"]);
  await dead.text("sent here");
  assert.deepEqual(await status(dead), {
    state: "none", destination_queue_name: null, messages_per_second: null, messages_to_move: 0, moved: 0, skipped: 0, started_on: null, ended_on: null,
  });
  const begun = await redrive(dead);
  assert.equal(begun.state, "running");
  assert.equal(begun.messages_to_move, 4);
  const done = await over(dead);
  assert.deepEqual({ ...done, started_on: 0, ended_on: 0 }, {
    state: "completed", destination_queue_name: null, messages_per_second: null, messages_to_move: 4, moved: 3, skipped: 1, started_on: 0, ended_on: 0,
  });
  assert.ok(done.started_on <= done.ended_on);
  const back = await queue.takeUntil(3);
  assert.deepEqual(bodies(back), ["a", "b", "c"]);
  for (const { attempts, metadata } of back) {
    assert.equal(attempts, 1);
    assert.equal(metadata["pullq-dead-letter-queue"], undefined);
  }
  assert.deepEqual(bodies(await dead.take()), ["sent here"]);
  const { redriven, dead_lettered } = await counters(dead);
  assert.deepEqual({ redriven, dead_lettered }, { redriven: 3, dead_lettered: 0 });
});

test("a message that dies again while a redrive runs is not sent round in a circle", async () => {
  const { queue, dead } = await withDead("circle", ["x"]);
  await redrive(dead, { messages_per_second: 1 });
  await queue.settle({ retries: await queue.takeUntil(1) });
  assert.equal((await over(dead)).moved, 1);
  await dead.takeUntil(1);
  await queue.isQuiet(0);
});

test("chosen messages move to a queue that is named, wherever they stand", async () => {
  const from = await api.queue();
  const to = await api.queue();
  await from.texts(["a", "b", "c", "d"]);
  const { messages } = await api.ok("POST", `${from.path}/messages/peek`, { batch_size: 10 });
  const refs = messages.filter(({ body }) => "bd".includes(body)).map(({ ref }) => ({ ref }));
  await redrive(from, { destination_queue_name: to.name, refs: [...refs, "not a ref"] });
  const { moved, skipped, destination_queue_name } = await over(from);
  assert.deepEqual({ moved, skipped, destination_queue_name }, { moved: 2, skipped: 1, destination_queue_name: to.name });
  assert.deepEqual(bodies(await to.take()), ["b", "d"]);
  assert.deepEqual(bodies(await from.take()), ["a", "c"]);
});

test("a redrive keeps its rate, goes on after a restart, and stops when it is told to", async () => {
  const from = await api.queue();
  const to = await api.queue();
  await from.texts(Array.from({ length: 100 }, (_, n) => `${n}`));
  await redrive(from, { destination_queue_name: to.name, messages_per_second: 20 });
  const refused = await api.call("POST", `${from.path}/redrive`, {});
  assert.equal(refused.status, 409);
  assert.equal(refused.json.errors[0].code, 19009);
  await sleep(600);
  await pullq.restart();
  await sleep(600);
  const stopped = await api.ok("DELETE", `${from.path}/redrive`);
  assert.equal(stopped.state, "stopped");
  assert.ok(stopped.moved >= 4 && stopped.moved < 80, `${stopped.moved} in about 1.2 s at 20 a second`);
  await sleep(400);
  const { moved } = await status(from);
  assert.ok(moved <= stopped.moved + 4, "what had begun to move arrives, and nothing more");
  assert.equal((await to.take()).length, moved);
  assert.equal((await from.take()).length, 100 - moved);
});

test("a thousand messages arrive once each, although the runtime is killed again and again", async () => {
  const from = await api.queue();
  const to = await api.queue();
  for (let batch = 0; batch < 10; batch++) await from.texts(Array.from({ length: 100 }, (_, n) => `${batch}-${n}`));
  await redrive(from, { destination_queue_name: to.name, messages_per_second: 1_000 });
  for (let kills = 0; kills < 4; kills++) {
    await sleep(150);
    await pullq.restart();
  }
  assert.equal((await over(from)).moved, 1_000);
  const arrived = bodies(await to.takeUntil(1_000, { within_ms: 20_000 }));
  assert.equal(new Set(arrived).size, 1_000);
  await to.isQuiet(1_000);
  await from.isQuiet(0);
});

test("a redrive that can't be is refused and changes nothing", async () => {
  const from = await api.queue({ name: "one-from" });
  await api.queue({ name: "other" });
  await from.text("stays");
  const limited = new Api(pullq, { token: ordersOnly.token });
  const cases = [
    [api, { destination_queue_name: "nowhere" }, 404, 19010, /Create it first/],
    [api, { destination_queue_name: from.name }, 409, 19011, /Name another one/],
    [api, { messages_per_second: 0 }, 400, 10207, /from 1 to 10000/],
    [api, { refs: [{}] }, 400, 10207, /refs\[0\]\.ref is missing/],
    [limited, { destination_queue_name: "other" }, 403, 10106, /does not allow/],
    // Where each goes to its own, that may be any queue.
    [limited, {}, 403, 10106, /does not allow/],
  ];
  for (const [who, request, status, code, message] of cases) {
    const { status: answered, json } = await who.call("POST", `${from.path}/redrive`, request);
    assert.deepEqual([answered, json.errors[0].code], [status, code], JSON.stringify(request));
    assert.match(json.errors[0].message, message);
  }
  assert.equal((await status(from)).state, "none");
  assert.deepEqual(bodies(await from.take()), ["stays"]);
});
