// What is refused, and with what: every wrong request gets its documented
// answer in the envelope, changes nothing, and leaves the queue able to serve
// the next honest one.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api, bodies } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

const MALFORMED = { status: [400], code: 10208 };
// 10207, or a code that says more.
const INVALID = { status: [400] };
const BATCH_COUNT = { status: [400], code: 10206 };
const MESSAGE_TOO_LARGE = { status: [413], code: 10204 };
const BATCH_TOO_LARGE = { status: [413], code: 10205 };
const TOO_LARGE = { status: [413] };
const NO_ROUTE = { status: [404] };
const WRONG_METHOD = { status: [405] };
const MALFORMED_ID = { status: [400, 404] };

let pullq, api, bystander;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
  bystander = await api.queue({ name: "bystander" });
  await bystander.texts(["1", "2", "3"]);
});
after(() => pullq?.stop());

async function check([method, path, body, headers], { status, code }) {
  const answer = await api.call(method, path, body, headers);
  const shown = `${method} ${path} ${String(body).slice(0, 200)}: ${answer.status} ${JSON.stringify(answer.json).slice(0, 500)}`;
  assert.ok(status.includes(answer.status), shown);
  if (code !== undefined) assert.equal(answer.json.errors[0].code, code, shown);
}

/**
 * Sends each body to `path` of a queue that holds one leased and one waiting message, expects it
 * refused, and then finds both as they were. `LEASE` in a body stands for the lease id.
 */
async function refuses(path, expected, wrong) {
  const queue = await api.queue();
  await queue.text("leased");
  const [{ lease_id }] = await queue.take({ visibility_timeout_ms: 600_000 });
  for (const body of wrong) {
    await queue.text("waiting");
    await check(["POST", `${queue.path}${path}`, typeof body === "string" ? body.replaceAll("LEASE", lease_id) : body], expected);
    const { messages, message_backlog_count } = await queue.pull({ batch_size: 100 });
    assert.deepEqual(
      { backlog: message_backlog_count, delivered: messages.map(({ body, attempts }) => [body, attempts]) },
      { backlog: 2, delivered: [["waiting", 1]] },
      `after ${String(body).slice(0, 200)}`,
    );
    assert.equal((await queue.settle({ acks: messages })).ackCount, 1);
  }
}

/** `template` with each value in the place of its #. */
const fill = (template, values) => values.map((value) => template.replace("#", value));

const NOT_OBJECTS = ["[]", '[{"body":1}]', '"text"', "5", "true", "null"];
const NOT_STRINGS = ["5", "1.5", "true", "[]", "{}", '["text"]'];
const NOT_LISTS = ["5", "true", '"text"', "{}", '{"0":{}}'];
// None of these is a whole number any field takes. 9007199254740993 is 2^53 + 1.
const NOT_WHOLE = ['"5"', '""', "true", "false", "[]", "[5]", "{}", "0.5", "1.5", "-1.5", "1e-1"];
const BEYOND_ALL = ["-1", "-9007199254740993", "9007199254740993", "18446744073709551616", "1e99", "-1e99", "1e400"];
const NOT_NUMBERS = [...NOT_WHOLE, ...BEYOND_ALL];

const MALFORMED_JSON = [
  "{",
  "}",
  '{"body":',
  '{"body":1',
  '{"body":1,}',
  '{"body":1}}',
  '{"body":1} {"body":2}',
  "{'body':1}",
  "{body:1}",
  '{"body" 1}',
  '{"body":tru}',
  '{"body":NaN}',
  '{"body":Infinity}',
  '{"body":01}',
  '{"body":+1}',
  '{"body":1.}',
  '{"body":.5}',
  '{"body":0x10}',
  '{"body":[1,]}',
  '{"body":"unended}',
  '{"body":"a raw\nnewline"}',
  '{"body":"\\x"}',
  '{"body":"\\u12"}',
  '{"body":1/* comment */}',
  "body=1",
  "undefined",
  "<body>1</body>",
  "\u0000",
  "[".repeat(100_000),
  '{"body":'.repeat(20_000),
];
const NOT_UTF8 = [
  Buffer.from([0xff]),
  Buffer.from([0x00, 0x9f, 0x92, 0x96]),
  Buffer.from('{"body":"\xff","content_type":"text"}', "latin1"),
  Buffer.from('{"body":"\xc3(","content_type":"json"}', "latin1"),
  Buffer.from('{"body":"\xed\xa0\x80"}', "latin1"),
  Buffer.from('{"body":"utf-16"}', "utf16le"),
  Buffer.from([0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03]),
];

