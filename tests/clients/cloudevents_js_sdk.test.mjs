// The CloudEvents SDK for JavaScript against a running pullq: what it sends in either mode it reads
// back equal, and a worker's round over KubeMQ's endpoints.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CloudEvent, HTTP } from "cloudevents";
import { OPEN, newChannel } from "../support/events.mjs";
import { startPullq } from "../support/pullq.mjs";

let pullq;
before(async () => {
  pullq = await startPullq({ bindings: OPEN });
});
after(() => pullq?.stop());

async function post(path, query, { headers, body } = {}) {
  const url = `${pullq.url}/ce/queue/${path}?${new URLSearchParams(query)}`;
  const response = await fetch(url, { method: "POST", headers, body });
  const answer = await response.json();
  assert.equal(answer.is_error, false, `${response.status}: ${answer.message}`);
  return { status: response.status, data: answer.data };
}

async function send(message, query = {}) {
  assert.equal((await post("send", query, message)).status, 202);
}

async function receive(channel, options = {}) {
  const { data } = await post("receive", { channel, client_id: "js", max_messages: 10, wait_timeout: 2, ...options });
  assert.equal(data.messages_received, data.messages.length);
  return data.messages;
}

const EVENTS = {
  "JSON": { datacontenttype: "application/json", data: { task: 1, nested: [null, true, "é🚀"] } },
  "JSON of another name": { datacontenttype: "application/vnd.example+json", data: { a: 1 } },
  "text": { datacontenttype: "text/plain", data: "Grüße\n" },
  "XML": { datacontenttype: "application/xml", data: "<much wow=\"xml\"/>" },
  "every attribute": {
    datacontenttype: "application/json", data: {}, dataschema: "https://example.com/schema", time: "2026-11-30T10:40:00.123Z",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  },
  "no data": { data: undefined },
};

for (const [what, attributes] of Object.entries(EVENTS)) {
  for (const mode of ["structured", "binary"]) {
    test(`${mode}: an event with ${what} is read back equal`, async () => {
      const channel = newChannel();
      const sent = new CloudEvent({ type: "com.example.test", source: "/js", subject: channel, ...attributes });
      const message = HTTP[mode](sent);
      await send(message);
      const [received] = await receive(channel);
      // In binary mode the SDK sends a media type where the event has none.
      const expected = mode === "binary" && sent.datacontenttype === undefined
        ? sent.cloneWith({ datacontenttype: message.headers["content-type"] })
        : sent;
      assert.deepEqual(new CloudEvent(received).toJSON(), expected.toJSON());
    });
  }
}

test("structured: bytes and the types of extensions are kept", async () => {
  const channel = newChannel();
  const data = new Uint8Array([0, 255, 1]);
  const sent = new CloudEvent({
    type: "t", source: "/js", subject: channel, datacontenttype: "application/octet-stream", data, flag: false, count: -7, text: "7",
  });
  await send(HTTP.structured(sent));
  const [received] = await receive(channel);
  assert.equal(received.data_base64, "AP8B");
  assert.deepEqual([received.flag, received.count, received.text], [false, -7, "7"]);
  const event = new CloudEvent(received);
  assert.deepEqual([...event.data], [...data]);
  assert.equal(event.id, sent.id);
});

test("a JSON string is kept, and in binary mode the SDK sends it without its quotes, so it is bytes", async () => {
  const channel = newChannel();
  const sent = new CloudEvent({ type: "t", source: "/js", subject: channel, datacontenttype: "application/json", data: "just a string" });
  await send(HTTP.structured(sent));
  await send(HTTP.binary(sent));
  const [structured, binary] = await receive(channel);
  assert.deepEqual(new CloudEvent(structured).toJSON(), sent.toJSON());
  assert.equal(Buffer.from(binary.data_base64, "base64").toString(), "just a string");
});

test("binary: what a header can carry arrives, and what it can't is refused and not garbled", async () => {
  const channel = newChannel();
  const with_ = (extensions) => HTTP.binary(new CloudEvent({ type: "t", source: "/js", subject: channel, data: 1, ...extensions }));
  await send(with_({ a: "100%", b: "a%20b" }));
  const [received] = await receive(channel);
  assert.deepEqual([received.a, received.b], ["100%", "a b"]);
  // The SDK encodes nothing, and fetch sends this as one byte that is no UTF-8.
  const { headers, body } = with_({ c: "é" });
  const refused = await fetch(`${pullq.url}/ce/queue/send`, { method: "POST", headers, body });
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).message, /ce-c is not UTF-8/);
});

test("a worker's round: three jobs in order, a look that leaves them, and a backlog cleared", async () => {
  const channel = newChannel();
  const submit = async (number) =>
    send(HTTP.structured(new CloudEvent({
      type: "com.example.job", source: "js-jobs", subject: channel, datacontenttype: "application/json", data: { number },
    })));
  for (const number of [1, 2, 3]) await submit(number);
  for (const is_peek of [true, true]) assert.equal((await receive(channel, { is_peek })).length, 3);
  for (const number of [1, 2, 3]) {
    const [job, ...others] = await receive(channel, { max_messages: 1, wait_timeout: 5 });
    assert.deepEqual([job.type, job.data, others], ["com.example.job", { number }, []]);
  }
  await submit(4);
  await submit(5);
  assert.deepEqual((await post("ack_all", { channel, client_id: "js", wait_timeout: 5 })).data, { affected_messages: 2 });
  assert.deepEqual(await receive(channel, { wait_timeout: 0 }), []);
});
