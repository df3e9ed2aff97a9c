// What was sent comes back byte for byte: bodies, encodings and content types,
// one at a time and in a batch, and the sizes up to which they are taken.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, bodies } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

// [the message as it stands on the wire, the content type and body it is pulled with]
const text = [
  ['{"body":"hello","content_type":"text"}', "text", "hello"],
  ['{"content_type":"text","body":"the keys in another order"}', "text", "the keys in another order"],
  ['{"body":"","content_type":"text"}', "text", ""],
  ['{"body":"grüße, 世界 🚀","content_type":"text"}', "text", "grüße, 世界 🚀"],
  ['{"body":"\\u0041\\ud83d\\ude80\\u00e9","content_type":"text"}', "text", "A🚀é"],
  ['{"body":"a \\"quote\\", a \\\\, a \\/ and \\t\\r\\n","content_type":"text"}', "text", 'a "quote", a \\, a / and \t\r\n'],
  ['{"body":"\\u0000\\u0001\\u001f\\u007f\\u2028\\ufeff","content_type":"text"}', "text", "\u0000\u0001\u001f\u007f\u2028\ufeff"],
  ['{"body":"  spaces stay  ","content_type":"text"}', "text", "  spaces stay  "],
  ['{"body":"{\\"not\\":\\"parsed\\"}","content_type":"text"}', "text", '{"not":"parsed"}'],
  ['{"body":"aGVsbG8=","content_type":"text"}', "text", "aGVsbG8="],
];

const json = [
  // json is the default; number spelling, key order and repeated keys are the sender's.
  ['{"body":{"b":1.0,"a":12345678901234567890}}', "json", "eyJiIjoxLjAsImEiOjEyMzQ1Njc4OTAxMjM0NTY3ODkwfQ=="],
  ['{"body":{"b":1.0,"a":12345678901234567890},"content_type":"json"}', "json", "eyJiIjoxLjAsImEiOjEyMzQ1Njc4OTAxMjM0NTY3ODkwfQ=="],
  ['{"body":{"z":1,"a":2,"m":{"y":[3,2,1]}}}', "json", "eyJ6IjoxLCJhIjoyLCJtIjp7InkiOlszLDIsMV19fQ=="],
  ['{"body":[1e2,1E+2,-0,0.10,1.5e300]}', "json", "WzFlMiwxRSsyLC0wLDAuMTAsMS41ZTMwMF0="],
  ['{"body":{"a":1,"a":2}}', "json", "eyJhIjoxLCJhIjoyfQ=="],
  ['{"body":{ "spaces" : [ 1 , 2 ] }}', "json", "eyAic3BhY2VzIiA6IFsgMSAsIDIgXSB9"],
  ['{"body":"a string"}', "json", "ImEgc3RyaW5nIg=="],
  ['{"body":"\\u00e9 stays escaped, é does not"}', "json", "Ilx1MDBlOSBzdGF5cyBlc2NhcGVkLCDDqSBkb2VzIG5vdCI="],
  ['{"body":""}', "json", "IiI="],
  ['{"body":null}', "json", "bnVsbA=="],
  ['{"body":false}', "json", "ZmFsc2U="],
  ['{"body":0}', "json", "MA=="],
  ['{"body":[]}', "json", "W10="],
  ['{"body":{}}', "json", "e30="],
  ['{"body":{"body":{"body":1},"content_type":"text"}}', "json", "eyJib2R5Ijp7ImJvZHkiOjF9LCJjb250ZW50X3R5cGUiOiJ0ZXh0In0="],
];

const bytes = [
  ['{"body":"AAECA//+/Q==","content_type":"bytes"}', "bytes", "AAECA//+/Q=="],
  ['{"body":"","content_type":"bytes"}', "bytes", ""],
  ['{"body":"aGVsbG8=","content_type":"bytes"}', "bytes", "aGVsbG8="],
];

// Opaque here: it is pulled as the base64 it was sent as.
const v8 = [['{"body":"/w8iBWhlbGxv","content_type":"v8"}', "v8", "/w8iBWhlbGxv"]];

async function check(queue, wire, [contentType, body]) {
  const { status, json } = await api.call("POST", `${queue.path}/messages`, wire);
  assert.equal(status, 200, `${wire}: ${JSON.stringify(json)}`);
  const [message, ...more] = await queue.take();
  assert.deepEqual({ contentType: message.metadata["CF-Content-Type"], body: message.body }, { contentType, body }, wire);
  assert.deepEqual(more, []);
  await queue.settle({ acks: [message] });
}

