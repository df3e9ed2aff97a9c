// A small client of the CloudEvents face for the tests: every answer is checked to be KubeMQ's
// envelope, whatever it says.
import assert from "node:assert/strict";
import { ACCOUNT } from "./api.mjs";

/** Bindings with which the face serves everybody. */
export const OPEN = { CLOUDEVENTS_AUTH: "off", CLOUDEVENTS_ACCOUNT: ACCOUNT };

/** A panic in a Durable Object leaves its caller waiting: no answer within this is a failure. */
const ANSWER_WITHIN_MS = 75_000;

let named = 0;

/** A channel name that nobody has used. */
export const newChannel = () => `channel-${process.pid}-${++named}`;

export class Events {
  constructor(server, { token, client_id = "tester" } = {}) {
    Object.assign(this, { server, token, client_id });
  }

  /** POSTs (or whatever `method` says) to a path below /ce and gives back {status, headers, text, json}. */
  async call(path, { method = "POST", query = {}, headers = {}, body, duplex } = {}) {
    const search = new URLSearchParams(query).toString();
    const response = await fetch(`${this.server.url}/ce${path}${search && `?${search}`}`, {
      method,
      body,
      duplex,
      headers: { ...(this.token && { authorization: `Bearer ${this.token}` }), ...headers },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    const text = await response.text();
    const shown = `${method} ${path}?${search}: ${response.status} ${text.slice(0, 500)}`;
    assert.match(response.headers.get("content-type") ?? "", /application\/json/, shown);
    const json = JSON.parse(text);
    assert.deepEqual(Object.keys(json), ["is_error", "message", "data"], shown);
    assert.equal(json.is_error, !response.ok, shown);
    if (response.ok) {
      assert.equal(json.message, "OK", shown);
      assert.notEqual(json.data, null, shown);
    } else {
      assert.ok(json.message.length > 0, shown);
      assert.equal(json.data, null, shown);
    }
    return { status: response.status, headers: response.headers, text, json };
  }

  /** Sends an event in structured mode; `body` is an object, or JSON text as it is. */
  async send(body, query = {}, headers = {}) {
    return this.raw(body, query, { "content-type": "application/cloudevents+json", ...headers });
  }

  async raw(body, query = {}, headers = {}) {
    const { status, json } = await this.call("/queue/send", {
      query,
      headers,
      body: typeof body === "string" || body instanceof Uint8Array || body === undefined ? body : JSON.stringify(body),
    });
    assert.equal(status, 202, JSON.stringify(json));
    return json.data;
  }

  /** The messages of a receive of up to 1,000 that doesn't wait. */
  async receive(channel, options = {}) {
    return (await this.received(channel, options)).json.data.messages;
  }

  async received(channel, options = {}) {
    const query = { channel, client_id: this.client_id, max_messages: 1_000, wait_timeout: 0, ...options };
    const answer = await this.call("/queue/receive", { query });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.data.messages.length, answer.json.data.messages_received, answer.text);
    return answer;
  }

  /** How many messages an ack_all removed. */
  async ackAll(channel) {
    const { status, json } = await this.call("/queue/ack_all", { query: { channel, client_id: this.client_id } });
    assert.equal(status, 200, JSON.stringify(json));
    return json.data.affected_messages;
  }
}

/** An event with an id and a time, so that it comes back with nothing added. */
export const event = (id, rest = {}) => ({
  specversion: "1.0",
  type: "com.example.test",
  source: "/tests",
  id: String(id),
  time: "2026-11-30T10:40:00Z",
  ...rest,
});
