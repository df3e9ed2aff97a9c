// The CloudEvents face as built: what goes in comes out, in order, once; channels are queues, so both
// faces see the same messages. What an event may look like is tests/cloudevents.rs.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, decoded, sleep } from "../support/api.mjs";
import { Events, OPEN, event, newChannel } from "../support/events.mjs";
import { startPullq } from "../support/pullq.mjs";

const BATCH = { "content-type": "application/cloudevents-batch+json" };

let pullq, events, api;
before(async () => {
  pullq = await startPullq({ bindings: OPEN });
  events = new Events(pullq);
  api = new Api(pullq);
});
after(() => pullq?.stop());

/** The queue that a channel is, over the other face. */
async function queueOf(channel) {
  const [queue] = await api.ok("GET", `/queues?name=${encodeURIComponent(channel)}`);
  assert.equal(queue.queue_name, channel);
  const path = `/queues/${queue.queue_id}`;
  return {
    path,
    consumers: queue.consumers,
    send: (message) => api.ok("POST", `${path}/messages`, message),
    pull: async (options = {}) => (await api.ok("POST", `${path}/messages/pull`, { batch_size: 100, ...options })).messages,
    ack: (messages) => api.ok("POST", `${path}/messages/ack`, { acks: messages.map(({ lease_id }) => ({ lease_id })) }),
  };
}

test("an event comes back as it was sent, in every mode, and once", async () => {
  const channel = newChannel();
  const structured = event(1, { subject: channel, flag: true, count: -5, text: "5", datacontenttype: "application/json", data: { b: 1, a: [null] } });
  const sent = await events.send(structured);
  assert.deepEqual(Object.keys(sent), ["id", "queue_message_id", "channel", "time"]);
  assert.deepEqual([sent.id, sent.channel], ["1", channel]);
  assert.match(sent.queue_message_id, /^[0-9a-f]{32}$/);
  assert.ok(Math.abs(Date.parse(sent.time) - Date.now()) < 60_000, sent.time);

  const binary = {
    "ce-specversion": "1.0", "CE-Type": "com.example.test", "ce-source": "/tests", "ce-id": "2",
    "ce-time": "2026-11-30T10:40:00Z", "ce-subject": channel, "ce-text": "Euro%20%E2%82%AC", "content-type": "text/plain",
  };
  await events.raw("Grüße", {}, binary);
  await events.raw([event(3, { subject: channel, data: "three" }), event(4, { subject: channel, datacontenttype: "a/b", data_base64: "AP8=" })], {}, BATCH);

  assert.deepEqual(await events.receive(channel), [
    structured,
    event(2, { subject: channel, text: "Euro €", datacontenttype: "text/plain", data: "Grüße" }),
    event(3, { subject: channel, data: "three" }),
    event(4, { subject: channel, datacontenttype: "a/b", data_base64: "AP8=" }),
  ]);
  assert.deepEqual(await events.receive(channel), []);
});

test("JSON data keeps its bytes", async () => {
  const channel = newChannel();
  const data = '{"z":12345678901234567890,"a":1.0,"e":1e400,"s":"\\u0041"}';
  await events.send(`{"specversion":"1.0","type":"t","source":"s","subject":"${channel}","data":${data}}`);
  const { text } = await events.received(channel);
  assert.ok(text.includes(`"data":${data}`), text);
});

