// What the fuzzer sends: for each input a kind is drawn, and the kind draws the rest.
//
// Two queues are aimed at. `kept` only ever gets what must be refused, so everything in it has to stay.
// `loose` gets what may still be valid after it was changed; it may be emptied, renamed or deleted.
import { readFileSync } from "node:fs";
import { ACCOUNT, UNKNOWN_ID } from "../support/api.mjs";
import { event } from "../support/events.mjs";
import { DEV_TOKEN } from "../support/pullq.mjs";
import { brokenUtf8, bytes, deep, respelled, size, spoiled, wrongIds, wrongNames, wrongNumbers } from "./values.mjs";

const DESCRIPTION = JSON.parse(readFileSync(new URL("../../openapi.json", import.meta.url), "utf8"));

/** Every endpoint of the Cloudflare face: {name, method, path, examples of its body}. */
export const ENDPOINTS = Object.entries(DESCRIPTION.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: operation.operationId,
    method: method.toUpperCase(),
    path,
    examples: Object.values(operation.requestBody?.content["application/json"].examples ?? {}).map(({ value }) => value),
  })),
);
const WITH_BODY = ENDPOINTS.filter(({ examples }) => examples.length > 0);
const endpoint = (name) => ENDPOINTS.find((each) => each.name === name);

/** Methods that workerd knows; it answers others itself. */
const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "COPY", "LOCK", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "SEARCH", "UNLOCK", "REPORT", "MERGE", "NOTIFY", "SUBSCRIBE"];

/** The fields of requests and their types: a value of any other type must be refused. */
const FIELDS = {
  createQueue: { queue_name: "string", settings: "object" },
  updateQueue: { queue_name: "string", settings: "object", "settings.delivery_delay": "number", "settings.delivery_paused": "boolean", "settings.message_retention_period": "number" },
  replaceQueue: { queue_name: "string", settings: "object", "settings.delivery_delay": "number", "settings.delivery_paused": "boolean", "settings.message_retention_period": "number" },
  putConsumer: { type: "string", dead_letter_queue: "string", settings: "object", "settings.batch_size": "number", "settings.max_retries": "number", "settings.retry_delay": "number", "settings.visibility_timeout_ms": "number" },
  sendMessage: { content_type: "string", delay_seconds: "number" },
  sendBatch: { messages: "array", delay_seconds: "number" },
  pullMessages: { batch_size: "number", visibility_timeout_ms: "number", wait_ms: "number" },
  settleMessages: { acks: "array", retries: "array" },
  extendLeases: { extensions: "array", visibility_timeout_ms: "number" },
  peekMessages: { batch_size: "number" },
  previewMessages: { batch_size: "number" },
  ackPreviewed: { acks: "array" },
  purgeMessages: { refs: "array" },
  startRedrive: { destination_queue_name: "string", messages_per_second: "number", refs: "array" },
  purgeQueue: { delete_messages_permanently: "boolean" },
};
const OF_TYPE = {
  string: ['""', '"x"', '"\\u0000"'],
  number: ["5", "0", ...wrongNumbers.slice(0, 8)],
  boolean: ["true", "false"],
  object: ["{}", '{"a":1}'],
  array: ["[]", "[1]"],
};

/** JSON text of an example with the text of a value put into one field. */
function withField({ examples }, field, text) {
  const value = structuredClone(examples[0]);
  const path = field.split(".");
  const last = path.pop();
  path.reduce((node, key) => (node[key] ??= {}), value)[last] = "\0here";
  return JSON.stringify(value).replace('"\\u0000here"', () => text);
}

const AUTHORIZED = { authorization: `Bearer ${DEV_TOKEN}`, "content-type": "application/json" };

/** A request to an endpoint with these ids in its path. */
function to({ name, method, path }, ids, body, headers = {}) {
  return {
    kind: name,
    method,
    path: path.replace(/\{(\w+)\}/g, (_, id) => ({ account_id: ACCOUNT, subscription_id: UNKNOWN_ID, ...ids })[id]),
    headers: { ...AUTHORIZED, ...headers },
    body,
  };
}

const refused = (input) => ({ ...input, mustBeRefused: true });

