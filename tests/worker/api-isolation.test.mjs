// Who sees and touches what, on every endpoint that openapi.json describes: one
// account never another's queue, a token for some queues none of the others,
// and no refusal tells what exists.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { ACCOUNT, Api, OTHER_ACCOUNT, UNKNOWN_ID, bodies } from "../support/api.mjs";
import { DEV, startPullq } from "../support/pullq.mjs";

const DESCRIPTION = JSON.parse(readFileSync(new URL("../../openapi.json", import.meta.url), "utf8"));
const PREFIX = "/client/v4/accounts/{account_id}";

/** Every endpoint of an account: {name, method, path below the account, the body it is called with}. */
const ENDPOINTS = Object.entries(DESCRIPTION.paths)
  .filter(([path]) => path.startsWith(PREFIX))
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: operation.operationId,
      method: method.toUpperCase(),
      path: path.slice(PREFIX.length),
      body: operation.requestBody?.content["application/json"].examples["example 1"].value,
    })),
  );
const OF_A_QUEUE = ENDPOINTS.filter(({ path }) => path.includes("{queue_id}"));

const TOKENS = {
  neighbour: { ...DEV, name: "neighbour", token: "a-neighbours-token", account: OTHER_ACCOUNT },
  mail: { ...DEV, name: "mail", token: "a-token-for-mail", queues: ["mail-*"] },
};

let pullq, owner;
before(async () => {
  pullq = await startPullq({ tokens: [DEV, ...Object.values(TOKENS)] });
  owner = new Api(pullq);
});
after(() => pullq?.stop());

const as = (token, account = ACCOUNT) => new Api(pullq, { token, account });

/** A queue with a consumer, one leased and two waiting messages, and all that a stranger could name of it. */
async function furnished() {
  const queue = await owner.queue({ consumer: { settings: { visibility_timeout_ms: 600_000 } } });
  await queue.texts(["leased", "waiting", "waiting too"]);
  const [{ lease_id }] = await queue.take({ batch_size: 1 });
  const [{ consumer_id }] = await owner.ok("GET", `${queue.path}/consumers`);
  const peeked = await owner.ok("POST", `${queue.path}/messages/peek`, {});
  return { queue, ids: { queue_id: queue.id, consumer_id, subscription_id: UNKNOWN_ID }, lease_id, ref: peeked.messages[0].ref };
}

/** All that can be seen of a queue; tokens of messages are sealed anew each time. */
async function view({ path }) {
  const peeked = await owner.ok("POST", `${path}/messages/peek`, { batch_size: 100 });
  return {
    queue: await owner.ok("GET", path),
    metrics: await owner.ok("GET", `${path}/metrics`),
    purge: await owner.ok("GET", `${path}/purge`),
    messages: peeked.messages.map(({ ref, ...message }) => message),
  };
}

/** The call of an endpoint on `ids`, its body naming the real lease id and ref. */
function call({ method, path, body }, ids, { lease_id = "x", ref = "x" } = {}) {
  const text = JSON.stringify(body)?.replaceAll(/"lease_id":"[^"]*"/g, `"lease_id":"${lease_id}"`).replaceAll(/"ref":"[^"]*"/g, `"ref":"${ref}"`);
  return [method, path.replaceAll(/\{(\w+)\}/g, (_, name) => ids[name]), text];
}

const unknown = (ids) => ({ ...ids, queue_id: UNKNOWN_ID });

test("the description lists every endpoint of an account", () => {
  assert.equal(ENDPOINTS.length, 33);
  assert.equal(OF_A_QUEUE.length, 25);
});

test("another account finds nothing under a queue's id, on every endpoint, and changes nothing", async () => {
  const stranger = as(DEV.token, OTHER_ACCOUNT);
  for (const endpoint of OF_A_QUEUE) {
    const { queue, ids, ...tokens } = await furnished();
    const before = await view(queue);
    const found = await stranger.call(...call(endpoint, ids, tokens));
    const missing = await stranger.call(...call(endpoint, unknown(ids), tokens));
    assert.equal(found.status, 404, endpoint.name);
    assert.deepEqual(found.json, missing.json, `${endpoint.name}: nothing tells that it exists elsewhere`);
    assert.deepEqual(await view(queue), before, endpoint.name);
    assert.equal((await queue.settle({ acks: [tokens.lease_id] })).ackCount, 1, endpoint.name);
  }
});

test("a token of another account is refused on every endpoint, and nothing tells what exists", async () => {
  const intruder = as(TOKENS.neighbour.token);
  for (const endpoint of ENDPOINTS) {
    const { queue, ids, ...tokens } = await furnished();
    const before = await view(queue);
    const answers = [await intruder.call(...call(endpoint, ids, tokens)), await intruder.call(...call(endpoint, unknown(ids), tokens))];
    for (const { status, json } of answers) assert.deepEqual([status, json.errors[0].code], [403, 10106], endpoint.name);
    assert.deepEqual(answers[0].json, answers[1].json, endpoint.name);
    assert.deepEqual(await view(queue), before, endpoint.name);
  }
});

test("an account's list has its own queues alone, also when it is asked for another's name", async () => {
  const { queue } = await furnished();
  const stranger = as(DEV.token, OTHER_ACCOUNT);
  const own = await stranger.queue({ name: "of-the-other-account" });
  for (const query of ["", `?name=${queue.name}`, `?name=${queue.name}&name=${own.name}`]) {
    const { json } = await stranger.call("GET", `/queues${query}`);
    assert.ok(json.result.every(({ queue_name }) => queue_name === own.name), query);
    assert.ok(json.result_info.total_count <= 1, query);
  }
});