const PATHS = { send: "/messages", batch: "/messages/batch", pull: "/messages/pull", ack: "/messages/ack" };
for (const [name, path] of Object.entries(PATHS)) {
  test(`${name}: what isn't JSON is refused`, () => refuses(path, MALFORMED, MALFORMED_JSON));
  test(`${name}: what isn't UTF-8 is refused`, () => refuses(path, INVALID, NOT_UTF8));
  test(`${name}: JSON that isn't an object is refused`, () => refuses(path, INVALID, NOT_OBJECTS));
}

test("send: a message without a body, or with a field of a wrong type or out of range, is refused", () =>
  refuses("/messages", INVALID, [
    "",
    "{}",
    '{"content_type":"json"}',
    '{"Body":1}',
    ...fill('{"content_type":"text","body":#}', [...NOT_STRINGS, "null"]),
    '{"content_type":"text"}',
    ...fill('{"body":"x","content_type":#}', [...NOT_STRINGS, '""', '"xml"', '"TEXT"', '"text/plain"']),
    ...fill('{"body":1,"delay_seconds":#}', [...NOT_NUMBERS, "86401"]),
  ]));

test("send: bytes that aren't base64 are refused", () =>
  refuses("/messages", INVALID, [
    ...fill('{"content_type":"bytes","body":#}', [...NOT_STRINGS, "null", '"%%%%"', '"aGVsbG8"', '"aGVsbG8=="', '"aGVs bG8="', '"aGVsbG8=\\n"', '"_w=="', '"é==="', '"="']),
    ...fill('{"content_type":"v8","body":#}', [...NOT_STRINGS, '"not base64"']),
  ]));

test("send: a message above 128,000 bytes is refused", () =>
  refuses("/messages", MESSAGE_TOO_LARGE, [
    JSON.stringify({ body: "a".repeat(128_001), content_type: "text" }),
    JSON.stringify({ body: "é".repeat(64_001), content_type: "text" }),
    JSON.stringify({ body: "a".repeat(127_999) }), // The quotes of a JSON string count.
    JSON.stringify({ body: Buffer.alloc(128_001).toString("base64"), content_type: "bytes" }),
    JSON.stringify({ body: "a".repeat(5_000_000), content_type: "text" }),
  ]));

const messages = (count, message = '{"body":1}') => Array(count).fill(message).join(",");

test("batch: messages that aren't a list of messages are refused whole", () =>
  refuses("/messages/batch", INVALID, [
    "{}",
    '{"body":1}',
    ...fill('{"messages":#}', [...NOT_LISTS, "null"]),
    ...fill('{"messages":[#]}', ["5", "null", '"text"', "[]", "true", "{}"]),
    ...fill('{"messages":[{"body":1}],"delay_seconds":#}', [...NOT_NUMBERS, "86401"]),
  ]));

test("batch: one wrong message refuses the others with it, wherever it stands", () =>
  refuses("/messages/batch", INVALID, [
    '{"messages":[{"body":1,"delay_seconds":-1},{"body":2},{"body":3}]}',
    '{"messages":[{"body":1},{"body":2,"content_type":"xml"},{"body":3}]}',
    '{"messages":[{"body":1},{"body":2},{"body":3,"content_type":"text"}]}',
    `{"messages":[${messages(99)},{}]}`,
    `{"messages":[${messages(99)},{"body":"?","content_type":"bytes"}]}`,
  ]));