test("an event without an id gets a UUID, and one without a time the present", async () => {
  const channel = newChannel();
  const sent = await events.send({ specversion: "1.0", type: "t", source: "s", subject: channel });
  const [received] = await events.receive(channel);
  assert.match(received.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(received.id, sent.id);
  assert.ok(Math.abs(Date.parse(received.time) - Date.now()) < 60_000, received.time);
});

test("first in, first out, as many as were asked for; a peek leaves everything as it is", async () => {
  const channel = newChannel();
  for (let id = 1; id <= 5; id += 1) await events.send(event(id), { channel });
  const ids = async (options) => (await events.receive(channel, options)).map(({ id }) => id);
  for (let time = 0; time < 2; time += 1) assert.deepEqual(await ids({ is_peek: true }), ["1", "2", "3", "4", "5"]);
  assert.deepEqual(await ids({ is_peek: "True", max_messages: 2 }), ["1", "2"]);
  assert.deepEqual(await ids({ max_messages: 2 }), ["1", "2"]);
  const rest = await Promise.all([1, 2, 3, 4].map(() => ids({ max_messages: 1 })));
  assert.deepEqual(rest.flat().sort(), ["3", "4", "5"], "each message goes to one consumer");
});

test("max_messages is 1 unless it is said, and a receive that waits is answered when there is something", async () => {
  const channel = newChannel();
  const waiting = events.call("/queue/receive", { query: { channel, client_id: "c" } });
  await sleep(300);
  const sent_ms = Date.now();
  await events.raw([event(1), event(2)], { channel }, BATCH);
  const { json } = await waiting;
  assert.deepEqual(json.data.messages.map(({ id }) => id), ["1"]);
  assert.ok(Date.now() - sent_ms < 1_000, `${Date.now() - sent_ms} ms`);

  const empty = newChannel();
  const began_ms = Date.now();
  assert.deepEqual(await events.receive(empty, { wait_timeout: 1 }), []);
  const took_ms = Date.now() - began_ms;
  assert.ok(took_ms >= 950 && took_ms < 3_000, `${took_ms} ms`);
});

test("a batch is taken whole or refused whole", async () => {
  const channel = newChannel();
  const batch = (list) => events.call("/queue/send", { headers: BATCH, query: { channel }, body: JSON.stringify(list) });
  const { status, json } = await batch([event(1), event(2)]);
  assert.equal(status, 202);
  assert.equal(json.data.messages_sent, 2);
  assert.deepEqual(json.data.messages.map(({ id, channel }) => [id, channel]), [["1", channel], ["2", channel]]);
  for (const refused of [[event(3), {}], [event(3), event(4, { subject: newChannel() })], Array(101).fill(event(3))]) {
    assert.equal((await batch(refused)).status, 400);
  }
  assert.deepEqual((await batch([])).json.data, { messages_sent: 0, messages: [] });
  assert.deepEqual((await events.receive(channel)).map(({ id }) => id), ["1", "2"]);
});

test("what is wrong is answered in the envelope, with KubeMQ's status", async () => {
  const channel = newChannel();
  const json = { "content-type": "application/cloudevents+json" };
  const good = JSON.stringify(event(1));
  const send = (rest) => ["/queue/send", { headers: json, query: { channel }, body: good, ...rest }];
  const receive = (query, rest = {}) => ["/queue/receive", { query, ...rest }];
  const cases = [
    [404, ["/queue/stream"], /POST \/ce\/queue\/send/],
    [404, [""], /no such endpoint/],
    [405, ["/queue/receive", { method: "GET" }], /POST only/],
    [405, ["/queue/send", { method: "PUT", body: good }], /POST only/],
    [400, send({ query: {} }), /^channel is required$/],
    [400, send({ query: { channel: "a b" } }), /white space/],
    [400, send({ query: { channel, delay_seconds: "soon" } }), /delay_seconds/],
    [400, send({ body: "{}" }), /^invalid CloudEvent: specversion is missing/],
    [400, send({ body: "" }), /^invalid CloudEvent/],
    [400, send({ headers: { ...json, "idempotency-key": "k".repeat(257) } }), /Idempotency-Key/],
    [413, send({ body: "x".repeat(2_000_001) }), /2000000 bytes/],
    [413, send({ body: JSON.stringify(event(1, { data: "x".repeat(1_000_000) })) }), /1000000 bytes/],
    [415, send({ headers: { "content-type": "application/json" } }), /ce-specversion/],
    [415, send({ headers: { "content-type": "application/cloudevents+avro", "ce-specversion": "1.0" } }), /neither/],
    [400, receive({ client_id: "c" }), /^channel is required$/],
    [400, receive({ channel }), /^client_id is required$/],
    [400, receive({ channel, client_id: "c", max_messages: 1001 }), /max_messages.*1 to 1000/],
    [400, receive({ channel, client_id: "c", wait_timeout: 61 }), /wait_timeout.*0 to 60/],
    [400, receive({ channel, client_id: "c", is_peek: "maybe" }), /is_peek/],
    [400, receive({ channel: "a.*", client_id: "c" }), /wildcard/],
    [400, ["/queue/ack_all", { query: { channel } }], /^client_id is required$/],
  ];
  for (const [expected, call, sentence] of cases) {
    const { status, json: answer, headers } = await events.call(...call);
    assert.equal(status, expected, JSON.stringify(answer));
    assert.match(answer.message, sentence);
    if (status === 405) assert.equal(headers.get("allow"), "POST");
  }
  const stream = () => new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(500_000));
      if ((this.sent = (this.sent ?? 0) + 1) === 5) controller.close();
    },
  });
  const unsized = await events.call("/queue/send", { headers: json, query: { channel }, body: stream(), duplex: "half" });
  assert.equal(unsized.status, 413, "a body that doesn't say how large it is");
  assert.deepEqual(await events.receive(channel), [], "nothing of it was stored");
});