/** What must be refused on the Cloudflare face, whoever it is sent to. */
const refusedKinds = {
  bytes(rng, { kept }) {
    const noise = bytes(rng, size(rng, 3_000));
    const at = rng.between(0, noise.length);
    return refused(to(rng.pick(WITH_BODY), kept, Buffer.concat([noise.subarray(0, at), rng.pick(brokenUtf8), noise.subarray(at)])));
  },
  soup(rng, { kept }) {
    const words = ["{", "}", "[", "]", ",", ":", '"', '"a"', "1", "null", "true", " ", "\n", "\\", "body", "'x'", "/**/", "NaN", "\u2028", "\ufeff"];
    const text = Array.from({ length: size(rng, 200) }, () => rng.pick(words)).join("");
    // At the end no JSON can go on with it.
    return refused(to(rng.pick(WITH_BODY), kept, `${text}}x`));
  },
  deep(rng, { kept }) {
    const levels = rng.chance(0.1) ? 100_000 : rng.between(1_001, 5_000);
    const nested = deep(rng, levels);
    return refused(to(rng.pick(WITH_BODY), kept, rng.pick([nested, `{"body":${nested}}`, `{"x":${nested}}`, `{"messages":[{"body":${nested}}]}`])));
  },
  utf8(rng, { kept }) {
    const target = rng.pick(WITH_BODY);
    const text = Buffer.from(JSON.stringify(rng.pick(target.examples)));
    const at = rng.between(0, text.length);
    return refused(to(target, kept, Buffer.concat([text.subarray(0, at), rng.pick(brokenUtf8), text.subarray(at)])));
  },
  numbers(rng, { kept }) {
    const name = rng.pick(Object.keys(FIELDS));
    const numeric = Object.keys(FIELDS[name]).filter((field) => FIELDS[name][field] === "number");
    if (numeric.length === 0) return refusedKinds.numbers(rng, { kept });
    return refused(to(endpoint(name), kept, withField(endpoint(name), rng.pick(numeric), rng.pick(wrongNumbers))));
  },
  types(rng, { kept }) {
    const name = rng.pick(Object.keys(FIELDS));
    const field = rng.pick(Object.keys(FIELDS[name]));
    const other = rng.pick(Object.keys(OF_TYPE).filter((type) => type !== FIELDS[name][field]));
    return refused(to(endpoint(name), kept, withField(endpoint(name), field, rng.pick(OF_TYPE[other]))));
  },
  names(rng, { kept }) {
    const name = JSON.stringify(rng.pick(wrongNames));
    const [target, field] = rng.pick([["createQueue", "queue_name"], ["updateQueue", "queue_name"], ["replaceQueue", "queue_name"], ["putConsumer", "dead_letter_queue"]]);
    // An empty dead-letter queue is none.
    if (name === '""' && field === "dead_letter_queue") return refusedKinds.names(rng, { kept });
    return refused(to(endpoint(target), kept, withField(endpoint(target), field, name)));
  },
  credentials(rng, { kept }) {
    const target = rng.pick(ENDPOINTS.filter(({ name }) => name !== "getDescription"));
    const odd = rng.pick(["", "\xe9\xff", "\x80", "x".repeat(10_000), "a b c", "Bearer", "null", `${DEV_TOKEN}x`, DEV_TOKEN.slice(1), DEV_TOKEN.toUpperCase(), `${DEV_TOKEN},${DEV_TOKEN}`]);
    const headers = rng.pick([
      { authorization: `Bearer ${odd}` },
      { authorization: odd },
      { authorization: `Basic ${Buffer.from(`x:${DEV_TOKEN}`).toString("base64")}` },
      { authorization: "", "x-auth-key": odd, "x-auth-email": odd },
    ]);
    return refused(to(target, kept, target.examples.length > 0 ? JSON.stringify(rng.pick(target.examples)) : undefined, headers));
  },
  large(rng, { kept }) {
    const text = (length) => "x".repeat(length);
    return refused(
      rng.pick([
        () => to(endpoint("sendMessage"), kept, JSON.stringify({ body: text(rng.between(128_001, 200_000)), content_type: "text" })),
        () => to(endpoint("sendBatch"), kept, JSON.stringify({ messages: Array(rng.between(101, 20_000)).fill({ body: 1 }) })),
        () => to(endpoint("sendBatch"), kept, JSON.stringify({ messages: Array(3).fill({ body: text(90_000) }) })),
        () => to(endpoint("settleMessages"), kept, JSON.stringify({ acks: Array(rng.between(1_001, 5_000)).fill({ lease_id: "x" }) })),
        () => to(rng.pick(WITH_BODY), kept, Buffer.alloc(rng.between(2_000_001, 2_100_000), "[")),
        () => to(endpoint("sendMessage"), kept, '{"body":1}', { "idempotency-key": text(rng.between(257, 10_000)) }),
      ])(),
    );
  },
};

