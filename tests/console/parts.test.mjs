// The console's own arithmetic, without a browser: bodies, rates, the charts' lines, how numbers are written.
import assert from "node:assert/strict";
import { test } from "node:test";
import { asHex, asJson, bodyBytes, bodySize, indented, naturalView, preview } from "../../console/body.js";
import { age, bytes, duration, perSecond } from "../../console/format.js";
import { series } from "../../console/history.js";
import { ratesOf } from "../../console/rates.js";

const message = (type, body) => ({ body, metadata: { "CF-Content-Type": type } });
const text = (bytes) => Buffer.from(bytes).toString();

test("a body is what the producer meant, whichever way the server shows it", () => {
  const base64 = (json) => Buffer.from(json).toString("base64");
  // The server's setting JSON_BODIES=text makes both forms possible in one queue.
  for (const json of ["1", "12", "1234", "12345678", "1e10", "true", "null", "false", '"abcd"', '""', "[]", "{}", '{"a":"ä"}', "-5", " 1 "]) {
    assert.equal(text(bodyBytes(message("json", base64(json)))), json, `base64 of ${json}`);
    assert.equal(text(bodyBytes(message("json", json))), json, json);
    assert.equal(bodySize(message("json", base64(json))), Buffer.byteLength(json));
  }
  assert.equal(text(bodyBytes(message("text", "MQ=="))), "MQ==");
  assert.deepEqual([...bodyBytes(message("bytes", "AAH+/w=="))], [0, 1, 254, 255]);
  assert.equal(bodySize(message("text", "ä€")), 5);
});

test("JSON is indented with every literal as it was sent", () => {
  const cases = [
    ["1.50", "1.50"],
    ['"a\\"b: {,}"', '"a\\"b: {,}"'],
    ["[ ]", "[]"],
    ["{\n}", "{}"],
    ['[1,[2,{"a":[]}]]', '[\n  1,\n  [\n    2,\n    {\n      "a": []\n    }\n  ]\n]'],
    ['{"a":1e5 ,"b" : null}', '{\n  "a": 1e5,\n  "b": null\n}'],
  ];
  for (const [json, expected] of cases) assert.equal(indented(json), expected);
  const deep = "[".repeat(5_000) + "]".repeat(5_000);
  assert.equal(indented(deep).replace(/\s/g, ""), deep);
  assert.match(asJson(Buffer.from("{a")).error, /^This body is not JSON: /);
  assert.equal(asJson(Buffer.from([0xff])).error, "This body is not JSON: it is not UTF-8.");
});

test("hex has lines of sixteen bytes, and portions join without a gap", () => {
  const some = Uint8Array.from({ length: 40 }, (_, index) => index + 0x3c);
  const whole = asHex(some, 0, 40);
  assert.equal(whole.split("\n")[0], "000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK");
  assert.equal([asHex(some, 0, 32), asHex(some, 32, 64)].join("\n"), whole);
});

test("a body that is no text is shown as hex, and its preview too", () => {
  const view = (type, body) => naturalView(message(type, body), bodyBytes(message(type, body)));
  assert.deepEqual([view("json", "e30="), view("text", "x"), view("bytes", "aGVsbG8="), view("bytes", "AAH/")], ["json", "text", "text", "hex"]);
  assert.equal(preview(message("bytes", "AAH/")), "00 01 ff");
  assert.equal(preview(message("text", "one\n\n  two")), "one two");
  assert.equal(preview(message("text", "x".repeat(500))).length, 160);
});

test("a rate is the mean of the last ten seconds, and ebbs away", () => {
  const counters = (sent) => ({ sent, delivered: 0, acknowledged: 0 });
  const known = [{ at_ms: 0, counters: counters(100) }];
  assert.equal(ratesOf(known, 0).sent, 0, "what was before isn't known");
  known.push({ at_ms: 2_000, counters: counters(110) });
  assert.equal(ratesOf(known, 2_000).sent, 5);
  assert.equal(ratesOf(known, 10_000).sent, 1);
  assert.equal(ratesOf(known, 12_000).sent, 0);
  assert.equal(known.length, 1, "what no longer counts is forgotten");
  known.push({ at_ms: 14_000, counters: counters(5) });
  assert.equal(ratesOf(known, 14_000).sent, 0, "a queue that was made anew has no negative rate");
});

test("the charts' lines hold what a minute left and show what a minute added", () => {
  const minute_ms = 60_000;
  const minute = (at, backlog_count, sent) => ({ minute_ms: at * minute_ms, backlog_count, counters: { sent, delivered: 0, acknowledged: 0 } });
  const { times_s, backlog, flow } = series({ minutes: [minute(10, 7, 100), minute(97, 9, 102), minute(100, 4, 103)], read_ms: 100 * minute_ms + 5 }, 0);
  assert.equal(times_s.length, 60);
  assert.equal(times_s.at(-1), 6_000);
  assert.deepEqual(backlog[0].values.slice(-5), [7, 9, 9, 9, 4]);
  assert.deepEqual(flow[0].values.slice(-5), [0, 2, 0, 0, 1]);

  const young = series({ minutes: [minute(99, 3, 3)], read_ms: 100 * minute_ms }, 98 * minute_ms);
  assert.deepEqual(young.backlog[0].values.slice(-3), [0, 3, 3]);
  assert.deepEqual(young.flow[0].values.slice(-3), [0, 3, 0]);
});

test("numbers and times are written for people", () => {
  assert.deepEqual([0, 59_999, 60_000, 3_600_000, 200_000_000].map(age), ["0 s", "59 s", "1 min", "1 h", "2 d"]);
  assert.deepEqual([0, 999, 1_234, 128_000, 2_500_000].map(bytes), ["0 B", "999 B", "1.2 kB", "128 kB", "2.5 MB"]);
  assert.deepEqual([0, 0.04, 0.44, 9.96, 1_234.5].map(perSecond), ["0", "< 0.1", "0.4", "10", "1,235"]);
  assert.deepEqual([0, 1, 90, 345_600].map(duration), ["0 seconds", "1 second", "90 seconds", "4 days"]);
});