test("batch: no message, and more than 100, are refused", () =>
  refuses("/messages/batch", BATCH_COUNT, ['{"messages":[]}', `{"messages":[${messages(101)}]}`, `{"messages":[${messages(5_000)}]}`]));

test("batch: more than 256,000 bytes in all are refused", () => {
  const text = (length) => `{"content_type":"text","body":"${"a".repeat(length)}"}`;
  return refuses("/messages/batch", BATCH_TOO_LARGE, [
    `{"messages":[${text(128_000)},${text(128_000)},${text(1)}]}`,
    `{"messages":[${messages(3, text(100_000))}]}`,
    `{"messages":[${messages(100, text(2_561))}]}`,
  ]);
});

test("batch: one message above 128,000 bytes refuses the batch", () =>
  refuses("/messages/batch", TOO_LARGE, [`{"messages":[{"body":1},{"content_type":"text","body":"${"a".repeat(128_001)}"}]}`]));

test("pull: a batch_size or visibility timeout of a wrong type or out of range is refused", () =>
  refuses("/messages/pull", INVALID, [
    ...fill('{"batch_size":#}', [...NOT_NUMBERS, "0", "101"]),
    ...fill('{"visibility_timeout_ms":#}', [...NOT_NUMBERS, "43200001"]),
    ...fill('{"visibility_timeout":#}', [...NOT_NUMBERS, "43200001"]),
    '{"batch_size":1,"visibility_timeout_ms":-1}',
  ]));

test("ack: lease ids and delays of a wrong type or out of range are refused, and nothing beside them is settled", () =>
  refuses("/messages/ack", INVALID, [
    ...fill('{"acks":#}', NOT_LISTS),
    ...fill('{"retries":#}', NOT_LISTS),
    ...fill('{"acks":[{"lease_id":"LEASE"},#]}', ["5", "null", "true", "[]", "{}", '{"lease":"x"}']),
    ...fill('{"acks":[{"lease_id":"LEASE"},{"lease_id":#}]}', [...NOT_STRINGS, "null"]),
    ...fill('{"acks":[{"lease_id":"LEASE"}],"retries":[{"lease_id":#}]}', [...NOT_STRINGS, "null"]),
    ...fill('{"acks":[{"lease_id":"LEASE"}],"retries":#}', NOT_LISTS),
    ...fill('{"retries":[{"lease_id":"LEASE","delay_seconds":#}]}', [...NOT_NUMBERS, "86401"]),
  ]));

test("ack: 1,000 lease ids in one call are taken, more are refused", async () => {
  const forged = (count) => messages(count, '{"lease_id":"x"}');
  await refuses("/messages/ack", INVALID, [
    `{"acks":[${forged(1_000)},{"lease_id":"LEASE"}]}`,
    `{"retries":[{"lease_id":"LEASE"},${forged(1_000)}]}`,
    `{"acks":[{"lease_id":"LEASE"},${forged(500)}],"retries":[${forged(500)}]}`,
  ]);
  const queue = await api.queue();
  const sent = Array.from({ length: 100 }, (_, n) => `${n}`);
  const leased = [];
  for (let n = 0; n < 10; n++) {
    await queue.texts(sent);
    leased.push(...(await queue.take()));
  }
  assert.equal((await queue.settle({ acks: leased })).ackCount, 1_000);
  await queue.isQuiet(0);
});

const DEEP = "[".repeat(50_000) + "]".repeat(50_000);

