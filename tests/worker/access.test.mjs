// Who gets in: nobody without a token the deployment knows, and nobody further
// than that token's account, queues and permissions.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { Api, OTHER_ACCOUNT, UNKNOWN_ID, bodies, everyCall } from "../support/api.mjs";
import { DEV, DEV_TOKEN, startPullq } from "../support/pullq.mjs";

const LOCKED = { status: [401, 403], code: [10000], says: /API_TOKENS/ };
const UNKNOWN_TOKEN = { status: [401, 403], code: [10000] };
const NOT_ALLOWED = { status: [403], code: [10000, 10106] };

const MINE = "22222222222222222222222222222222";
const TOKENS = {
  reader: { ...DEV, name: "reader", token: "a-reader", permissions: ["queues:read"] },
  writer: { ...DEV, name: "writer", token: "a-writer", permissions: ["queues:write"] },
  nothing: { ...DEV, name: "nothing", token: "a-token-without-permissions", permissions: [] },
  tenant: { ...DEV, name: "tenant", token: "a-tenant", account: MINE },
  orders: { ...DEV, name: "orders", token: "a-token-for-orders", queues: ["orders-*"] },
};

let pullq;
before(async () => {
  pullq = await startPullq({ tokens: [DEV, ...Object.values(TOKENS)] });
});
after(() => pullq?.stop());

const as = (token, account) => new Api(pullq, { token, ...(account && { account }) });

async function check(api, [method, path, body, headers], { status, code, says = /./ }) {
  const answer = await api.call(method, path, body, headers);
  const shown = `${method} ${path}: ${answer.status} ${JSON.stringify(answer.json)}`;
  assert.ok(status.includes(answer.status), shown);
  assert.ok(code.includes(answer.json.errors[0].code), shown);
  assert.match(answer.json.errors[0].message, says, shown);
  return answer;
}

const everything = (queue) => [["POST", "/queues", { queue_name: "never-made" }], ["GET", "/queues"], ...everyCall(queue)];

for (const [name, secret] of Object.entries({
  "is not set": { tokens: null },
  "is empty": { tokens: null, bindings: { API_TOKENS: "" } },
  "names no token": { tokens: [] },
})) {
  test(`nobody gets in while API_TOKENS ${name}, and the answer says to set it`, async () => {
    const locked = await startPullq(secret);
    try {
      for (const token of [null, DEV_TOKEN, ""]) {
        const api = new Api(locked, { token });
        for (const call of everything({ path: `/queues/${UNKNOWN_ID}` })) await check(api, call, LOCKED);
      }
    } finally {
      await locked.stop();
    }
  });
}

for (const [name, API_TOKENS] of Object.entries({
  "is not JSON": "let me in",
  "is not a list": '{"name":"dev"}',
  "has an entry without a hash": '[{"name":"dev","account":"*","queues":["*"],"permissions":["queues:read","queues:write"]}]',
  "has an empty hash": '[{"name":"dev","sha256":"","account":"*","queues":["*"],"permissions":["queues:read","queues:write"]}]',
})) {
  test(`nobody gets in when API_TOKENS ${name}`, async () => {
    const broken = await startPullq({ bindings: { API_TOKENS } });
    try {
      for (const token of [null, DEV_TOKEN, ""]) {
        const { status } = await new Api(broken, { token }).call("GET", "/queues");
        assert.ok([401, 403, 500].includes(status), `${status}`);
      }
    } finally {
      await broken.stop();
    }
  });
}

test("a missing or wrong token is refused everywhere and changes nothing", async () => {
  const queue = await as(DEV_TOKEN).queue();
  await queue.text("1");
  for (const token of [null, "wrong"]) {
    for (const call of everything(queue)) await check(as(token), call, UNKNOWN_TOKEN);
  }
  assert.deepEqual(bodies(await queue.take()), ["1"]);
});

test("only the token itself is the token", async () => {
  const hash = createHash("sha256").update(DEV_TOKEN).digest("hex");
  const near = [DEV_TOKEN.slice(0, -1), `${DEV_TOKEN}x`, `x${DEV_TOKEN}`, DEV_TOKEN.toUpperCase(), hash, DEV.name, "*", "x".repeat(5_000), "t\u00f6ken"];
  for (const token of near) await check(as(token), ["GET", "/queues"], UNKNOWN_TOKEN);
  const headers = ["", "Bearer", "Bearer ", DEV_TOKEN, `Basic ${btoa(`dev:${DEV_TOKEN}`)}`, `Token ${DEV_TOKEN}`, `Bearer ${DEV_TOKEN} ${DEV_TOKEN}`];
  for (const authorization of headers) {
    await check(as(null), ["GET", "/queues", undefined, { authorization }], UNKNOWN_TOKEN);
  }
});

