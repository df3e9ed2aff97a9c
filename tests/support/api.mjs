// A small client of the REST API for the tests: every answer is checked to be
// Cloudflare's envelope, whatever it says. It repeats no request.
import assert from "node:assert/strict";
import { DEV_TOKEN } from "./pullq.mjs";

export const ACCOUNT = "023e105f4ecef8ad9ca31a8372d0c353";
export const OTHER_ACCOUNT = "699d98642c564d2e855e9661899b7252";

/** A well-formed id that nothing has. */
export const UNKNOWN_ID = "00000000000000000000000000000000";

/** A panic in a Durable Object leaves its caller waiting: no answer within this is a failure. */
const ANSWER_WITHIN_MS = 20_000;

let named = 0;

/** One account as one token sees it. */
export class Api {
  constructor(server, { token = DEV_TOKEN, account = ACCOUNT } = {}) {
    Object.assign(this, { server, token, account });
  }

  /**
   * Sends `body` (a string or bytes as they are, anything else as JSON) to a path below the
   * account, or below /client/v4 when it begins with "~", and gives back {status, headers, json}.
   */
  async call(method, path, body, headers = {}) {
    const url = path.startsWith("~")
      ? `${this.server.url}/client/v4${path.slice(1)}`
      : `${this.server.url}/client/v4/accounts/${this.account}${path}`;
    const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const response = await fetch(url, {
      method,
      body: raw ? body : JSON.stringify(body),
      headers: {
        ...(this.token === null ? {} : { authorization: `Bearer ${this.token}` }),
        "content-type": "application/json",
        ...headers,
      },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    const text = await response.text();
    const what = `${method} ${path}`;
    return { status: response.status, headers: response.headers, json: envelope(what, response, text) };
  }

  /** The `result` of a call that must succeed. */
  async ok(method, path, body) {
    const { status, json } = await this.call(method, path, body);
    assert.equal(status, 200, `${method} ${path}: ${JSON.stringify(json)}`);
    return json.result;
  }

  /** A new queue; with an http_pull consumer unless `consumer` is null. */
  async queue({ name = `queue-${process.pid}-${++named}`, settings, consumer = {} } = {}) {
    const made = await this.ok("POST", "/queues", { queue_name: name, ...(settings && { settings }) });
    if (consumer !== null) {
      await this.ok("POST", `/queues/${made.queue_id}/consumers`, { type: "http_pull", ...consumer });
    }
    return new Queue(this, made.queue_id, name);
  }
}

/** One queue's messages; each method gives back the `result` of a call that must succeed. */
export class Queue {
  constructor(api, id, name) {
    Object.assign(this, { api, id, name, path: `/queues/${id}` });
  }

  send(message) {
    return this.api.ok("POST", `${this.path}/messages`, message);
  }

  /** Sends one plain text message. */
  text(body, rest = {}) {
    return this.send({ body, content_type: "text", ...rest });
  }

  batch(messages, rest = {}) {
    return this.api.ok("POST", `${this.path}/messages/batch`, { messages, ...rest });
  }

  /** Sends plain text messages in one batch. */
  texts(bodies, rest = {}) {
    return this.batch(bodies.map((body) => ({ body, content_type: "text" })), rest);
  }

  pull(options = {}) {
    return this.api.ok("POST", `${this.path}/messages/pull`, options);
  }

  /** The messages of a pull of up to 100. */
  async take(options = {}) {
    return (await this.pull({ batch_size: 100, ...options })).messages;
  }

  /** Settles messages, or lease ids; a retry may be a whole `{lease_id, delay_seconds}`. */
  settle({ acks = [], retries = [] }) {
    const entry = (item) => {
      if (typeof item === "string") return { lease_id: item };
      const { lease_id, delay_seconds } = item;
      return { lease_id, ...(delay_seconds !== undefined && { delay_seconds }) };
    };
    return this.api.ok("POST", `${this.path}/messages/ack`, { acks: acks.map(entry), retries: retries.map(entry) });
  }

  /** Asserts that nothing can be delivered now, and how many messages are unacknowledged all the same. */
  async isQuiet(backlog, why) {
    const { messages, message_backlog_count } = await this.pull({ batch_size: 100 });
    assert.deepEqual({ delivered: bodies(messages), backlog: message_backlog_count }, { delivered: [], backlog }, why);
  }

  /** Pulls until `count` messages have come back; fails when they haven't within `within_ms`. */
  async takeUntil(count, { within_ms = 5_000, ...options } = {}) {
    const messages = [];
    const end_ms = Date.now() + within_ms;
    for (;;) {
      messages.push(...(await this.take({ ...options, batch_size: Math.min(100, count - messages.length) })));
      if (messages.length >= count) return messages;
      assert.ok(Date.now() < end_ms, `${messages.length} of ${count} messages after ${within_ms} ms`);
      await sleep(20);
    }
  }
}

/** Every call that needs an existing queue, well formed: [method, path, body]. */
export function everyCall({ path }) {
  return [
    ["GET", path],
    ["POST", `${path}/messages`, { body: "1", content_type: "text" }],
    ["POST", `${path}/messages/batch`, { messages: [{ body: "1", content_type: "text" }] }],
    ["POST", `${path}/messages/pull`, {}],
    ["POST", `${path}/messages/ack`, { acks: [{ lease_id: "x" }] }],
    ["GET", `${path}/consumers`],
    ["POST", `${path}/consumers`, { type: "http_pull" }],
    ["DELETE", `${path}/consumers/${UNKNOWN_ID}`],
    ["DELETE", path],
  ];
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export const bodies = (messages) => messages.map(({ body }) => body);

/** What a consumer works with, after undoing the encoding its content type says. */
export function decoded({ body, metadata }) {
  return metadata["CF-Content-Type"] === "text" ? body : Buffer.from(body, "base64").toString();
}

/** Parses an answer and asserts that it is the envelope every Cloudflare client expects. */
function envelope(what, response, text) {
  assert.match(response.headers.get("content-type") ?? "", /application\/json/, `${what}: ${response.status} ${text}`);
  const json = JSON.parse(text);
  const shown = `${what}: ${response.status} ${text.slice(0, 500)}`;
  assert.deepEqual(json.messages, [], shown);
  if (response.ok) {
    assert.equal(json.success, true, shown);
    assert.deepEqual(json.errors, [], shown);
  } else {
    assert.equal(json.success, false, shown);
    assert.equal(json.result, null, shown);
    assert.ok(json.errors.length > 0, shown);
    for (const { code, message } of json.errors) {
      assert.ok(Number.isInteger(code) && code >= 1000, shown);
      assert.ok(typeof message === "string" && message.length > 0, shown);
    }
  }
  return json;
}