test("JSON nested 50,000 deep is refused where it can't be meant, and either refused or kept whole as a body", async () => {
  await refuses("/messages/batch", INVALID, fill("#", [DEEP]).concat(fill('{"messages":#}', [DEEP])));
  await refuses("/messages/pull", INVALID, fill('{"batch_size":#}', [DEEP]));
  await refuses("/messages/ack", INVALID, fill('{"acks":#}', [DEEP]));
  const queue = await api.queue();
  const { status } = await api.call("POST", `${queue.path}/messages`, `{"body":${DEEP}}`);
  assert.ok([200, 400].includes(status), `${status}`);
  const kept = (await queue.take()).map(({ body }) => Buffer.from(body, "base64").toString() === DEEP);
  assert.deepEqual(kept, status === 200 ? [true] : []);
});

// Nothing says whether these are taken; they must be answered, and a queue must go on after them.
test("what the contract leaves open is answered, and the queue goes on", async () => {
  const open = {
    "/messages": ['{"body":"\\ud800","content_type":"text"}', '{"body":"\\ud800"}', '{"body":1,"body":2}', '\ufeff{"body":1}', '{"body":1,"delay_seconds":null}', '{"body":1,"content_type":null}', '{"body":1,"__proto__":{}}'],
    "/messages/pull": ["", '{"batch_size":null}', '{"visibility_timeout_ms":null}', '{"visibility_timeout_ms":0}', '{"batch_size":1,"batch_size":2}', '{"unknown":1}'],
    "/messages/ack": ["", '{"acks":null}', '{"retries":null}', '{"acks":[],"acks":[]}'],
  };
  const queue = await api.queue();
  for (const [path, wires] of Object.entries(open)) {
    for (const wire of wires) {
      await check(["POST", `${queue.path}${path}`, wire], { status: [200, 400] });
      await queue.text("honest");
      const taken = await queue.take();
      assert.ok(bodies(taken).includes("honest"), wire);
      await queue.settle({ acks: taken });
    }
  }
});

test("a queue that isn't named properly, or with settings of a wrong type or out of range, isn't made", async () => {
  const count = async () => (await api.call("GET", "/queues?per_page=1")).json.result_info.total_count;
  const before = await count();
  const wrong = [
    ...NOT_OBJECTS,
    "{}",
    ...fill('{"queue_name":#}', [...NOT_STRINGS, "null", '""', `"${"x".repeat(64)}"`, '"a b"', '"a/b"', '"a\\u0000b"', '"ä"', '"*"', '"a\\nb"', DEEP]),
    ...fill('{"queue_name":"wrong","settings":#}', ["5", '"x"', "[]", "true"]),
    ...fill('{"queue_name":"wrong","settings":{"delivery_delay":#}}', [...NOT_NUMBERS, "86401"]),
    ...fill('{"queue_name":"wrong","settings":{"message_retention_period":#}}', [...NOT_NUMBERS, "59", "1209601"]),
    ...fill('{"queue_name":"wrong","settings":{"delivery_paused":#}}', ["0", "1", '"true"', "[]", "{}"]),
  ];
  for (const body of wrong) await check(["POST", "/queues", body], INVALID);
  for (const body of MALFORMED_JSON) await check(["POST", "/queues", body], MALFORMED);
  for (const body of NOT_UTF8) await check(["POST", "/queues", body], INVALID);
  assert.equal(await count(), before);
  await api.ok("POST", "/queues", { queue_name: "wrong" });
});

