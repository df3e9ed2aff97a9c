// What is beside queues and messages: the token's accounts, event subscriptions,
// the API description; and requests of every odd shape.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { ACCOUNT, Api, OTHER_ACCOUNT, UNKNOWN_ID } from "../support/api.mjs";
import { DEV, DEV_TOKEN, startPullq } from "../support/pullq.mjs";

const HOME = "0123456789abcdef0123456789abcdef";
const TENANT = { ...DEV, name: "tenant", token: "a-tenants-token", account: OTHER_ACCOUNT.toUpperCase() };

let pullq, api;
before(async () => {
  pullq = await startPullq({ tokens: [DEV, TENANT], bindings: { CLOUDEVENTS_ACCOUNT: HOME } });
  api = new Api(pullq);
});
after(() => pullq?.stop());

/**
 * A request as it is written here, which fetch would put right: {status, headers, text}. Header values
 * are bytes in Latin-1.
 */
function raw(method, path, { headers = {}, body } = {}) {
  const { hostname, port } = new URL(pullq.url);
  return new Promise((resolve, reject) => {
    const sent = request(
      { hostname, port, method, path, headers: { authorization: `Bearer ${DEV_TOKEN}`, ...headers }, timeout: 10_000 },
      (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () =>
          resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(chunks).toString() }),
        );
      },
    );
    sent.on("timeout", () => sent.destroy(new Error(`${method} ${path}: no answer`)));
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Asserts that an answer is a refusal in the envelope. */
function isRefused({ status, text }, expected, what) {
  assert.equal(status, expected, `${what}: ${text}`);
  const { success, errors, messages, result } = JSON.parse(text);
  assert.deepEqual({ success, messages, result }, { success: false, messages: [], result: null }, what);
  assert.ok(errors[0].code >= 1000 && errors[0].message.length > 0, what);
}

test("a token sees the account it is good for, and one for all the deployment's own", async () => {
  for (const [token, id] of [[TENANT.token, OTHER_ACCOUNT], [DEV_TOKEN, HOME]]) {
    const holder = new Api(pullq, { token });
    const { json } = await holder.call("GET", "~/accounts?page=1");
    assert.deepEqual(json.result, [{ id, name: "pullq", type: "standard" }]);
    assert.deepEqual(json.result_info, { page: 1, per_page: 20, count: 1, total_count: 1, total_pages: 1 });
    const memberships = await holder.ok("GET", "~/memberships?page=1");
    assert.deepEqual(memberships, [{ id, status: "accepted", account: { id, name: "pullq", type: "standard" }, roles: [] }]);
    for (const list of ["accounts", "memberships"]) assert.deepEqual(await holder.ok("GET", `~/${list}?page=2`), []);
  }
  assert.equal((await api.call("GET", "~/accounts?per_page=0")).status, 400);
});

test("where the deployment has no account of its own, a token for all sees none and works in every one", async () => {
  const homeless = await startPullq();
  try {
    const holder = new Api(homeless);
    assert.deepEqual(await holder.ok("GET", "~/accounts"), []);
    assert.deepEqual(await holder.ok("GET", "~/memberships"), []);
    assert.deepEqual(await holder.ok("GET", "/queues"), []);
  } finally {
    await homeless.stop();
  }
});

test("a token is verified, and a wrong one is not", async () => {
  const { id, status } = await api.ok("GET", "~/user/tokens/verify");
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.equal(status, "active");
  assert.notEqual((await new Api(pullq, { token: TENANT.token }).ok("GET", "~/user/tokens/verify")).id, id);
  for (const path of ["~/user/tokens/verify", "~/accounts", "~/memberships"]) {
    for (const token of ["wrong", null]) {
      const { status, json } = await new Api(pullq, { token }).call("GET", path);
      assert.deepEqual([status, json.errors[0].code], [401, 10000], path);
    }
  }
});

test("both forms of credentials are taken, and a key alone is not", async () => {
  const nobody = new Api(pullq, { token: null });
  const get = async (headers) => (await nobody.call("GET", "/queues", undefined, headers)).status;
  assert.equal(await get({ "x-auth-email": "me@example.com", "x-auth-key": DEV_TOKEN }), 200);
  assert.equal(await get({ authorization: `bearer ${DEV_TOKEN}` }), 200);
  assert.equal(await get({ "x-auth-key": DEV_TOKEN }), 401);
  assert.equal(await get({ "x-auth-email": "me@example.com" }), 401);
  assert.equal(await get({ "x-auth-email": "me@example.com", "x-auth-key": "wrong" }), 401);
});