test("a refusal repeats neither the token it was given nor one it knows", async () => {
  const { json, headers } = await as("a-secret-typed-wrongly").call("GET", "/queues");
  const answer = JSON.stringify([json, [...headers]]);
  for (const secret of ["a-secret-typed-wrongly", DEV_TOKEN]) assert.ok(!answer.includes(secret), answer);
});

test("a token that may only read lists and looks, and changes nothing", async () => {
  const queue = await as(DEV_TOKEN).queue();
  await queue.text("1");
  const reader = as(TOKENS.reader.token);
  for (const path of ["/queues", queue.path, `${queue.path}/consumers`]) assert.equal((await reader.call("GET", path)).status, 200, path);
  for (const call of everything(queue).filter(([method]) => method !== "GET")) await check(reader, call, NOT_ALLOWED);
  assert.deepEqual(bodies(await queue.take()), ["1"]);
});

test("a token that may only write sends, and neither pulls nor acknowledges", async () => {
  const queue = await as(DEV_TOKEN).queue();
  const writer = as(TOKENS.writer.token);
  assert.equal((await writer.call("POST", `${queue.path}/messages`, { body: "1", content_type: "text" })).status, 200);
  await check(writer, ["POST", `${queue.path}/messages/pull`, {}], NOT_ALLOWED);
  const [message] = await queue.take();
  assert.equal(message.attempts, 1);
  await check(writer, ["POST", `${queue.path}/messages/ack`, { acks: [{ lease_id: message.lease_id }] }], NOT_ALLOWED);
  await queue.isQuiet(1);
});

test("a token without permissions may do nothing", async () => {
  const queue = await as(DEV_TOKEN).queue();
  for (const call of everything(queue)) await check(as(TOKENS.nothing.token), call, NOT_ALLOWED);
});

test("a token of one account works there, and in another learns nothing and changes nothing", async () => {
  const own = await as(TOKENS.tenant.token, MINE).queue({ name: "tenant" });
  await own.text("own");
  assert.deepEqual(bodies(await own.take()), ["own"]);

  const foreign = await as(DEV_TOKEN, OTHER_ACCOUNT).queue({ name: "foreign" });
  await foreign.text("1");
  const intruder = as(TOKENS.tenant.token, OTHER_ACCOUNT);
  for (const call of everything(foreign)) await check(intruder, call, NOT_ALLOWED);
  const existing = await intruder.call("GET", foreign.path);
  const missing = await intruder.call("GET", `/queues/${UNKNOWN_ID}`);
  assert.deepEqual([existing.status, existing.json], [missing.status, missing.json], "nothing tells what exists");
  assert.deepEqual(bodies(await foreign.take()), ["1"]);
});

test("a token for some queues works on those by their names, and touches no other", async () => {
  const admin = as(DEV_TOKEN, MINE);
  const allowed = await admin.queue({ name: "orders-1" });
  const other = await admin.queue({ name: "old-orders-1" });
  await other.text("1");
  const limited = as(TOKENS.orders.token, MINE);
  assert.equal((await limited.call("POST", `${allowed.path}/messages`, { body: "2", content_type: "text" })).status, 200);
  assert.deepEqual((await limited.ok("POST", `${allowed.path}/messages/pull`, {})).messages.map(({ body }) => body), ["2"]);
  for (const call of everyCall(other)) await check(limited, call, NOT_ALLOWED);
  await check(limited, ["POST", "/queues", { queue_name: "old-orders-2" }], NOT_ALLOWED);
  assert.deepEqual(bodies(await other.take()), ["1"]);
});

test("what the Worker tells its objects can't be said from outside", async () => {
  const admin = as(DEV_TOKEN, MINE);
  const other = await admin.queue({ name: "not-for-that-token" });
  await other.text("1");
  const limited = as(TOKENS.orders.token, MINE);
  for (const [method, path, body] of everyCall(other)) {
    await check(limited, [method, path, body, { "x-pullq-queues": '["*"]' }], NOT_ALLOWED);
  }
  for (const path of ["configure", "destroy", "purge", "receive", "resolve"]) {
    const { status } = await fetch(`${pullq.url}/internal/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${DEV_TOKEN}` },
      body: "{}",
    });
    assert.equal(status, 404, path);
  }
  assert.deepEqual(bodies(await other.take()), ["1"]);
});