/** What is valid but for a change, or may be: taken or refused, but well. */
const looseKinds = {
  respelled(rng, { loose }) {
    const target = rng.pick(WITH_BODY);
    return to(target, loose, respelled(rng, rng.pick(target.examples)));
  },
  spoiled(rng, { loose }) {
    const target = rng.pick(WITH_BODY);
    // Nothing that could turn into a long wait for a message.
    const { wait_ms, ...example } = rng.pick(target.examples);
    return to(target, loose, spoiled(rng, JSON.stringify(example)));
  },
  tokens(rng, { loose }) {
    const token = () => {
      const real = rng.pick(loose.tokens);
      return rng.pick([
        () => real,
        () => real.slice(0, rng.between(0, real.length)),
        () => real + rng.pick(["=", "A", " ", "\0"]),
        () => spoiled(rng, real).toString("latin1"),
        () => bytes(rng, size(rng, 60)).toString("base64url"),
        () => rng.pick(wrongNames),
      ])();
    };
    const list = (key) => Array.from({ length: rng.between(1, 5) }, () => (rng.chance(0.2) ? token() : { [key]: token() }));
    const [name, body] = rng.pick([
      () => ["settleMessages", { acks: list("lease_id"), retries: list("lease_id") }],
      () => ["extendLeases", { extensions: list("lease_id"), visibility_timeout_ms: 60_000 }],
      () => ["purgeMessages", { refs: list("ref") }],
      () => ["ackPreviewed", { acks: list("lease_id") }],
    ])();
    return to(endpoint(name), loose, JSON.stringify(body));
  },
  paths(rng, { loose }) {
    const target = rng.pick(ENDPOINTS);
    const ids = { ...loose };
    const places = [...target.path.matchAll(/\{(\w+)\}/g)].map(([, id]) => id);
    const body = target.examples.length > 0 ? JSON.stringify(rng.pick(target.examples)) : undefined;
    if (places.length > 0 && rng.chance(0.7)) return to(target, { ...ids, [rng.pick(places)]: rng.pick(wrongIds) }, body);
    const input = to(target, ids, body);
    const segments = input.path.split("/");
    const at = rng.between(1, segments.length);
    return { ...input, path: [...segments.slice(0, at), rng.pick(wrongIds), ...segments.slice(at + rng.between(0, 1))].join("/") };
  },
  queries(rng, { loose }) {
    const target = rng.pick(["listQueues", "listSubscriptions", "listAccounts", "listMemberships", "listConsumers", "getMetrics"].map(endpoint));
    const value = () => rng.pick([...wrongIds, "1", "100", "101", "4294967296", "9007199254740993", "1e3", "-1", "%2B1", "desc", "1&1"]);
    const parameter = () => `${rng.pick(["page", "per_page", "name", "name[]", "direction", "order", "queue_id", "", "%70age", "x".repeat(500)])}=${value()}`;
    const query = Array.from({ length: size(rng, 120) }, parameter).join(rng.pick(["&", "&", ";", "&&"])).replaceAll("#", "%23");
    const input = to(target, loose);
    return { ...input, path: `${input.path}?${query}`.slice(0, 60_000) };
  },
  headers(rng, { loose }) {
    const target = rng.pick(ENDPOINTS);
    const names = ["content-type", "accept", "idempotency-key", "x-pullq-queues", "cf-connecting-ip", "origin", "x-forwarded-for", "cookie", "user-agent", "range", "if-match", "content-encoding", "api-version", "x-http-method-override", "ce-id"];
    const values = ["\xe9\xff", "\x80", "\t", "*", "null", '["*"]', "[]", "{}", "application/xml", "gzip", "bytes=0-", "DELETE", "x".repeat(5_000), "text/plain; charset=utf-16", "::ffff:1.2.3.4"];
    const odd = Object.fromEntries(Array.from({ length: rng.between(1, 5) }, () => [rng.pick(names), rng.pick(values)]));
    return to(target, loose, target.examples.length > 0 ? JSON.stringify(target.examples[0]) : undefined, odd);
  },
  methods(rng, { loose }) {
    const input = to(rng.pick(ENDPOINTS), loose);
    const method = rng.pick(METHODS);
    return { ...input, method, body: ["GET", "HEAD"].includes(method) ? undefined : rng.pick([undefined, "{}", "x"]) };
  },
  long(rng, { loose }) {
    const text = "x".repeat(rng.between(1_000, 128_000));
    const [name, body] = rng.pick([
      ["sendMessage", `{"body":"${text}","content_type":"text"}`],
      ["sendMessage", `{"body":${"9".repeat(text.length)}}`],
      ["sendMessage", `{"${text}":1,"body":1}`],
      ["sendMessage", `{${'"a":1,'.repeat(text.length / 10)}"body":1}`],
      ["sendMessage", `{"body":"${"\\u0000".repeat(text.length / 10)}"}`],
      ["sendMessage", `${" ".repeat(text.length)}{"body":1}`],
      ["settleMessages", `{"acks":[{"lease_id":"${text}"}]}`],
      ["pullMessages", `{"batch_size":1,"x":"${text}"}`],
      ["purgeMessages", `{"refs":["${text}"]}`],
    ]);
    return to(endpoint(name), loose, body);
  },
};