test("a lease id and a ref of another account's queue mean nothing, on every endpoint that takes them", async () => {
  const { queue, lease_id, ref } = await furnished();
  const before = await view(queue);
  const stranger = as(DEV.token, OTHER_ACCOUNT);
  const theirs = await stranger.queue();
  for (const endpoint of OF_A_QUEUE.filter(({ body }) => /lease_id|"ref"/.test(JSON.stringify(body) ?? ""))) {
    if (endpoint.name === "startRedrive") continue; // It passes over them later, see below.
    const [method, path, body] = call(endpoint, { queue_id: theirs.id }, { lease_id, ref });
    const { status, json } = await stranger.call(method, path, body);
    assert.equal(status, 200, endpoint.name);
    const { ackCount = 0, retryCount = 0, extendedCount = 0, purgedCount = 0 } = json.result;
    assert.equal(ackCount + retryCount + extendedCount + purgedCount, 0, endpoint.name);
    assert.ok(Object.keys(json.result.warnings).some((token) => [lease_id, ref].includes(token)), endpoint.name);
  }
  const target = await stranger.queue();
  await stranger.ok("POST", `${theirs.path}/redrive`, { destination_queue_name: target.name, refs: [ref] });
  const { moved, skipped } = await stranger.ok("GET", `${theirs.path}/redrive`);
  assert.deepEqual({ moved, skipped }, { moved: 0, skipped: 1 });
  assert.deepEqual(await view(queue), before);
});

test("a token for some queues is refused on every endpoint of the others, and nothing tells what exists", async () => {
  const limited = as(TOKENS.mail.token);
  for (const endpoint of OF_A_QUEUE) {
    const { queue, ids, ...tokens } = await furnished();
    const before = await view(queue);
    const answers = [await limited.call(...call(endpoint, ids, tokens)), await limited.call(...call(endpoint, unknown(ids), tokens))];
    for (const { status, json } of answers) assert.deepEqual([status, json.errors[0].code], [403, 10106], endpoint.name);
    assert.deepEqual(answers[0].json, answers[1].json, endpoint.name);
    assert.deepEqual(await view(queue), before, endpoint.name);
  }
});

test("a token for some queues works on them, on every endpoint, and lists them alone", async () => {
  const limited = as(TOKENS.mail.token);
  await owner.queue({ name: "letters" });
  for (const endpoint of OF_A_QUEUE) {
    const queue = await owner.queue({ name: `mail-${endpoint.name}` });
    const [{ consumer_id }] = await owner.ok("GET", `${queue.path}/consumers`);
    const body = structuredClone(endpoint.body);
    if (body?.queue_name) body.queue_name = `${queue.name}-2`;
    if (body?.dead_letter_queue) body.dead_letter_queue = "mail-dead";
    if (body?.destination_queue_name) body.destination_queue_name = "mail-getQueue";
    const { status, json } = await limited.call(...call({ ...endpoint, body }, { queue_id: queue.id, consumer_id }));
    // The queue has a consumer already.
    assert.equal(status, endpoint.name === "createConsumer" ? 409 : 200, `${endpoint.name}: ${JSON.stringify(json)}`);
  }
  const { json } = await limited.call("GET", "/queues?per_page=100");
  assert.ok(json.result.length > 15);
  assert.ok(json.result.every(({ queue_name }) => queue_name.startsWith("mail-")));
  assert.equal(json.result_info.total_count, json.result.length);
  assert.deepEqual(await limited.ok("GET", "/queues?name=letters"), []);
});

test("a token for some queues neither makes, renames nor dead-letters into another", async () => {
  const limited = as(TOKENS.mail.token);
  const other = await owner.queue({ name: "invoices" });
  const own = await owner.queue({ name: "mail-in", consumer: { dead_letter_queue: "mail-dead" } });
  const [{ consumer_id }] = await owner.ok("GET", `${own.path}/consumers`);
  const bare = await owner.queue({ name: "mail-bare", consumer: null });
  const refused = [
    ...["invoices", "never-made"].flatMap((name) => [
      ["POST", "/queues", { queue_name: name }],
      ["PUT", own.path, { queue_name: name }],
      ["PATCH", own.path, { queue_name: name }],
      ["POST", `${bare.path}/consumers`, { type: "http_pull", dead_letter_queue: name }],
      ["PUT", `${own.path}/consumers/${consumer_id}`, { type: "http_pull", dead_letter_queue: name }],
    ]),
  ];
  const said = new Set();
  for (const [method, path, body] of refused) {
    const { status, json } = await limited.call(method, path, body);
    assert.deepEqual([status, json.errors[0].code], [403, 10106], `${method} ${path} ${JSON.stringify(body)}`);
    said.add(JSON.stringify(json));
  }
  assert.equal(said.size, 1, "the same whether the name is taken or not");
  assert.equal((await owner.ok("GET", own.path)).queue_name, "mail-in");
  assert.equal((await owner.ok("GET", `${own.path}/consumers`))[0].dead_letter_queue, "mail-dead");
  assert.deepEqual(await owner.ok("GET", `${bare.path}/consumers`), []);
  assert.deepEqual(await owner.ok("GET", "/queues?name=never-made"), []);
  await other.text("1");
  assert.deepEqual(bodies(await other.take()), ["1"]);
});
