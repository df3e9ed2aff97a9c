// Ten thousand inputs that nobody should send, at the built Worker in a plain workerd. Each is answered
// within a second, in the envelope, with 4xx or, where it is valid after all, with 2xx, or is led to the
// console; what is stored stays, and the next honest request works.
//
// PULLQ_FUZZ_SEED and PULLQ_FUZZ_INPUTS make it others, or more. A failure shows the input.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startWorkerd } from "../../scripts/lib/workerd.mjs";
import { Api, bodies } from "../support/api.mjs";
import { Events, OPEN } from "../support/events.mjs";
import { DEV, apiTokens } from "../support/pullq.mjs";
import { random } from "../support/random.mjs";
import { Sender } from "./http.mjs";
import { KINDS, draw } from "./inputs.mjs";
import { malformed } from "./malformed.mjs";

const SEED = Number(process.env.PULLQ_FUZZ_SEED ?? 1);
const INPUTS = Number(process.env.PULLQ_FUZZ_INPUTS ?? 10_000);
const AT_ONCE = 8;
/** Inputs between two honest requests. */
const ROUND = 250;
const WITHIN_MS = 1_000;

let pullq, api, sender;
/** What the server printed last. */
const log = [];
before(async () => {
  pullq = await startWorkerd({
    build: process.env.PULLQ_BUILD,
    bindings: { ...OPEN, API_TOKENS: apiTokens([DEV]), WRONG_TOKENS_PER_MINUTE: "0" },
    onOutput: (text) => log.push(text) > 20 && log.shift(),
  });
  api = new Api(pullq);
  sender = new Sender(pullq.url, AT_ONCE);
});
after(async () => {
  sender?.close();
  await pullq?.stop();
});

/** A queue with messages in it that are there for the whole run. */
async function keptQueue() {
  const channel = "fuzz-kept";
  const queue = await api.queue({ name: channel });
  const sent = Array.from({ length: 20 }, (_, n) => `kept ${n}`);
  await queue.texts(sent);
  const [{ consumer_id }] = await api.ok("GET", `${queue.path}/consumers`);
  return { queue, sent, aim: { channel, queue_id: queue.id, consumer_id }, seen: await view(queue) };
}

/** All that can be seen of a queue; refs are sealed anew each time. */
async function view({ path }) {
  const peeked = await api.ok("POST", `${path}/messages/peek`, { batch_size: 100 });
  return {
    queue: await api.ok("GET", path),
    metrics: await api.ok("GET", `${path}/metrics`),
    messages: peeked.messages.map(({ ref, ...message }) => message),
  };
}

/** A queue to be knocked about, made anew for each round: some messages out, some waiting. */
async function looseQueue(round) {
  const channel = `fuzz-loose-${round}`;
  const queue = await api.queue({ name: channel });
  await queue.texts(["1", "2", "3", "4", "5", "6"]);
  const leased = await queue.take({ batch_size: 3 });
  const peeked = await api.ok("POST", `${queue.path}/messages/peek`, {});
  const [{ consumer_id }] = await api.ok("GET", `${queue.path}/consumers`);
  const tokens = [...leased.map(({ lease_id }) => lease_id), ...peeked.messages.map(({ ref }) => ref)];
  return { channel, queue_id: queue.id, consumer_id, tokens };
}

/** What is wrong with an answer, or undefined. */
function fault(input, { status, type, text }) {
  if (status >= 500 || status < 200) return "the status";
  if (input.mustBeRefused && status < 400) return "it was taken";
  if (input.method === "HEAD") return text === "" ? undefined : "an answer to HEAD has a body";
  if (status === 302) return text === "" ? undefined : "a redirection with a body";
  if (!type.includes("application/json")) return `the media type ${type}`;
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    return "the answer is no JSON";
  }
  const ok = status < 400;
  const holds = input.path.startsWith("/ce")
    ? json.is_error === !ok && json.message.length > 0 && (ok ? json.data !== null : json.data === null)
    : json.openapi !== undefined ||
      (json.success === ok &&
        Array.isArray(json.messages) &&
        (ok ? json.errors.length === 0 : json.result === null && json.errors.every(({ code, message }) => code >= 1_000 && message.length > 0)));
  return holds ? undefined : "the envelope";
}

