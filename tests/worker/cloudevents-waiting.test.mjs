// Clients of the CloudEvents face that wait: many of them on many channels cost
// the objects nothing but memory, and those that go away take nothing with them.
import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { after, before, test } from "node:test";
import { sleep } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

const ACCOUNT = "0123456789abcdef0123456789abcdef";

let pullq;
const agent = new Agent({ keepAlive: false, maxSockets: Infinity });
before(async () => {
  pullq = await startPullq({ bindings: { CLOUDEVENTS_ACCOUNT: ACCOUNT, CLOUDEVENTS_AUTH: "off" } });
});
after(async () => {
  agent.destroy();
  await pullq?.stop();
});

/** A request to a path below /ce/queue: its parsed answer, and `cut` to break the connection off. */
function post(path, body) {
  let sent;
  const answer = new Promise((done, failed) => {
    const headers = body === undefined ? {} : { "content-type": "application/cloudevents+json" };
    sent = request(`${pullq.url}/ce/queue/${path}`, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      response.on("end", () => done(JSON.parse(text))).on("error", failed);
    });
    sent.on("error", failed);
    sent.end(body);
  });
  return { answer, cut: () => (answer.catch(() => {}), sent.destroy()) };
}

const receive = (channel, wait_s) => post(`receive?channel=${channel}&client_id=c&max_messages=1&wait_timeout=${wait_s}`);

function send(channel, data) {
  const event = { specversion: "1.0", type: "t", source: "s", id: String(data), subject: channel, data };
  return post("send", JSON.stringify(event)).answer;
}

/** The data of what was received. */
const received = ({ data }) => data.messages.map((event) => event.data);

test("1,000 clients wait on 100 channels, and each gets the one message that is sent for it", async (t) => {
  const channels = Array.from({ length: 100 }, (_, nth) => `crowd-${nth}`);
  const waiting = [];
  for (const channel of channels) {
    for (let nth = 0; nth < 10; nth++) waiting.push(receive(channel, 60).answer.then((answer) => [answer, performance.now()]));
    // Not all connections at once: the listener's backlog is not what is tested.
    await sleep(10);
  }
  await sleep(2_000);
  const sent_at_ms = new Map();
  for (let nth = 0; nth < 1_000; nth += 20) {
    const some = Array.from({ length: 20 }, (_, offset) => nth + offset);
    await Promise.all(some.map((data) => {
      sent_at_ms.set(data, performance.now());
      return send(channels[data % 100], data);
    }));
  }
  const waits_ms = [];
  const all = (await Promise.all(waiting)).flatMap(([answer, at_ms]) => {
    const [data, ...others] = received(answer);
    assert.deepEqual(others, []);
    waits_ms.push(at_ms - sent_at_ms.get(data));
    return [data];
  });
  assert.deepEqual(all.sort((a, b) => a - b), Array.from({ length: 1_000 }, (_, nth) => nth));
  waits_ms.sort((a, b) => a - b);
  t.diagnostic(`from the send to the receipt: ${waits_ms[500].toFixed(0)} ms in the middle, ${waits_ms[999].toFixed(0)} ms at most`);
});

test("clients that are cut off while they wait lose no message", async () => {
  for (let round = 0; round < 10; round++) {
    const channel = `cut-${round}`;
    const gone = [1, 2, 3].map(() => receive(channel, 30));
    await sleep(150);
    for (const { cut } of gone) cut();
    // Sometimes at once, sometimes later.
    await sleep(round * 20);
    await send(channel, round);
    assert.deepEqual(received(await receive(channel, 10).answer), [round]);
    assert.deepEqual(received(await receive(channel, 0).answer), []);
  }
});
