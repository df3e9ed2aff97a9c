// What a message costs: rows written and read, counted by the platform itself, and Cloudflare's prices.
// Counted apart from the measurements, since counting costs time.
import { setTimeout as sleep } from 'node:timers/promises';
import { callApi } from './workers.mjs';

/** Dollars a million, and what the free plan has a day: Cloudflare's price list of 2026-11. */
export const prices = {
  workersRequests: 0.3,
  objectRequests: 0.15,
  rowsWritten: 1,
  rowsRead: 0.001,
  queueOperations: 0.4,
  freeRequestsADay: 100_000,
  freeRowsWrittenADay: 100_000,
  freeRowsReadADay: 5_000_000,
};

/**
 * Short, so that the alarm comes due and is counted, and long enough that all calls fit into one or two of
 * them on a busy machine too: the alarm's rows count for each timeout, not for each call.
 */
const visibilityMs = 5_000;

/**
 * Rows a message, by messages a call. `target` counts rows (COUNT_ROWS=on). Every kind of call is made
 * `calls` times, as a consumer makes them, send, pull, acknowledge; then the alarm is waited for.
 */
export async function countRows(target, batches, { calls = 100 } = {}) {
  const counted = {};
  for (const batch of batches) {
    const queue = await target.newQueue({ settings: { visibility_timeout_ms: visibilityMs } });
    const meter = new Meter(target, queue);
    const message = { body: 'x'.repeat(200), content_type: 'text' };
    const bodies = { messages: Array(batch).fill(message) };
    // The first call makes the tables.
    await meter.call(undefined, '/messages/pull', {});
    for (let call = 0; call < calls; call += 1) {
      await (batch === 1 ? meter.call('send', '/messages', message) : meter.call('send', '/messages/batch', bodies));
      const { messages } = await meter.call('pull', '/messages/pull', { batch_size: batch });
      if (messages.length !== batch) throw new Error(`${messages.length} messages pulled, not ${batch}`);
      await meter.call('ack', '/messages/ack', { acks: messages.map(({ lease_id }) => ({ lease_id })) });
    }
    await sleep(1.5 * visibilityMs);
    await meter.call('afterwards', '/messages/pull', {});
    counted[batch] = meter.perMessage(batch * calls);
    await queue.remove?.();
  }
  return counted;
}

class Meter {
  #last;
  #sums = {};

  constructor(target, queue) {
    Object.assign(this, { target, queue });
  }

  async call(kind, path, body) {
    const { result, headers } = await callApi(this.target.server, 'POST', this.queue.path + path, body, { whole: true });
    const now = { written: Number(headers.get('x-pullq-rows-written')), read: Number(headers.get('x-pullq-rows-read')) };
    if (!headers.has('x-pullq-rows-written')) throw new Error('rows are not counted: COUNT_ROWS=on is missing');
    if (kind) {
      const sum = (this.#sums[kind] ??= { written: 0, read: 0 });
      sum.written += now.written - this.#last.written;
      sum.read += now.read - this.#last.read;
    }
    this.#last = now;
    return result;
  }

  perMessage(messages) {
    const share = ({ written, read }) => ({ written: written / messages, read: read / messages });
    const life = Object.values(this.#sums).reduce((all, { written, read }) => ({ written: all.written + written, read: all.read + read }));
    return { ...Object.fromEntries(Object.entries(this.#sums).map(([kind, sum]) => [kind, share(sum)])), life: share(life) };
  }
}

/** What `calls` calls of `batch` messages each cost, where they write and read so many rows a message. */
export function cost({ calls, batch, written, read }) {
  const requests = calls / batch;
  const dollars = requests * (prices.workersRequests + prices.objectRequests) + written * prices.rowsWritten + read * prices.rowsRead;
  const perDay = {
    requests: prices.freeRequestsADay / requests,
    'rows written': prices.freeRowsWrittenADay / written,
    'rows read': prices.freeRowsReadADay / read,
  };
  const [bound, messages] = Object.entries(perDay).sort(([, a], [, b]) => a - b)[0];
  return { dollars_a_million: dollars, free_messages_a_day: Math.floor(messages), bound };
}
