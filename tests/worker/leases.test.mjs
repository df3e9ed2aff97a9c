// Leases: who has a message and until when, how it is given back (a retry, a
// delay, time), and what a lease id is still good for afterwards.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { alarmTimesMs, forgetAlarms } from "../support/alarms.mjs";
import { Api, bodies, sleep } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

const attempts = (messages) => messages.map(({ body, attempts }) => [body, attempts]);

/** Asserts what a settlement answered: its counts, and which lease ids it warned about. */
function settled(result, { ackCount = 0, retryCount = 0, warned = [] }) {
  assert.deepEqual(
    { ackCount: result.ackCount, retryCount: result.retryCount, warned: Object.keys(result.warnings).sort() },
    { ackCount, retryCount, warned: [...warned].sort() },
    JSON.stringify(result),
  );
  for (const text of Object.values(result.warnings)) assert.ok(typeof text === "string" && text.length > 0);
}

/** A queue with one message whose first lease is over, and that lease. */
async function withEndedLease() {
  const queue = await api.queue();
  await queue.text("m");
  const [lease] = await queue.take({ visibility_timeout_ms: 100 });
  await sleep(150);
  return { queue, lease };
}

test("a retry without a delay is deliverable at once, with attempts 2", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2"]);
  const [first] = await queue.take();
  settled(await queue.settle({ retries: [first] }), { retryCount: 1 });
  assert.deepEqual(attempts(await queue.take()), [["1", 2]]);
});

test("a retry with a delay comes back when it is over, and not before", async () => {
  const queue = await api.queue();
  await queue.text("1");
  const [message] = await queue.take();
  const from_ms = Date.now();
  settled(await queue.settle({ retries: [{ ...message, delay_seconds: 1 }] }), { retryCount: 1 });
  const again = await queue.takeUntil(1);
  const waited_ms = Date.now() - from_ms;
  assert.deepEqual(attempts(again), [["1", 2]]);
  assert.ok(waited_ms >= 1_000 && waited_ms < 3_000, `after ${waited_ms} ms`);
});

test("a delayed send comes when its delay is over, and holds up no later message", async () => {
  const queue = await api.queue();
  const from_ms = Date.now();
  await queue.text("alone", { delay_seconds: 1 });
  await queue.batch(
    [
      { body: "of the batch", content_type: "text" },
      { body: "its own", content_type: "text", delay_seconds: 2 },
      { body: "none", content_type: "text", delay_seconds: 0 },
    ],
    { delay_seconds: 1 },
  );
  await queue.text("now");
  const arrived_ms = {};
  while (Object.keys(arrived_ms).length < 5) {
    for (const { body } of await queue.takeUntil(1)) arrived_ms[body] = Date.now() - from_ms;
  }
  for (const [body, due_ms] of Object.entries({ none: 0, now: 0, alone: 1_000, "of the batch": 1_000, "its own": 2_000 })) {
    assert.ok(arrived_ms[body] >= due_ms && arrived_ms[body] < due_ms + 2_000, `${body}: ${arrived_ms[body]} ms`);
  }
  assert.deepEqual(Object.keys(arrived_ms).slice(0, 2), ["none", "now"]);
});

test("a lease that has ended is deliverable by the clock alone, no alarm having fired", async () => {
  const queue = await api.queue();
  await queue.text("m");
  await queue.pull({ visibility_timeout_ms: 300 });
  await pullq.restart(async () => {
    forgetAlarms(pullq);
    await sleep(400);
  });
  // The first the queue hears after waking, so no alarm can have come before it.
  assert.deepEqual(attempts(await queue.take()), [["m", 2]]);
});

test("a lease that has ended is deliverable after its alarm has fired, with attempts 2", async () => {
  await pullq.restart(() => forgetAlarms(pullq));
  const queue = await api.queue();
  await queue.text("m");
  const from_ms = Date.now();
  await queue.pull({ visibility_timeout_ms: 300 });
  const [alarm_ms] = alarmTimesMs(pullq);
  assert.ok(alarm_ms >= from_ms + 300 && alarm_ms <= Date.now() + 1_300, `the alarm stands at the end of the lease: ${alarm_ms - from_ms}`);
  const fired = () => alarmTimesMs(pullq).every((time_ms) => time_ms > alarm_ms);
  for (const end_ms = Date.now() + 5_000; !fired(); await sleep(20)) {
    assert.ok(Date.now() < end_ms, "the alarm has not fired");
  }
  assert.deepEqual(attempts(await queue.take()), [["m", 2]]);
});