test("event subscriptions are none: listed in pages, and creating one is refused with the reason", async () => {
  const path = "/event_subscriptions/subscriptions";
  for (const page of [1, 2]) {
    const { json } = await api.call("GET", `${path}?page=${page}&per_page=50&direction=desc&order=created_at&queue_id=${UNKNOWN_ID}`);
    assert.deepEqual(json.result, []);
    assert.deepEqual(json.result_info, { page, per_page: 50, count: 0, total_count: 0, total_pages: 0 });
  }
  for (const query of ["page=0", "per_page=101", "direction=up", "order=size"]) {
    assert.equal((await api.call("GET", `${path}?${query}`)).status, 400, query);
  }
  const subscription = {
    name: "uploads",
    enabled: true,
    events: ["bucket.created"],
    source: { type: "r2" },
    destination: { type: "queues.queue", queue_id: UNKNOWN_ID },
  };
  const { status, json } = await api.call("POST", path, subscription);
  assert.deepEqual([status, json.errors[0].code], [403, 19004]);
  assert.match(json.errors[0].message, /self-hosted/);
  for (const method of ["GET", "PATCH", "DELETE"]) {
    assert.equal((await api.call(method, `${path}/${UNKNOWN_ID}`, method === "PATCH" ? {} : undefined)).status, 404, method);
  }
});