/** An event in structured mode, without a subject, which would name another channel; headers of one in binary mode. */
const EVENT = event("1", { datacontenttype: "application/json", extension: "x", data: { a: [1, null] } });
const BINARY = { "ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s", "ce-time": EVENT.time, "ce-extension": "%41" };
const STRUCTURED = { "content-type": "application/cloudevents+json" };
const BATCHED = { "content-type": "application/cloudevents-batch+json" };

const onEvents = (kind, endpoint, query, headers = {}, body) => ({
  kind,
  method: "POST",
  path: `/ce/queue/${endpoint}?${query}`,
  headers: { authorization: `Bearer ${DEV_TOKEN}`, ...headers },
  body,
});

const channelOf = (name) => `channel=${encodeURIComponent(name)}&client_id=fuzzer`;

const refusedEvents = {
  eventBytes: (rng, { kept }) => refused(onEvents("eventBytes", "send", channelOf(kept.channel), rng.pick([STRUCTURED, BATCHED]), Buffer.concat([rng.pick(brokenUtf8), bytes(rng, size(rng, 2_000))]))),
  eventDeep(rng, { kept }) {
    const nested = deep(rng, rng.chance(0.1) ? 100_000 : rng.between(1_001, 5_000));
    const body = rng.pick([nested, JSON.stringify({ ...EVENT, data: "here" }).replace('"here"', nested)]);
    return refused(onEvents("eventDeep", "send", channelOf(kept.channel), rng.pick([STRUCTURED, BATCHED]), body));
  },
  eventTypes(rng, { kept }) {
    const attribute = rng.pick(["specversion", "id", "source", "type"]);
    const text = JSON.stringify({ ...EVENT, [attribute]: "\0" }).replace('"\\u0000"', () => rng.pick(["null", "1", "[]", "{}", '""', "true", "1e400", '"\\ud800"']));
    return refused(onEvents("eventTypes", "send", channelOf(kept.channel), STRUCTURED, attribute === "id" ? text.replace(/"id":(null|"")/, '"id":[]') : text));
  },
  channels(rng, { kept }) {
    const wrong = rng.pick(["", "a%20b", "a*", "%3E", "a.", "%00", "%ff", "a%0Ab", "x".repeat(256), "%F0%9F%9A%80".repeat(64), "%E2%80%83"]);
    const body = JSON.stringify(EVENT);
    const endpoint = rng.pick(["send", "receive", "ack_all"]);
    return refused(onEvents("channels", endpoint, `channel=${wrong}&wait_timeout=0&client_id=x`, STRUCTURED, body));
  },
  eventQueries(rng, { kept }) {
    const [endpoint, name] = rng.pick([["receive", "max_messages"], ["receive", "wait_timeout"], ["receive", "is_peek"], ["ack_all", "wait_timeout"], ["send", "delay_seconds"]]);
    const wrong = rng.pick(["-1", "1.5", "1e3", "9007199254740993", "99999999999999999999", "%00", "%ff", "NaN", "yes", "%2B1", "0x10", "1".repeat(5_000), "86401"]);
    const body = endpoint === "send" ? JSON.stringify(EVENT) : undefined;
    return refused(onEvents("eventQueries", endpoint, `${channelOf(kept.channel)}&${name}=${wrong}`, STRUCTURED, body));
  },
};

