// The helper for other code and the example Worker: two Workers under Miniflare, the one bound to the other,
// nothing between them but the binding.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { Log, LogLevel, Miniflare } from "miniflare";
import { PullqError, pullQueue } from "../../binding/pullq.ts";
import { ACCOUNT, Api, UNKNOWN_ID } from "../support/api.mjs";
import { DEV_TOKEN, pullqWorker, startPullq } from "../support/pullq.mjs";
import { ROOT } from "../support/selfhost.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq();
  api = new Api(pullq);
});
after(() => pullq?.stop());

/** A queue over HTTP, as Node and browsers reach it. */
const overHttp = ({ id }, token = DEV_TOKEN) => pullQueue(pullq.url, { account: ACCOUNT, queueId: id, token });

test("bodies of each content type come back as they were sent, and json is the default", async () => {
  const queue = overHttp(await api.queue());
  const bytes = Uint8Array.from({ length: 256 }, (_, n) => n);
  await queue.send({ total: 12.5, of: ["a", null] });
  await queue.send("grüße 🚀", { contentType: "text" });
  await queue.send(bytes.buffer, { contentType: "bytes" });
  await queue.send("a string as json");
  await queue.send(bytes.subarray(250), { contentType: "bytes" });
  const { messages, backlogCount } = await queue.pull({ batchSize: 10 });
  assert.equal(backlogCount, 5);
  assert.deepEqual(messages.map(({ body, contentType, attempts }) => [body, contentType, attempts]), [
    [{ total: 12.5, of: ["a", null] }, "json", 1],
    ["grüße 🚀", "text", 1],
    [bytes, "bytes", 1],
    ["a string as json", "json", 1],
    [bytes.subarray(250), "bytes", 1],
  ]);
  for (const { id, timestamp, leaseId } of messages) {
    assert.match(id, /^[0-9a-f]{32}$/);
    assert.ok(timestamp instanceof Date && Date.now() - timestamp < 10_000);
    assert.equal(typeof leaseId, "string");
  }
});

test("json comes back parsed from a pullq that serves it as text, too", async (t) => {
  const plain = await startPullq({ bindings: { JSON_BODIES: "text" } });
  t.after(() => plain.stop());
  const { id } = await new Api(plain).queue();
  const queue = pullQueue(`${plain.url}/`, { account: ACCOUNT, queueId: id, token: DEV_TOKEN });
  const values = [{ a: 1 }, [1, 2], "text", "MTIz", 1234, 12345678, true, false, null, -1.5];
  await queue.sendBatch(values.map((body) => ({ body })));
  const { messages } = await queue.pull({ batchSize: 100 });
  assert.deepEqual(messages.map(({ body }) => body), values);
});

test("a batch comes from anything that can be iterated, each message with its own type and delay", async () => {
  const queue = overHttp(await api.queue());
  function* batch() {
    yield { body: 1 };
    yield { body: "two", contentType: "text", delaySeconds: 0 };
    yield { body: 3, delaySeconds: 600 };
  }
  const { metadata } = await queue.sendBatch(batch(), { delaySeconds: 600 });
  assert.equal(metadata.metrics.backlogCount, 3);
  const { messages } = await queue.pull();
  assert.deepEqual(messages.map(({ body }) => body), ["two"], "the others have the batch's delay, or their own");
});

test("a send with a key is stored once", async () => {
  const queue = overHttp(await api.queue());
  await queue.send(1, { idempotencyKey: "order 1" });
  await queue.send(1, { idempotencyKey: "order 1" });
  await queue.sendBatch([{ body: 2 }], { idempotencyKey: "order 2" });
  await queue.sendBatch([{ body: 2 }], { idempotencyKey: "order 2" });
  const { backlogCount, backlogBytes, oldestMessageTimestamp } = await queue.metrics();
  assert.deepEqual([backlogCount, backlogBytes], [2, 2]);
  assert.ok(oldestMessageTimestamp instanceof Date);
});

test("messages are acknowledged, retried and extended, one at a time, by lease id or as a whole batch", async () => {
  const queue = overHttp(await api.queue());
  await queue.sendBatch(["acked", "acked by id", "retried", "later", "kept"].map((body) => ({ body })));
  const { messages: [acked, byId, retried, later, kept] } = await queue.pull({ batchSize: 10, visibilityTimeoutMs: 1_000 });
  assert.deepEqual(await queue.extend([kept], 600_000), { extendedCount: 1, warnings: {} });
  assert.deepEqual(await queue.ack(acked), { ackCount: 1, retryCount: 0, warnings: {} });
  assert.equal((await queue.ack(byId.leaseId)).ackCount, 1);
  assert.deepEqual(await queue.retry([later], { delaySeconds: 600 }), { ackCount: 0, retryCount: 1, warnings: {} });
  assert.equal((await queue.retry(new Set([retried]))).retryCount, 1);
  const { messages } = await queue.pull({ waitMs: 5_000 });
  assert.deepEqual(messages.map(({ body, attempts }) => [body, attempts]), [["retried", 2]]);
  assert.deepEqual(Object.keys((await queue.ack("no lease")).warnings), ["no lease"]);
  assert.equal((await queue.metrics()).backlogCount, 3);
});