test("two deliveries of a message lie at least its visibility timeout apart", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3"]);
  const seen_ms = { 1: [], 2: [], 3: [] };
  const end_ms = Date.now() + 10_000;
  for (let deliveries = 0; deliveries < 9; ) {
    assert.ok(Date.now() < end_ms, `${deliveries} of 9 deliveries`);
    // Both ends of a pull, since the lease began somewhere between them.
    const from_ms = Date.now();
    const messages = await queue.take({ visibility_timeout_ms: 200 });
    const to_ms = Date.now();
    for (const { body, attempts } of messages) {
      seen_ms[body].push({ from_ms, to_ms });
      assert.equal(attempts, seen_ms[body].length);
      deliveries += 1;
    }
    await sleep(10);
  }
  for (const [body, times] of Object.entries(seen_ms)) {
    for (const [n, { to_ms }] of times.slice(1).entries()) {
      assert.ok(to_ms - times[n].from_ms >= 200, `message ${body}, delivery ${n + 2}`);
    }
  }
});

test("what has come back goes before what was never delivered, and blocks nothing", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3", "4"]);
  const [first] = (await queue.pull({ batch_size: 1 })).messages;
  await queue.settle({ retries: [first] });
  assert.deepEqual(attempts((await queue.pull({ batch_size: 2 })).messages), [["1", 2], ["2", 1]]);
  assert.deepEqual(attempts((await queue.pull({ batch_size: 2 })).messages), [["3", 1], ["4", 1]]);
});

test("a message is delivered at most max_retries + 1 times, 4 unless the consumer says otherwise", async () => {
  for (const [consumer, deliveries] of [[{}, 4], [{ settings: { max_retries: 1 } }, 2], [{ settings: { max_retries: 0 } }, 1]]) {
    const queue = await api.queue({ consumer });
    await queue.text("fails");
    for (let n = 1; n <= deliveries; n++) {
      const messages = await queue.take();
      assert.deepEqual(attempts(messages), [["fails", n]], JSON.stringify(consumer));
      await queue.settle({ retries: messages });
    }
    await queue.isQuiet(0, `dropped after ${deliveries} deliveries`);
  }
});

test("a late acknowledgement is accepted, and the message never comes again", async () => {
  const { queue, lease } = await withEndedLease();
  settled(await queue.settle({ acks: [lease] }), { ackCount: 1 });
  await queue.isQuiet(0);
});

test("a late acknowledgement is accepted while another consumer has the message, and so is that consumer's own", async () => {
  const { queue, lease } = await withEndedLease();
  const [other] = await queue.take();
  assert.equal(other.attempts, 2);
  settled(await queue.settle({ acks: [lease] }), { ackCount: 1 });
  settled(await queue.settle({ acks: [other] }), { ackCount: 1 });
  await queue.isQuiet(0);
});

test("a message acknowledged late does not come back when the other consumer lets its lease end", async () => {
  const { queue, lease } = await withEndedLease();
  await queue.take({ visibility_timeout_ms: 200 });
  settled(await queue.settle({ acks: [lease] }), { ackCount: 1 });
  await sleep(250);
  await queue.isQuiet(0);
});

test("a late retry is warned of and changes nothing for the consumer that has the message now", async () => {
  const { queue, lease } = await withEndedLease();
  const [other] = await queue.take();
  settled(await queue.settle({ retries: [lease] }), { warned: [lease.lease_id] });
  await queue.isQuiet(1);
  settled(await queue.settle({ acks: [other] }), { ackCount: 1 });
});

test("a late retry with a delay delays nothing", async () => {
  const { queue, lease } = await withEndedLease();
  settled(await queue.settle({ retries: [{ ...lease, delay_seconds: 600 }] }), { warned: [lease.lease_id] });
  assert.deepEqual(attempts(await queue.take()), [["m", 2]]);
});