const looseEvents = {
  eventRespelled(rng, { loose }) {
    const batch = rng.chance(0.3);
    const body = respelled(rng, batch ? [EVENT, EVENT] : EVENT);
    return onEvents("eventRespelled", "send", channelOf(loose.channel), batch ? BATCHED : STRUCTURED, body);
  },
  eventSpoiled: (rng, { loose }) => onEvents("eventSpoiled", "send", channelOf(loose.channel), STRUCTURED, spoiled(rng, JSON.stringify(EVENT))),
  eventHeaders(rng, { loose }) {
    const value = () => rng.pick(["", "%", "%zz", "%00", "%ff", "\xe9\xff", "\x80", '"a"', '"', "x".repeat(5_000), "1.0", "2026-11-30", "application/json", "\ttab"]);
    const name = () => rng.pick([...Object.keys(BINARY), "ce-", "ce-x", "ce-X_y", `ce-${"x".repeat(300)}`, "ce-datacontenttype", "ce-data", "content-type", "idempotency-key"]);
    const headers = { ...BINARY, "content-type": "application/json", ...Object.fromEntries(Array.from({ length: rng.between(1, 4) }, () => [name(), value()])) };
    return onEvents("eventHeaders", "send", channelOf(loose.channel), headers, rng.pick(["{}", "x", bytes(rng, size(rng, 1_000)), deep(rng, 2_000), undefined]));
  },
  eventModes(rng, { loose }) {
    const type = rng.pick(["", "application/cloudevents", "application/cloudevents+xml", "application/cloudevents+json; charset=utf-16", "application/CloudEvents+JSON;", "application/cloudevents-batch+json;;", "text/plain", "a/b/c", "/", "\xff"]);
    const body = rng.pick([JSON.stringify(EVENT), JSON.stringify([EVENT]), "[]", "", JSON.stringify(Array(101).fill(EVENT))]);
    return onEvents("eventModes", "send", channelOf(loose.channel), { "content-type": type, ...(rng.chance(0.3) ? BINARY : {}) }, body);
  },
  eventReceives(rng, { loose }) {
    const parameter = () => `${rng.pick(["channel", "client_id", "max_messages", "is_peek", "x", ""])}=${rng.pick(["", "1", "1000", "true", "%00", "x", ...wrongIds.slice(0, 30)])}`;
    const query = ["wait_timeout=0", channelOf(loose.channel), ...Array.from({ length: size(rng, 30) }, parameter)].join("&").replaceAll("#", "%23");
    return onEvents("eventReceives", rng.pick(["receive", "receive", "ack_all"]), query, {}, rng.pick([undefined, "x", "{}"]));
  },
  eventPaths(rng, { loose }) {
    const path = rng.pick(["/ce", "/ce/", "/ce/queue", "/ce/queue/send/", "/ce/queue//send", "/ce/queue/%73end", "/ce/queue/peek", `/ce/queue/${"a".repeat(5_000)}`, "/ce/queue/%00", "/ce/queue/send"]);
    return { ...onEvents("eventPaths", "x", "", STRUCTURED), path: `${path}?${channelOf(loose.channel)}`, method: rng.pick(METHODS.filter((method) => method !== "HEAD")) };
  },
};

export const KINDS = { ...refusedKinds, ...looseKinds, ...refusedEvents, ...looseEvents };

/** What is drawn more often, since there is more to vary in it, or seldom, since it takes long. */
const WEIGHTS = { respelled: 12, spoiled: 12, types: 6, numbers: 6, paths: 8, tokens: 4, eventRespelled: 5, eventSpoiled: 5, eventHeaders: 4, deep: 2, large: 1, long: 2 };
const DRAWN = Object.keys(KINDS).flatMap((kind) => Array(WEIGHTS[kind] ?? 3).fill(kind));

/** The next input: {kind, method, path, headers, body, mustBeRefused}. */
export function draw(rng, targets) {
  const kind = rng.pick(DRAWN);
  return { ...KINDS[kind](rng, targets), kind };
}
