// Producers and consumers that go on through kills: what fails is written down and not repeated, but
// for producers that give their sends a key, who repeat them until they are answered.
import { decoded, sleep } from '../support/api.mjs';
import { ANSWERED, REFUSED, UNANSWERED } from './history.mjs';

/** No answer within this is none. */
const ANSWER_WITHIN_MS = 20_000;
const DRAIN_WITHIN_MS = 120_000;

/**
 * `gate.up()` resolves while the server is up; `queues` are {name: api.mjs's Queue}; requests go into
 * `history`.
 */
export class Load {
  #producing = true;
  #consuming = true;

  constructor({ gate, queues, history }) {
    Object.assign(this, { gate, queues, history });
  }

  /** Starts producers and consumers; `finish` ends them. */
  begin({ producers, consumers, random }) {
    this.producers = Array.from({ length: producers }, (_, number) => this.#produce(number, random.fork()));
    this.consumers = Array.from({ length: consumers }, () => this.#consume(random.fork()));
  }

  /** Ends the producers, and the consumers once they have done what they were at. */
  async finish() {
    this.#producing = false;
    await Promise.all(this.producers);
    this.#consuming = false;
    await Promise.all(this.consumers);
  }

  /** Takes and acknowledges everything that is left. */
  async drain(consumers) {
    const end_ms = Date.now() + DRAIN_WITHIN_MS;
    const drainOne = async () => {
      while ((await this.#backlog()) > 0) {
        if (Date.now() > end_ms) throw new Error(`${await this.#backlog()} messages are left after ${DRAIN_WITHIN_MS} ms`);
        for (const queue of Object.values(this.queues)) {
          const messages = await this.#pull(queue, { batch_size: 100, visibility_timeout_ms: 10_000 });
          if (messages.length > 0) await this.#settle(queue, messages.map(({ lease_id }) => lease_id), []);
        }
        await sleep(20);
      }
    };
    await Promise.all(Array.from({ length: consumers }, drainOne));
  }

  /** Sends messages without a delay, in one batch. */
  sendSome(queue, producer, number, count, random) {
    const messages = Array.from({ length: count }, (_, index) => newMessage(`${producer}-${number * count + index}`, { random, delays: false }));
    return this.#send({ queue, producer, number, messages });
  }

  async #backlog() {
    const counts = Object.values(this.queues).map(async ({ api, path }) => (await api.ok('GET', `${path}/metrics`)).backlog_count);
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  }

  async #produce(producer, random) {
    const repeats = producer % 4 === 3;
    let made = 0;
    for (let number = 0; this.#producing; number += 1) {
      const queue = this.queues[random.chance(0.6) ? 'work' : 'plain'];
      const count = random.chance(0.6) ? 1 : random.chance(0.05) ? 100 : random.between(2, 10);
      const batchDelay = random.chance(0.15) ? random.between(1, 2) : undefined;
      const messages = Array.from({ length: count }, () => newMessage(`${producer}-${made++}`, { random, batchDelay }));
      await this.#send({ queue, producer, number, messages, batchDelay, key: repeats ? `${producer}-${number}` : undefined });
      await sleep(random.between(0, 15));
    }
  }

  async #send({ queue, producer, number, messages, batchDelay, key }) {
    const wire = messages.map(({ sent }) => sent);
    const [path, body] = wire.length === 1 && batchDelay === undefined
      ? ['messages', wire[0]]
      : ['messages/batch', { messages: wire, ...(batchDelay && { delay_seconds: batchDelay }) }];
    const headers = key === undefined ? {} : { 'idempotency-key': key };
    let start_ms;
    let answer;
    do {
      answer = await this.#call(queue, path, body, headers);
      start_ms ??= answer.start_ms;
    } while (key !== undefined && answer.outcome === UNANSWERED);
    this.history.sends.push({
      queue: queue.name, producer, number, messages: messages.map(({ sent, ...known }) => known),
      start_ms, end_ms: answer.end_ms, outcome: answer.outcome, ids: answer.result?.ids,
    });
  }