test("the description is served to everybody, as it is committed", async () => {
  const response = await fetch(`${pullq.url}/openapi.json`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type"), /application\/json/);
  assert.equal(await response.text(), readFileSync(new URL("../../openapi.json", import.meta.url), "utf8"));
});

test("a jurisdiction that is absent or null is taken, and another refused with the reason", async () => {
  const made = await api.ok("POST", "/queues", { queue_name: "anywhere", jurisdiction: null });
  assert.equal(made.jurisdiction, undefined);
  for (const jurisdiction of ["eu", "us", "fedramp", "", 5]) {
    for (const [method, path] of [["POST", "/queues"], ["PUT", `/queues/${made.queue_id}`], ["PATCH", `/queues/${made.queue_id}`]]) {
      const { status, json } = await api.call(method, path, { queue_name: "somewhere", jurisdiction });
      assert.equal(status, 400, `${method} ${jurisdiction}`);
      assert.equal(json.errors[0].source.pointer, "/jurisdiction");
      assert.match(json.errors[0].message, /Durable Objects/);
    }
  }
  assert.deepEqual(await api.ok("GET", "/queues?name=somewhere"), []);
});

test("a queue doesn't become its own dead-letter queue, by a consumer or by a new name", async () => {
  const queue = await api.queue({ name: "work", consumer: { dead_letter_queue: "dead" } });
  for (const method of ["PUT", "PATCH"]) {
    const { status, headers, json } = await api.call(method, queue.path, { queue_name: "dead" });
    assert.deepEqual([status, json.errors[0].code], [409, 19008], method);
    assert.equal(headers.get("x-should-retry"), "false");
  }
  const [{ consumer_id }] = await api.ok("GET", `${queue.path}/consumers`);
  const own = { type: "http_pull", dead_letter_queue: "work" };
  assert.equal((await api.call("PUT", `${queue.path}/consumers/${consumer_id}`, own)).status, 400);
  assert.equal((await api.ok("PATCH", queue.path, { queue_name: "work-2" })).queue_name, "work-2");
});

test("refusals tell clients whether asking again can help", async () => {
  const bare = await api.queue({ consumer: null });
  const unpullable = await api.call("POST", `${bare.path}/messages/pull`, {});
  assert.deepEqual([unpullable.status, unpullable.json.errors[0].code, unpullable.headers.has("x-should-retry")], [405, 19001, false]);

  const queue = await api.queue();
  await queue.text("1");
  await api.ok("PATCH", queue.path, { settings: { delivery_paused: true } });
  const paused = await api.call("POST", `${queue.path}/messages/pull`, {});
  assert.deepEqual(
    [paused.status, paused.json.errors[0].message, paused.headers.get("x-should-retry")],
    [409, "queue_delivery_paused", "false"],
  );
  await queue.text("2");
  await api.ok("PATCH", queue.path, { settings: { delivery_paused: false } });
  assert.equal((await queue.take()).length, 2);

  for (const [call, code] of [
    [["POST", "/queues", { queue_name: queue.name }], 11009],
    [["POST", `${queue.path}/consumers`, { type: "http_pull" }], 11004],
  ]) {
    const { status, headers, json } = await api.call(...call);
    assert.deepEqual([status, json.errors[0].code, headers.get("x-should-retry")], [409, code, "false"]);
  }
  const nobody = await new Api(pullq, { token: null }).call("GET", "/queues");
  assert.equal(nobody.headers.get("www-authenticate"), "Bearer");
});

test("what is nowhere is answered in the envelope, outside the API too", async () => {
  const account = `/client/v4/accounts/${ACCOUNT}`;
  for (const path of [
    "/favicon.ico", "/metric", "/consoles", "/console/none.js", "/console/a/b.js", "/client", "/client/v4", "/client/v4/", "/client/v5/accounts", "/internal/configure",
    "//client/v4/accounts", "/client//v4/accounts", `${account}//queues`, `${account}/queues//`, "//openapi.json",
    `${account}/queues/${UNKNOWN_ID}/messages//pull`, "/client/v4/%61ccounts/x/y", "/%00", "/%ff%fe", "/%", "/%zz", "/a%2fb",
  ]) {
    for (const headers of [{}, { authorization: "" }]) {
      const answer = await raw("GET", path, { headers });
      assert.ok([400, 404].includes(answer.status), `${path}: ${answer.status}`);
      isRefused(answer, answer.status, path);
    }
  }
});

test("methods that an endpoint hasn't are 405 with those it has, whatever their name", async () => {
  const account = `/client/v4/accounts/${ACCOUNT}`;
  const methods = ["DELETE", "OPTIONS", "PROPFIND", "QUERY", "REPORT", "SEARCH"];
  for (const method of methods) {
    const answer = await raw(method, `${account}/queues`);
    isRefused(answer, 405, method);
    assert.equal(answer.headers.allow, "GET, POST", method);
  }
  const head = await raw("HEAD", `${account}/queues`);
  assert.deepEqual([head.status, head.headers.allow, head.text], [405, "GET, POST", ""]);
  for (const method of ["POST", "DELETE", "OPTIONS"]) isRefused(await raw(method, "/openapi.json"), 405, method);
});

test("header values of any bytes are refused or mean nothing, and never harm", async () => {
  const account = `/client/v4/accounts/${ACCOUNT}`;
  const odd = ["\u00e9\u00ff", "\u0080", "\ttab", "x".repeat(8_000)];
  for (const value of odd) {
    isRefused(await raw("GET", `${account}/queues`, { headers: { authorization: `Bearer ${value}` } }), 401, "authorization");
    const keyed = { authorization: "", "x-auth-email": value, "x-auth-key": value };
    isRefused(await raw("GET", `${account}/queues`, { headers: keyed }), 401, "x-auth-key");
    const passed = { "cf-connecting-ip": value, "user-agent": value, "content-type": value, "x-pullq-queues": value, origin: value };
    assert.equal((await raw("GET", `${account}/queues`, { headers: passed })).status, 200, JSON.stringify(value).slice(0, 20));
  }
  const queue = await api.queue();
  const send = (key) => raw("POST", `${account}${queue.path}/messages`, { headers: { "idempotency-key": key }, body: '{"body":1}' });
  for (const key of ["\u00e9", "\u0080", "k".repeat(257), "a\tb"]) isRefused(await send(key), 400, JSON.stringify(key));
  for (const key of ["k".repeat(256), "order 7", '"quoted"', ""]) assert.equal((await send(key)).status, 200, key);
});

test("long paths and queries are answered in the envelope", async () => {
  const account = `/client/v4/accounts/${ACCOUNT}`;
  isRefused(await raw("GET", `/${"a/".repeat(3_000)}`), 404, "a deep path");
  isRefused(await raw("GET", `${account}/queues/${"%61".repeat(3_000)}`), 400, "a long id");
  assert.equal((await raw("GET", `${account}/queues?${"x=1&".repeat(2_000)}`)).status, 200);
  isRefused(await raw("GET", `${account}/queues?${"name=a&".repeat(101)}`), 400, "too many names");
  assert.equal((await raw("GET", `${account}/queues?name=%00&name=%ff&name=%&name[]=x`)).status, 200);
});

test("PATCH keeps the settings it doesn't name, PUT puts them to their defaults, and both keep the name", async () => {
  const settings = { delivery_delay: 7, delivery_paused: true, message_retention_period: 600 };
  const queue = await api.queue({ name: "patched", settings, consumer: null });
  const patched = await api.ok("PATCH", queue.path, { settings: { delivery_delay: 9 } });
  assert.deepEqual([patched.queue_name, patched.settings], ["patched", { ...settings, delivery_delay: 9 }]);
  const put = await api.ok("PUT", queue.path, { settings: { delivery_delay: 9 } });
  const defaults = { delivery_delay: 9, delivery_paused: false, message_retention_period: 345_600 };
  assert.deepEqual([put.queue_name, put.settings], ["patched", defaults]);
  const renamed = await api.ok("PATCH", queue.path, { queue_name: "renamed" });
  assert.deepEqual([renamed.queue_id, renamed.queue_name], [queue.id, "renamed"]);
});

test("PUT of a consumer replaces it, or makes it where there is none", async () => {
  const queue = await api.queue({ consumer: null });
  const id = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  const put = (id, settings) => api.call("PUT", `${queue.path}/consumers/${id}`, { type: "http_pull", settings });
  const made = await put(id, { batch_size: 7, max_retries: 1 });
  assert.deepEqual([made.status, made.json.result.consumer_id, made.json.result.settings.batch_size], [200, id, 7]);
  const { json } = await put(id, { batch_size: 8 });
  assert.equal(json.result.settings.batch_size, 8);
  assert.equal(json.result.settings.max_retries, 3, "what is not said is at its default");
  assert.equal(json.result.created_on, made.json.result.created_on);
  assert.equal((await put(UNKNOWN_ID, {})).status, 409, "a queue has one consumer");
  assert.deepEqual(await api.ok("GET", `${queue.path}/consumers/${id}`), json.result);
  assert.equal((await api.call("GET", `${queue.path}/consumers/${UNKNOWN_ID}`)).status, 404);
});

test("the older forms of peek and purge work below /messages/preview", async () => {
  const queue = await api.queue();
  await queue.texts(["1", "2"]);
  const { messages } = await api.ok("POST", `${queue.path}/messages/preview`, { batch_size: 10 });
  assert.deepEqual(messages.map(({ body, attempts }) => [body, attempts]), [["1", 0], ["2", 0]]);
  const acked = await api.ok("POST", `${queue.path}/messages/preview/ack`, { acks: [{ lease_id: messages[0].lease_id }] });
  assert.deepEqual(acked, { purgedCount: 1, warnings: {} });
  assert.deepEqual((await queue.take()).map(({ body }) => body), ["2"]);
});

test("a list is of the names it is asked for, exactly", async () => {
  for (const name of ["exact", "exact-2", "exac"]) await api.queue({ name });
  const names = async (query) => (await api.ok("GET", `/queues?page=1&${query}`)).map(({ queue_name }) => queue_name);
  assert.deepEqual(await names("name=exact"), ["exact"]);
  assert.deepEqual(await names("name=exact&name=exac"), ["exact", "exac"]);
  assert.deepEqual(await names("name=nothing"), []);
});

test("with JSON_BODIES=text json bodies come back as the text that was sent", async () => {
  const plain = await startPullq({ bindings: { JSON_BODIES: "text" } });
  try {
    const queue = await new Api(plain).queue();
    await queue.api.ok("POST", `${queue.path}/messages`, '{"body": { "b":1.0,"a":[] } }');
    const [{ body, metadata }] = await queue.take();
    assert.deepEqual([body, metadata["CF-Content-Type"]], ['{ "b":1.0,"a":[] }', "json"]);
  } finally {
    await plain.stop();
  }
});