test("a channel that isn't there is empty, and only a receive that waits or a send makes it", async () => {
  const channel = newChannel();
  assert.deepEqual(await events.receive(channel), []);
  assert.deepEqual(await events.receive(channel, { is_peek: true }), []);
  assert.equal(await events.ackAll(channel), 0);
  assert.deepEqual(await api.ok("GET", `/queues?name=${channel}`), []);
  assert.deepEqual(await events.receive(channel, { wait_timeout: 1 }), []);
  assert.equal((await queueOf(channel)).consumers.length, 1, "it can be pulled from over the other face");
});

test("channels may bear names that queues can't be given over the other face", async () => {
  for (const channel of ["orders.eu/new", "größe", "a,b;c=d&e", "x".repeat(255)]) {
    await events.send(event(1, { subject: channel }));
    assert.deepEqual(await events.receive(channel), [event(1, { subject: channel })]);
    await queueOf(channel);
  }
});

test("a channel's queue may go, come again, and be renamed", async () => {
  const channel = newChannel();
  await events.send(event(1), { channel });
  await api.ok("DELETE", (await queueOf(channel)).path);
  assert.deepEqual(await events.receive(channel), []);
  await events.send(event(2), { channel });
  assert.deepEqual((await events.receive(channel)).map(({ id }) => id), ["2"]);

  const renamed = newChannel();
  await events.send(event(3), { channel });
  await api.ok("PATCH", (await queueOf(channel)).path, { queue_name: renamed });
  await events.send(event(4), { channel });
  assert.deepEqual((await events.receive(renamed)).map(({ id }) => id), ["3"]);
  assert.deepEqual((await events.receive(channel)).map(({ id }) => id), ["4"]);
});

test("an event can be pulled over Cloudflare's API: its data is the body, its attributes are metadata", async () => {
  const channel = newChannel();
  const data = '{"b":1.0,"a":12345678901234567890}';
  await events.send(`{"specversion":"1.0","type":"t","source":"s","id":"1","time":"2026-11-30T10:40:00Z","subject":"${channel}","flag":true,"count":5,"text":"\\"é","data":${data}}`);
  await events.send(event(2, { subject: channel, datacontenttype: "text/plain", data: 'say "hi"\n' }));
  await events.send(event(3, { subject: channel, datacontenttype: "application/octet-stream", data_base64: "AP8=" }));
  await events.send(event(4, { subject: channel }));
  const queue = await queueOf(channel);
  const messages = await queue.pull();
  assert.deepEqual(messages.map(decoded).slice(0, 2), [data, 'say "hi"\n']);
  assert.deepEqual(messages.map(({ body }) => body).slice(2), ["AP8=", ""]);
  const common = { "ce-specversion": "1.0", "ce-type": "com.example.test", "ce-source": "/tests", "ce-subject": channel, "ce-time": "2026-11-30T10:40:00Z" };
  assert.deepEqual(messages.map(({ metadata }) => metadata), [
    { "CF-Content-Type": "json", ...common, "ce-type": "t", "ce-source": "s", "ce-id": "1", "ce-flag": "true", "ce-count": "5", "ce-text": '"é' },
    { "CF-Content-Type": "text", ...common, "ce-id": "2", "ce-datacontenttype": "text/plain" },
    { "CF-Content-Type": "bytes", ...common, "ce-id": "3", "ce-datacontenttype": "application/octet-stream" },
    { "CF-Content-Type": "bytes", ...common, "ce-id": "4" },
  ]);
  assert.deepEqual(await events.receive(channel), [], "they are leased");
  await queue.ack(messages);
  assert.deepEqual(await queue.pull(), []);
});

