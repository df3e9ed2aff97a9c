// Long polls: a pull that waits is answered as soon as a message is there, first
// come, first served, and a client that goes away while it waits takes nothing.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { Api, bodies, sleep } from "../support/api.mjs";
import { DEV_TOKEN, startPullq } from "../support/pullq.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

/** The result of a promise and how long it took. */
async function timed(promise) {
  const from_ms = performance.now();
  const result = await promise;
  return { result, took_ms: performance.now() - from_ms };
}

/** Begins to wait for a message on a connection that the test can cut. */
async function waitOnSocket(queue, body) {
  const { hostname, port } = new URL(pullq.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  await new Promise((done) => socket.once("connect", done));
  const json = JSON.stringify(body);
  socket.write(
    `POST /client/v4/accounts/${api.account}${queue.path}/messages/pull HTTP/1.1\r\nHost: ${hostname}\r\n` +
      `Authorization: Bearer ${DEV_TOKEN}\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
  );
  return socket;
}

test("a waiting pull is answered as soon as a message is sent", async () => {
  const queue = await api.queue();
  const waiting = queue.pull({ wait_ms: 20_000 });
  await sleep(300);
  const sent = timed(waiting);
  await queue.text("here");
  const { result, took_ms } = await sent;
  assert.deepEqual(bodies(result.messages), ["here"]);
  assert.equal(result.message_backlog_count, 1);
  assert.ok(took_ms < 2_000, `after ${took_ms} ms`);
});

test("a waiting pull that nothing comes for ends with an empty batch when its time is over", async () => {
  const queue = await api.queue();
  const { result, took_ms } = await timed(queue.pull({ wait_ms: 700 }));
  assert.deepEqual(result.messages, []);
  assert.ok(took_ms >= 690 && took_ms < 3_000, `after ${took_ms} ms`);
});

test("a pull that could wait doesn't when a message is there", async () => {
  const queue = await api.queue();
  await queue.text("here");
  const { result, took_ms } = await timed(queue.pull({ wait_ms: 20_000 }));
  assert.deepEqual(bodies(result.messages), ["here"]);
  assert.ok(took_ms < 2_000, `after ${took_ms} ms`);
});

test("who came first is served first", async () => {
  const queue = await api.queue();
  const waiting = [];
  for (let nth = 0; nth < 5; nth++) {
    waiting.push(queue.pull({ wait_ms: 20_000, batch_size: 1 }));
    await sleep(50);
  }
  for (const body of ["1", "2", "3", "4", "5"]) {
    await queue.text(body);
    await sleep(50);
  }
  const got = (await Promise.all(waiting)).map(({ messages }) => bodies(messages));
  assert.deepEqual(got, [["1"], ["2"], ["3"], ["4"], ["5"]]);
});

test("one batch serves all who wait, as far as it goes", async () => {
  const queue = await api.queue();
  const waiting = [1, 2, 3].map(() => queue.pull({ wait_ms: 3_000, batch_size: 2 }));
  await sleep(200);
  await queue.texts(["1", "2", "3", "4", "5"]);
  const got = (await Promise.all(waiting)).flatMap(({ messages }) => bodies(messages));
  assert.deepEqual(got.sort(), ["1", "2", "3", "4", "5"]);
});

test("a lease that ends, a delay that is over and a retry wake who waits", async () => {
  const leased = await api.queue();
  await leased.text("leased");
  await leased.take({ visibility_timeout_ms: 500 });
  const [again] = await leased.take({ wait_ms: 10_000 });
  assert.deepEqual([again.body, again.attempts], ["leased", 2]);

  const delayed = await api.queue();
  await delayed.text("delayed", { delay_seconds: 1 });
  assert.deepEqual(bodies(await delayed.take({ wait_ms: 10_000 })), ["delayed"]);

  const retried = await api.queue();
  await retried.text("retried");
  const [lease] = await retried.take();
  const waiting = retried.take({ wait_ms: 10_000 });
  await sleep(100);
  await retried.settle({ retries: [lease] });
  assert.deepEqual(bodies(await waiting), ["retried"]);
});

for (const gone_for_ms of [0, 200, 3_000]) {
  test(`clients that went away ${gone_for_ms} ms ago take nothing and cost the next one nothing`, async () => {
    const queue = await api.queue();
    const sockets = await Promise.all([1, 2, 3].map(() => waitOnSocket(queue, { wait_ms: 30_000 })));
    await sleep(300);
    for (const socket of sockets) socket.destroy();
    await sleep(gone_for_ms);
    const waiting = queue.take({ wait_ms: 15_000 });
    await sleep(200);
    const handedOver = timed(waiting);
    await queue.text("for who is there");
    const { result, took_ms } = await handedOver;
    // attempts 1: no delivery was spent on those who had gone.
    assert.deepEqual(result.map(({ body, attempts }) => [body, attempts]), [["for who is there", 1]]);
    assert.ok(took_ms < 2_000, `after ${took_ms} ms`);
  });
}

test("with nobody left who waits, the message stays for the next pull", async () => {
  const queue = await api.queue();
  const socket = await waitOnSocket(queue, { wait_ms: 30_000 });
  await sleep(200);
  socket.destroy();
  await sleep(50);
  await queue.text("still here");
  await sleep(200);
  const got = await queue.take();
  assert.deepEqual(got.map(({ body, attempts }) => [body, attempts]), [["still here", 1]]);
});

test("a waiting pull keeps no other request waiting", async () => {
  const queue = await api.queue({ name: "busy" });
  const waiting = Array.from({ length: 20 }, () => queue.pull({ wait_ms: 1_500, batch_size: 1 }));
  await sleep(200);
  const { took_ms } = await timed(api.ok("GET", `${queue.path}/metrics`));
  assert.ok(took_ms < 1_000, `after ${took_ms} ms`);
  for (const { messages } of await Promise.all(waiting)) assert.deepEqual(messages, []);
});

test("pausing a queue gives nothing to who waits, resuming it does", async () => {
  const queue = await api.queue();
  const waiting = queue.take({ wait_ms: 10_000 });
  await sleep(100);
  await api.ok("PATCH", queue.path, { settings: { delivery_paused: true } });
  await queue.text("held back");
  await sleep(300);
  await api.ok("PATCH", queue.path, { settings: { delivery_paused: false } });
  assert.deepEqual(bodies(await waiting), ["held back"]);
});

test("who waits on a queue that is deleted gets an empty batch", async () => {
  const queue = await api.queue();
  const waiting = api.call("POST", `${queue.path}/messages/pull`, { wait_ms: 1_000 });
  await sleep(200);
  await api.ok("DELETE", queue.path);
  const { status } = await waiting.catch((error) => ({ status: String(error) }));
  assert.equal(status, 200);
});