test("after a retry the lease id can still acknowledge, and retries no second time", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2"]);
  const [first, second] = await queue.take();
  await queue.settle({ retries: [first, second] });
  settled(await queue.settle({ retries: [second] }), { warned: [second.lease_id] });
  settled(await queue.settle({ acks: [first] }), { ackCount: 1 });
  assert.deepEqual(attempts(await queue.take()), [["2", 2]]);
});

test("an acknowledged message is not brought back by a retry", async () => {
  const queue = await api.queue();
  await queue.text("1");
  const [message] = await queue.take();
  await queue.settle({ acks: [message] });
  settled(await queue.settle({ retries: [message] }), { warned: [message.lease_id] });
  await queue.isQuiet(0);
});

test("a lease id both acknowledged and retried is acknowledged, and the retry is warned of", async () => {
  const queue = await api.queue();
  await queue.text("1");
  const [message] = await queue.take();
  settled(await queue.settle({ acks: [message], retries: [message] }), { ackCount: 1, warned: [message.lease_id] });
  await queue.isQuiet(0);
});

test("a lease id nobody was given settles nothing and is warned of, beside others that count", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2", "3"]);
  const [first, second] = await queue.take();
  const altered = (at) => {
    const letters = [...first.lease_id];
    letters[at] = letters[at] === "A" ? "B" : "A";
    return letters.join("");
  };
  const forged = [
    "x",
    "not a lease id",
    "é世🚀",
    "a".repeat(5_000),
    `${first.lease_id}x`,
    first.lease_id.slice(0, -1),
    altered(0),
    altered(first.lease_id.length >> 1),
    altered(first.lease_id.length - 2),
    "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2Q0JDLUhTNTEyIn0..a.b.c",
  ];
  settled(await queue.settle({ acks: [...forged, first] }), { ackCount: 1, warned: forged });
  settled(await queue.settle({ retries: [...forged, second] }), { retryCount: 1, warned: forged });
  assert.deepEqual(attempts(await queue.take()), [["2", 2]]);
});

test("as many consumers as like share a queue, and no two get the same message", async () => {
  const queue = await api.queue();
  const sent = Array.from({ length: 500 }, (_, n) => `message ${n}`);
  for (let n = 0; n < 500; n += 100) await queue.texts(sent.slice(n, n + 100));
  const takenBy = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const taken = [];
      for (;;) {
        const { messages } = await queue.pull({ batch_size: 10, visibility_timeout_ms: 60_000 });
        if (messages.length === 0) return taken;
        taken.push(...messages);
      }
    }),
  );
  const taken = takenBy.flat();
  assert.deepEqual(bodies(taken).sort(), [...sent].sort());
  assert.ok(taken.every(({ attempts }) => attempts === 1));
  assert.ok(takenBy.filter((messages) => messages.length > 0).length > 1, "more than one consumer got some");
  settled(await queue.settle({ acks: taken }), { ackCount: 500 });
  await queue.isQuiet(0);
});

test("20 pulls at the same moment for one message: one gets it", async () => {
  const queue = await api.queue();
  await queue.text("only");
  const pulls = await Promise.all(Array.from({ length: 20 }, () => queue.take()));
  assert.deepEqual(bodies(pulls.flat()), ["only"]);
});

test("sends, pulls and acknowledgements at the same time lose nothing and repeat nothing", async () => {
  const queue = await api.queue();
  const seen = [];
  let sending = true;
  const producers = Array.from({ length: 5 }, async (_, producer) => {
    for (let n = 0; n < 20; n++) await queue.texts([`${producer}/${n}/a`, `${producer}/${n}/b`]);
  });
  const consumers = Array.from({ length: 5 }, async () => {
    for (;;) {
      const last = !sending;
      const messages = await queue.take({ visibility_timeout_ms: 60_000 });
      seen.push(...bodies(messages));
      if (messages.length > 0) assert.equal((await queue.settle({ acks: messages })).ackCount, messages.length);
      else if (last) return;
    }
  });
  await Promise.all(producers);
  sending = false;
  await Promise.all(consumers);
  const sent = Array.from({ length: 200 }, (_, n) => `${Math.floor(n / 40)}/${Math.floor(n / 2) % 20}/${n % 2 ? "b" : "a"}`);
  assert.deepEqual(seen.sort(), sent.sort());
  await queue.isQuiet(0);
});