/** An input as a failure shows it. */
function shown({ kind, method, path, headers, body }) {
  const bytes = body === undefined ? "" : Buffer.from(body).toString("latin1");
  const cut = (text) => (text.length > 600 ? `${text.slice(0, 600)}… (${text.length})` : text);
  return [kind, `${method} ${cut(path)}`, cut(JSON.stringify(headers)), cut(JSON.stringify(bytes))].join("\n");
}

test(`${INPUTS} inputs that nobody should send, drawn with seed ${SEED}, do no harm`, async (t) => {
  const kept = await keptQueue();
  const witness = await api.queue({ name: "fuzz-witness" });
  const events = new Events(pullq, { client_id: "witness" });
  const rng = random(SEED);
  const counts = { taken: 0, refused: 0 };
  const kinds = new Set();
  let slowest_ms = 0;

  /** Sends an input and says what is wrong, if anything is. */
  const attempt = async (input) => {
    try {
      const answer = await sender.send(input);
      return { answer, fault: fault(input, answer), is_slow: answer.took_ms > WITHIN_MS };
    } catch (error) {
      return { fault: `${error}`, is_slow: false };
    }
  };

  for (let sent = 0, round = 0; sent < INPUTS; round += 1) {
    const targets = { kept: kept.aim, loose: await looseQueue(round) };
    const inputs = Array.from({ length: Math.min(ROUND, INPUTS - sent) }, () => draw(rng, targets));
    sent += inputs.length;
    const again = [];
    const left = inputs.values();
    const work = async () => {
      for (const input of left) {
        const { answer, fault, is_slow } = await attempt(input);
        kinds.add(input.kind);
        if (fault !== undefined || is_slow) again.push({ input, answer, fault });
        else {
          slowest_ms = Math.max(slowest_ms, answer.took_ms);
          counts[answer.status < 400 ? "taken" : "refused"] += 1;
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));

    for (const { input, answer, fault } of again) {
      const what = `input of round ${round}, ${fault}: ${answer?.status} ${answer?.text.slice(0, 600)}\n${shown(input)}\nThe server said last:\n${log.join("")}`;
      // Again and by itself: other work of the machine makes an answer late, or cuts a connection
      // that was being closed for lack of use. It makes no answer wrong.
      assert.ok(answer === undefined || fault === undefined, what);
      let second = await attempt(input);
      for (let tries = 2; second.is_slow && tries > 0; tries -= 1) second = await attempt(input);
      assert.equal(second.fault, undefined, `${what}\nand then ${second.fault}`);
      assert.ok(!second.is_slow, `${what}\nand then ${second.answer.took_ms} ms`);
      counts[second.answer.status < 400 ? "taken" : "refused"] += 1;
    }

    const honest = `honest ${round}`;
    await witness.text(honest);
    const messages = await witness.take();
    assert.deepEqual(bodies(messages), [honest]);
    assert.equal((await witness.settle({ acks: messages })).ackCount, 1);
    await events.send({ specversion: "1.0", type: "t", source: "/s", id: honest }, { channel: "fuzz-witness-events" });
    assert.deepEqual((await events.receive("fuzz-witness-events")).map(({ id }) => id), [honest]);
  }

  assert.deepEqual(await view(kept.queue), kept.seen, "what is stored stays");
  assert.deepEqual(bodies(await kept.queue.take()), kept.sent);
  t.diagnostic(`${counts.refused} refused, ${counts.taken} taken, the slowest after ${Math.round(slowest_ms)} ms; ${kinds.size} kinds`);
  if (INPUTS >= 10_000) {
    assert.equal(kinds.size, Object.keys(KINDS).length);
    assert.ok(counts.taken > INPUTS / 20 && counts.refused > INPUTS / 2, JSON.stringify(counts));
  }
});

test("bytes that are no HTTP are answered or cut off, and the next honest request works", async () => {
  const queue = await api.queue({ name: "fuzz-malformed" });
  const rng = random(SEED);
  for (let n = 0; n < 400; n += 1) {
    const bytes = malformed(rng, queue);
    const { took_ms } = await sender.raw(bytes);
    assert.ok(took_ms < 5 * WITHIN_MS, `${took_ms} ms for ${JSON.stringify(bytes.toString("latin1").slice(0, 600))}`);
    if (n % 50 === 49) {
      await queue.text(`honest ${n}`);
      assert.deepEqual(bodies(await queue.take()), [`honest ${n}`]);
    }
  }
  assert.equal((await api.ok("GET", `/queues/${queue.id}`)).queue_name, "fuzz-malformed");
});