test("a pull that waits is answered when a message comes", async () => {
  const queue = overHttp(await api.queue());
  const waiting = queue.pull({ waitMs: 10_000 });
  await queue.send("here");
  assert.deepEqual((await waiting).messages.map(({ body }) => body), ["here"]);
});

test("a refusal is thrown with its status, code and message, and a body that doesn't fit before it is sent", async () => {
  const made = await api.queue();
  const queue = overHttp(made);
  const refusals = [
    [() => queue.send("x".repeat(128_001), { contentType: "text" }), 413, 10204],
    [() => queue.send(1, { delaySeconds: -1 }), 400, 10202],
    [() => queue.sendBatch([]), 400, 10206],
    [() => overHttp(made, "wrong").send(1), 401, 10000],
    [() => overHttp({ id: UNKNOWN_ID }).pull(), 404, 10104],
  ];
  for (const [call, status, code] of refusals) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof PullqError && error instanceof Error, `${error}`);
      assert.deepEqual([error.name, error.status, error.code, error.retryAfterSeconds], ["PullqError", status, code, undefined]);
      assert.ok(error.message.length > 10 && error.errors[0].message === error.message);
      return true;
    });
  }
  for (const [body, contentType] of [[undefined, "json"], [() => {}, undefined], [1, "text"], ["text", "bytes"], [new Map(), "v8"], [1, "xml"]]) {
    await assert.rejects(queue.send(body, { contentType }), TypeError);
    await assert.rejects(queue.sendBatch([{ body: 1 }, { body, contentType }]), TypeError);
  }
  assert.equal((await queue.metrics()).backlogCount, 0);
});

test("an answer that isn't pullq's is an error with its status too", async (t) => {
  const proxy = createServer((_, response) => response.writeHead(502, { "retry-after": "7" }).end("<html>bad gateway</html>")).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  t.after(() => proxy.close());
  const queue = pullQueue(`http://127.0.0.1:${proxy.address().port}`, { account: ACCOUNT, queueId: UNKNOWN_ID, token: "t" });
  await assert.rejects(queue.send(1), { name: "PullqError", status: 502, code: 0, retryAfterSeconds: 7 });
});

/** The example, bundled as wrangler would, beside pullq with what is in `storage`. */
async function startExample({ storage, queueId }) {
  const folder = join(ROOT, "examples/service-binding");
  const config = readFileSync(join(folder, "wrangler.toml"), "utf8");
  const value = (name) => config.match(new RegExp(`^${name} = "(.*)"$`, "m"))[1];
  const bundle = await build({
    entryPoints: [join(folder, value("main"))], bundle: true, format: "esm", write: false, conditions: ["workerd"],
    alias: { "pullq/binding": join(ROOT, "binding/pullq.ts") },
  });
  const miniflare = new Miniflare({
    cf: false,
    log: new Log(LogLevel.NONE),
    durableObjectsPersist: storage,
    workers: [
      {
        name: value("name"),
        modules: true,
        script: bundle.outputFiles[0].text,
        compatibilityDate: value("compatibility_date"),
        serviceBindings: { [value("binding")]: value("service") },
        // Whatever goes elsewhere than through the binding fails.
        outboundService: () => new Response("nothing leaves", { status: 599 }),
        bindings: { PULLQ_ACCOUNT: ACCOUNT, PULLQ_QUEUE_ID: queueId, PULLQ_TOKEN: DEV_TOKEN },
      },
      pullqWorker(),
    ],
  });
  await miniflare.ready;
  return miniflare;
}

test("the example Worker sends, pulls, acknowledges and retries through its service binding alone", async (t) => {
  const storage = await mkdtemp(join(tmpdir(), "pullq-example-"));
  t.after(() => rm(storage, { recursive: true, force: true }));
  const first = await startPullq({ persist: storage });
  const { id: queueId } = await new Api(first).queue({ name: "thumbnails" });
  await first.stop();

  const miniflare = await startExample({ storage, queueId });
  t.after(() => miniflare.dispose());
  const ask = async (method, path, body) => {
    const answer = await miniflare.dispatchFetch(`https://thumbnails${path}`, { method, ...(body && { body: JSON.stringify(body) }) });
    return [answer.status, await answer.json()];
  };
  const order = (width) => ({ image: "cat.png", width });
  assert.deepEqual(await ask("POST", "/", order(100)), [202, { waiting: 1 }]);
  assert.deepEqual(await ask("POST", "/", [order(1), order(2), order(0)]), [202, { waiting: 4 }]);
  assert.equal((await ask("GET", "/"))[1].backlogCount, 4);
  assert.deepEqual(await ask("POST", "/work", {}), [200, { done: 3, failed: 1 }]);
  assert.equal((await ask("GET", "/"))[1].backlogCount, 1, "the order that failed comes again later");
  const [status, refusal] = await ask("POST", "/", Array(101).fill(order(1)));
  assert.deepEqual([status, refusal.code], [400, 10206], "pullq's refusal, passed on");
});