  async #consume(random) {
    let late = [];
    while (this.#consuming) {
      const queue = this.queues[random.pick(['work', 'work', 'work', 'plain', 'plain', 'dead'])];
      const messages = await this.#pull(queue, {
        batch_size: random.pick([1, 10, 50, 100]),
        visibility_timeout_ms: random.pick([1_000, 1_500, 4_000]),
        ...(random.chance(0.3) && { wait_ms: 500 }),
      });
      await sleep(random.between(0, 40));
      const acks = late.filter((lease) => lease.queue === queue).map(({ lease_id }) => lease_id);
      late = late.filter((lease) => lease.queue !== queue);
      const retries = [];
      const longer = [];
      for (const { lease_id } of messages) {
        const fate = random.next();
        if (fate < 0.57) acks.push(lease_id);
        else if (fate < 0.82) retries.push({ lease_id, ...(random.chance(0.4) && { delay_seconds: random.between(0, 2) }) });
        else if (fate < 0.87) longer.push(lease_id);
        else if (fate < 0.89) late.push({ queue, lease_id });
        // The others are left until their lease ends.
      }
      if (longer.length > 0) {
        await this.#extend(queue, longer, 2_500);
        acks.push(...longer.filter(() => random.chance(0.7)));
      }
      if (acks.length + retries.length > 0) {
        await this.#settle(queue, acks, retries);
        if (random.chance(0.05)) await this.#settle(queue, acks, []);
      }
      if (messages.length === 0) await sleep(random.between(5, 50));
    }
  }

  async #pull(queue, request) {
    const { result, ...answer } = await this.#call(queue, 'messages/pull', request);
    const messages = (result?.messages ?? []).map((message) => {
      const { id, attempts, metadata, lease_id } = message;
      return { id, attempts, metadata, lease_id, body_bytes: Buffer.from(decoded(message)) };
    });
    this.history.pulls.push({ queue: queue.name, ...request, ...answer, messages });
    return messages;
  }

  async #settle(queue, acks, retries) {
    const body = { acks: acks.map((lease_id) => ({ lease_id })), retries };
    const { result, ...answer } = await this.#call(queue, 'messages/ack', body);
    this.history.settles.push({ queue: queue.name, acks, retries, ...answer, warnings: result?.warnings });
  }

  async #extend(queue, lease_ids, visibility_timeout_ms) {
    const body = { extensions: lease_ids.map((lease_id) => ({ lease_id, visibility_timeout_ms })) };
    const { result, ...answer } = await this.#call(queue, 'messages/extend', body);
    this.history.extensions.push({ queue: queue.name, lease_ids, visibility_timeout_ms, ...answer, warnings: result?.warnings });
  }

  /** One request, never repeated: {outcome, start_ms, end_ms, result}. */
  async #call(queue, path, body, headers = {}) {
    await this.gate.up();
    const start_ms = Date.now();
    const ended = (outcome, result) => ({ outcome, start_ms, end_ms: Date.now(), result });
    try {
      const response = await fetch(`${this.gate.url()}/client/v4/accounts/${queue.api.account}${queue.path}/${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${queue.api.token}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      });
      const json = await response.json();
      if (json.success) return ended(ANSWERED, json.result);
      // An answer that was waited for has its status before its content.
      return ended(response.status >= 400 && response.status < 500 ? REFUSED : UNANSWERED);
    } catch {
      return ended(UNANSWERED);
    }
  }
}

/** A message as the API takes it (`sent`), and what is to come of it. */
function newMessage(key, { random, batchDelay, delays = true }) {
  const text = `${key};${'x'.repeat(random.chance(0.01) ? 40_000 : random.between(0, 300))}ü`;
  const content_type = random.pick(['text', 'json', 'bytes']);
  const body = { text, json: { [text]: [1.5, null] }, bytes: Buffer.from(text).toString('base64') }[content_type];
  const body_bytes = Buffer.from(content_type === 'json' ? JSON.stringify(body) : text);
  const ownDelay = delays && random.chance(0.05) ? random.between(0, 2) : undefined;
  return {
    sent: { body, content_type, ...(ownDelay !== undefined && { delay_seconds: ownDelay }) },
    key, body_bytes, content_type, delay_ms: (ownDelay ?? batchDelay ?? 0) * 1_000,
  };
}