test("a message sent over Cloudflare's API is received in KubeMQ's plain form", async () => {
  const queue = await api.queue();
  await queue.send({ body: { a: 1 } });
  await queue.send({ body: "grüße", content_type: "text" });
  await queue.send({ body: "AP8=", content_type: "bytes" });
  await events.send(event(4, { subject: queue.name }));
  const messages = await events.receive(queue.name);
  for (const message of messages.slice(0, 3)) {
    assert.match(message.MessageID, /^[0-9a-f]{32}$/);
    assert.equal(message.Channel, queue.name);
    assert.equal(message.Attributes.ReceiveCount, 1);
    assert.ok(Math.abs(message.Attributes.Timestamp / 1e6 - Date.now()) < 60_000);
  }
  assert.deepEqual(
    messages.slice(0, 3).map(({ Metadata, Body, Tags }) => [Metadata, Buffer.from(Body, "base64").toString("latin1"), Tags]),
    [
      ["json", '{"a":1}', { "CF-Content-Type": "json", "CF-sourceMessageSource": "api" }],
      ["text", Buffer.from("grüße").toString("latin1"), { "CF-Content-Type": "text", "CF-sourceMessageSource": "api" }],
      ["bytes", "\x00\xff", { "CF-Content-Type": "bytes", "CF-sourceMessageSource": "api" }],
    ],
  );
  assert.deepEqual(messages[3], event(4, { subject: queue.name }));
});

test("an event whose deliveries are used up moves to the dead-letter queue and is still the event it was", async () => {
  const dead = newChannel();
  const queue = await api.queue({ consumer: { dead_letter_queue: dead, settings: { max_retries: 0 } } });
  const sent = event(1, { subject: queue.name, data: { a: 1 } });
  await events.send(sent);
  const [message] = await queue.take();
  await queue.settle({ retries: [message] });
  assert.deepEqual(await events.receive(dead, { wait_timeout: 10 }), [sent]);
});

test("ack_all removes what is pending, delayed messages too, and leaves what somebody has", async () => {
  const channel = newChannel();
  for (let id = 1; id <= 3; id += 1) await events.send(event(id), { channel });
  const queue = await queueOf(channel);
  const [held] = await queue.pull({ batch_size: 1 });
  await events.send(event(4), { channel, delay_seconds: 60 });
  assert.equal(await events.ackAll(channel), 3);
  assert.equal(await events.ackAll(channel), 0);
  assert.deepEqual(await events.receive(channel), []);
  assert.deepEqual(await queue.ack([held]), { ackCount: 1, retryCount: 0, warnings: {} });
});

test("delay_seconds holds a send back, and a queue's own delay counts where it isn't said", async () => {
  const channel = newChannel();
  await events.send(event(1), { channel, delay_seconds: 1 });
  await events.send(event(2), { channel });
  assert.deepEqual((await events.receive(channel)).map(({ id }) => id), ["2"]);
  assert.deepEqual((await events.receive(channel, { wait_timeout: 5 })).map(({ id }) => id), ["1"]);
});

test("with an idempotency key a second send stores nothing and gets the first one's answer", async () => {
  const channel = newChannel();
  const key = { "idempotency-key": "order-7" };
  const first = await events.send(event(1), { channel }, key);
  const second = await events.send(event(1), { channel }, key);
  assert.deepEqual(second, { ...first, repeated: true });
  assert.equal((await events.receive(channel)).length, 1);
});

test("events outlive a restart", async () => {
  const channel = newChannel();
  await events.send(event(1, { data: { a: 1 } }), { channel });
  await pullq.restart();
  assert.deepEqual(await events.receive(channel), [event(1, { data: { a: 1 } })]);
});

test("with JSON_BODIES=text JSON data is pulled as its text", async () => {
  const plain = await startPullq({ bindings: { ...OPEN, JSON_BODIES: "text" } });
  try {
    const channel = newChannel();
    await new Events(plain).send(event(1, { subject: channel, data: { a: "\n" } }));
    const api = new Api(plain);
    const [{ queue_id }] = await api.ok("GET", `/queues?name=${channel}`);
    const { messages } = await api.ok("POST", `/queues/${queue_id}/messages/pull`, {});
    assert.equal(messages[0].body, '{"a":"\\n"}');
    assert.equal(messages[0].metadata["CF-Content-Type"], "json");
  } finally {
    await plain.stop();
  }
});