test("a consumer of another type, or with settings of a wrong type or out of range, isn't made", async () => {
  const queue = await api.queue({ consumer: null });
  const wrong = [
    ...NOT_OBJECTS,
    "{}",
    ...fill('{"type":#}', [...NOT_STRINGS, "null", '""', '"worker"', '"HTTP_PULL"', '"http_push"']),
    '{"type":"worker","script_name":"a-worker"}',
    ...fill('{"type":"http_pull","settings":#}', ["5", '"x"', "[]", "true"]),
    ...fill('{"type":"http_pull","dead_letter_queue":#}', NOT_STRINGS),
    ...fill('{"type":"http_pull","settings":{"batch_size":#}}', [...NOT_NUMBERS, "0", "101"]),
    ...fill('{"type":"http_pull","settings":{"max_retries":#}}', [...NOT_NUMBERS, "101"]),
    ...fill('{"type":"http_pull","settings":{"retry_delay":#}}', [...NOT_NUMBERS, "86401"]),
    ...fill('{"type":"http_pull","settings":{"visibility_timeout_ms":#}}', [...NOT_NUMBERS, "43200001"]),
  ];
  for (const body of wrong) await check(["POST", `${queue.path}/consumers`, body], INVALID);
  for (const body of MALFORMED_JSON) await check(["POST", `${queue.path}/consumers`, body], MALFORMED);
  for (const body of NOT_UTF8) await check(["POST", `${queue.path}/consumers`, body], INVALID);
  assert.deepEqual(await api.ok("GET", `${queue.path}/consumers`), []);
  await api.ok("POST", `${queue.path}/consumers`, { type: "http_pull" });
});

test("an unknown route is 404 in the envelope, the routes of before 2024 too", async () => {
  for (const [method, path] of [
    ["GET", "~/nothing"],
    ["GET", "~/"],
    ["GET", "/nothing"],
    ["POST", `${bystander.path}/pull`],
    ["POST", `${bystander.path}/ack`],
    ["POST", `${bystander.path}/nothing`],
    ["POST", `${bystander.path}/messages/nothing`],
    ["POST", `${bystander.path}/messages/pull/more`],
    ["GET", `${bystander.path}/consumers/a/b`],
    ["GET", `${bystander.path}//consumers`],
  ]) {
    await check([method, path, method === "POST" ? "{}" : undefined], NO_ROUTE);
  }
});

test("a wrong method is 405 in the envelope", async () => {
  for (const [method, path] of [
    ["DELETE", "/queues"],
    ["PUT", "/queues"],
    ["POST", bystander.path],
    ["GET", `${bystander.path}/messages`],
    ["DELETE", `${bystander.path}/messages`],
    ["GET", `${bystander.path}/messages/batch`],
    ["GET", `${bystander.path}/messages/pull`],
    ["PUT", `${bystander.path}/messages/pull`],
    ["DELETE", `${bystander.path}/messages/ack`],
    ["DELETE", `${bystander.path}/consumers`],
  ]) {
    await check([method, path], WRONG_METHOD);
  }
});

const MALFORMED_IDS = [
  "x",
  "1",
  "0".repeat(31),
  "0".repeat(33),
  "g".repeat(32),
  "0".repeat(5_000),
  "%00",
  "%ff%fe",
  "%F0%9F%9A%80",
  "a%2Fb",
  "%2e%2e%2fqueues",
  "'%20OR%201=1--",
  "*",
];

test("a malformed account or queue id is refused in the envelope", async () => {
  for (const id of MALFORMED_IDS) {
    for (const [method, path, body] of [
      ["GET", `~/accounts/${id}/queues`],
      ["POST", `~/accounts/${id}/queues`, '{"queue_name":"never-made"}'],
      ["POST", `~/accounts/${id}${bystander.path}/messages`, '{"body":1}'],
      ["GET", `/queues/${id}`],
      ["DELETE", `/queues/${id}`],
      ["POST", `/queues/${id}/messages`, '{"body":1}'],
      ["POST", `/queues/${id}/messages/pull`, "{}"],
      ["DELETE", `${bystander.path}/consumers/${id}`],
    ]) {
      await check([method, path, body], MALFORMED_ID);
    }
  }
});

test("after all of it a queue that stood by has its messages, untouched", async () => {
  const { messages, message_backlog_count } = await bystander.pull();
  assert.equal(message_backlog_count, 3);
  assert.deepEqual(messages.map(({ body, attempts }) => [body, attempts]), [["1", 1], ["2", 1], ["3", 1]]);
});