for (const [name, table] of Object.entries({ text, json, bytes, v8 })) {
  test(`${name} comes back byte for byte with its content type`, async () => {
    const queue = await api.queue();
    for (const [wire, ...expected] of table) await check(queue, wire, expected);
  });
}

test("a batch of every content type comes back byte for byte", async () => {
  const table = [...text, ...json, ...bytes, ...v8];
  const queue = await api.queue();
  // White space between the messages belongs to none of them.
  const wire = `{ "messages" : [\n${table.map(([message]) => message).join(" ,\n\t")} ] }`;
  const { status, json: answer } = await api.call("POST", `${queue.path}/messages/batch`, wire);
  assert.equal(status, 200, JSON.stringify(answer));
  const messages = await queue.take();
  assert.deepEqual(
    messages.map(({ metadata, body }) => [metadata["CF-Content-Type"], body]),
    table.map(([, contentType, body]) => [contentType, body]),
  );
});

test("a message comes back the same at every delivery", async () => {
  const queue = await api.queue();
  await queue.send({ body: { n: 1 } });
  const [first] = await queue.take();
  await queue.settle({ retries: [first] });
  const [second] = await queue.take();
  const same = ({ id, timestamp_ms, body, metadata }) => ({ id, timestamp_ms, body, type: metadata["CF-Content-Type"] });
  assert.deepEqual(same(second), same(first));
  assert.notEqual(second.lease_id, first.lease_id);
});

test("metadata holds strings and says that the API brought the message", async () => {
  const queue = await api.queue();
  await queue.text("1");
  const [{ metadata }] = await queue.take();
  for (const [key, value] of Object.entries(metadata)) assert.equal(typeof value, "string", key);
  assert.equal(metadata["CF-sourceMessageSource"], "api");
});

// A size counts bytes of the body as its consumer gets it, not characters and not the escapes of the wire.
const greatest = {
  "128,000 letters": ["a".repeat(128_000), "text"],
  "64,000 letters of two bytes": ["é".repeat(64_000), "text"],
  "128,000 bytes in base64": [Buffer.alloc(128_000, 7).toString("base64"), "bytes"],
  "128,000 control characters, each escaped on the wire": ["\u0001".repeat(128_000), "text"],
};
for (const [name, [body, content_type]] of Object.entries(greatest)) {
  test(`a message as large as the limit is taken: ${name}`, async () => {
    const queue = await api.queue();
    await queue.send({ body, content_type });
    const [message] = await queue.take();
    assert.equal(message.body === body, true, "the body came back different");
  });
}

test("a batch as large as the limit of 256,000 bytes is taken", async () => {
  const queue = await api.queue();
  await queue.texts(["a".repeat(128_000), "b".repeat(128_000)]);
  assert.deepEqual(bodies(await queue.take()).map((body) => [body.length, body[0]]), [[128_000, "a"], [128_000, "b"]]);
});

test("a batch as large as the limit is taken when every byte of it is escaped on the wire", async () => {
  const queue = await api.queue();
  const sent = ["\u0001".repeat(128_000), "\u0002".repeat(128_000)];
  await queue.texts(sent);
  const taken = bodies(await queue.take());
  assert.deepEqual(taken.map((body, n) => body === sent[n]), [true, true]);
});

test("100 messages of the greatest size come whole and in order, in as many pulls as pullq takes for them", async () => {
  const queue = await api.queue();
  const sent = Array.from({ length: 100 }, (_, n) => String.fromCharCode(33 + (n % 90)).repeat(128_000));
  for (let n = 0; n < 100; n += 2) {
    await queue.batch(sent.slice(n, n + 2).map((body) => ({ body: btoa(body), content_type: "bytes" })));
  }
  let seen = 0;
  while (seen < 100) {
    const { messages, message_backlog_count } = await queue.pull({ batch_size: 100, visibility_timeout_ms: 600_000 });
    assert.equal(message_backlog_count, 100 - seen);
    assert.ok(messages.length > 0, `nothing came after ${seen} messages`);
    const wrong = messages.findIndex(({ body }, n) => atob(body) !== sent[seen + n]);
    assert.equal(wrong, -1, `message ${seen + wrong} came back different`);
    assert.equal((await queue.settle({ acks: messages })).ackCount, messages.length);
    seen += messages.length;
  }
  await queue.isQuiet(0);
});
