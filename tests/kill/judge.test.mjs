// The judge of the kill test finds what it is there to find: small histories, each with one thing wrong.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANSWERED, History, REFUSED, UNANSWERED } from './history.mjs';
import { judge } from './judge.mjs';

const RULES = { work: { max_retries: 1, dead_letter_queue: 'dead' }, other: { max_retries: 100 }, dead: { max_retries: 100 } };
const LEASE_MS = 100;

/** A history told in a few words; each request takes 2 ms from the time that is given. */
class Story {
  history = new History();

  send(at_ms, keys, { queue = 'work', outcome = ANSWERED, delay_ms = 0, number = at_ms } = {}) {
    const messages = keys.map((key) => ({ key, body_bytes: Buffer.from(`${key};`), content_type: 'text', delay_ms }));
    const ids = outcome === ANSWERED ? keys.map((key) => `id of ${key}`) : undefined;
    this.history.sends.push({ queue, producer: 0, number, messages, start_ms: at_ms, end_ms: at_ms + 2, outcome, ids });
    return this;
  }

  pull(at_ms, messages, { queue = 'work', outcome = ANSWERED } = {}) {
    this.history.pulls.push({
      queue, start_ms: at_ms, end_ms: at_ms + 2, outcome, visibility_timeout_ms: LEASE_MS,
      messages: messages.map(([key, attempts, { id = `id of ${key}`, body = `${key};`, type = 'text', death } = {}]) => ({
        id, attempts, lease_id: `${key} ${queue} ${attempts}`, body_bytes: Buffer.from(body),
        metadata: { 'CF-Content-Type': type, ...(death && { 'pullq-dead-letter-queue': 'work', 'pullq-dead-letter-attempts': death }) },
      })),
    });
    return this;
  }

  settle(at_ms, { acks = [], retries = [], queue = 'work', outcome = ANSWERED, warnings = {} }) {
    this.history.settles.push({ queue, start_ms: at_ms, end_ms: at_ms + 2, acks, retries, outcome, warnings });
    return this;
  }

  extend(at_ms, lease_ids, visibility_timeout_ms, outcome = ANSWERED) {
    this.history.extensions.push({ queue: 'work', lease_ids, visibility_timeout_ms, start_ms: at_ms, end_ms: at_ms + 2, outcome });
    return this;
  }
}

const story = () => new Story();
const ack = (...acks) => ({ acks });
const unanswered = { outcome: UNANSWERED };

const right = {
  'sent, delivered, acknowledged': story().send(0, ['0-1']).pull(10, [['0-1', 1]]).settle(20, ack('0-1 work 1')),
  'delivered again after the lease ended': story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(110, [['0-1', 2]]).settle(120, ack('0-1 work 2')),
  'delivered again at once after a retry':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).settle(20, { retries: [{ lease_id: '0-1 work 1' }] }).pull(23, [['0-1', 2]]).settle(30, ack('0-1 work 2')),
  'a send without an answer that was not done': story().send(0, ['0-1', '0-2'], unanswered),
  'a send without an answer that was done': story().send(0, ['0-1'], unanswered).pull(10, [['0-1', 1]]).settle(20, ack('0-1 work 1')),
  'a delivery whose answer never arrived': story().send(0, ['0-1']).pull(10, [], unanswered).pull(120, [['0-1', 2]]).settle(130, ack('0-1 work 2')),
  'an acknowledgement without an answer that was not done':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).settle(20, { ...ack('0-1 work 1'), ...unanswered }).pull(115, [['0-1', 2]]).settle(120, ack('0-1 work 2')),
  'dead-lettered after the last lease':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(110, [['0-1', 2]]).pull(215, [['0-1', 1, { death: '2' }]], { queue: 'dead' })
      .settle(220, { ...ack('0-1 dead 1'), queue: 'dead' }),
};

for (const [name, { history }] of Object.entries(right)) {
  test(`fine: ${name}`, () => assert.deepEqual(judge(history, RULES).violations, []));
}

const wrong = {
  'lost: message 0-1: its send was answered': story().send(0, ['0-1']),
  'lost: message 0-1: it was delivered, and vanished': story().send(0, ['0-1']).pull(10, [['0-1', 1]]),
  'unexpected: work delivered a message that nobody sent': story().pull(10, [['0-1', 1]]),
  'unexpected: message 0-1 was delivered although its send was refused':
    story().send(0, ['0-1'], { outcome: REFUSED }).pull(10, [['0-1', 1]]).settle(20, ack('0-1 work 1')),
  'unexpected: message 0-1 was sent to other and delivered by work':
    story().send(0, ['0-1'], { queue: 'other' }).pull(10, [['0-1', 1]]).settle(20, ack('0-1 work 1')),
  'unexpected: message 0-1 came back with another body':
    story().send(0, ['0-1']).pull(10, [['0-1', 1, { body: '0-1;!' }]]).settle(20, ack('0-1 work 1')),
  'unexpected: message 0-1 came back with another content type':
    story().send(0, ['0-1']).pull(10, [['0-1', 1, { type: 'json' }]]).settle(20, ack('0-1 work 1')),
  'unexpected: message 0-1 has the id 7': story().send(0, ['0-1']).pull(10, [['0-1', 1, { id: '7' }]]).settle(20, ack('0-1 work 1')),
  'message 0-1 was stored twice':
    story().send(0, ['0-1'], unanswered).pull(10, [['0-1', 1, { id: '7' }]]).pull(110, [['0-1', 2, { id: '8' }]]).settle(120, ack('0-1 work 2')),
  'duplicate: message 0-1 in work, delivery 1: two deliveries have this number':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(110, [['0-1', 1]]).settle(120, ack('0-1 work 1')),
  'duplicate: message 0-1 in work, delivery 2: the one before it held the message':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(60, [['0-1', 2]]).settle(120, ack('0-1 work 2')),
  'duplicate: message 0-1 in work, delivery 2: it had been acknowledged':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).settle(20, ack('0-1 work 1')).pull(200, [['0-1', 2]]),
  'duplicate: message 0-1 in work, delivery 2: the one before it held the message for 288 ms more':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).extend(50, ['0-1 work 1'], 450).pull(210, [['0-1', 2]]).settle(220, ack('0-1 work 2')),
  'duplicate: message 0-1 in work, delivery 2: the one before it held the message for 808 ms more':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).settle(20, { retries: [{ lease_id: '0-1 work 1', delay_seconds: 1 }] })
      .pull(210, [['0-1', 2]]).settle(220, ack('0-1 work 2')),
  'message 0-1 in work, delivery 2: 1 deliveries before it were counted and never arrived':
    story().send(0, ['0-1']).pull(10, [['0-1', 2]]).settle(20, ack('0-1 work 2')),
  'message 0-1 was delivered 3 times, and 2 is the most':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(110, [['0-1', 2]]).pull(210, [['0-1', 3]]).settle(220, ack('0-1 work 3')),
  'message 0-1 was delivered 12 ms after its send, and delayed by 50 ms':
    story().send(0, ['0-1'], { delay_ms: 50 }).pull(10, [['0-1', 1]]).settle(20, ack('0-1 work 1')),
  'of a batch whose answer never arrived 1 of 2 messages were stored':
    story().send(0, ['0-1', '0-2'], unanswered).pull(10, [['0-1', 1]]).settle(20, ack('0-1 work 1')),
  'a lease id was not accepted as an acknowledgement':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).settle(20, { ...ack('0-1 work 1'), warnings: { '0-1 work 1': 'never gave it out' } }),
  'message 0-1 was dead-lettered while its last lease ran':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(110, [['0-1', 2]]).pull(150, [['0-1', 1, { death: '2' }]], { queue: 'dead' })
      .settle(160, { ...ack('0-1 dead 1'), queue: 'dead' }),
  'message 0-1 was dead-lettered before its deliveries were used up':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(150, [['0-1', 1, { death: '2' }]], { queue: 'dead' })
      .settle(160, { ...ack('0-1 dead 1'), queue: 'dead' }),
  'unexpected: message 0-1 is said to have died in work after 1 deliveries':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(110, [['0-1', 2]]).pull(215, [['0-1', 1, { death: '1' }]], { queue: 'dead' })
      .settle(220, { ...ack('0-1 dead 1'), queue: 'dead' }),
  'message 0-1 was delivered by work after its dead-letter queue had it':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(215, [['0-1', 1, { death: '2' }]], { queue: 'dead' }).pull(220, [['0-1', 2]])
      .pull(111, [], unanswered).settle(230, { ...ack('0-1 dead 1'), queue: 'dead' }),
  'message 0-1 was acknowledged in time and dead-lettered all the same':
    story().send(0, ['0-1']).pull(10, [['0-1', 1]]).pull(110, [['0-1', 2]]).settle(150, ack('0-1 work 2'))
      .pull(215, [['0-1', 1, { death: '2' }]], { queue: 'dead' }),
  'order: message 0-1 was sent before 0-2 and delivered after it':
    story().send(0, ['0-1']).send(5, ['0-2']).pull(10, [['0-2', 1]]).pull(20, [['0-1', 1]]).settle(30, ack('0-1 work 1', '0-2 work 1')),
};

for (const [expected, { history }] of Object.entries(wrong)) {
  test(`found: ${expected}`, () => {
    const { violations } = judge(history, RULES);
    assert.equal(violations.length, 1, violations.join('\n'));
    assert.ok(violations[0].startsWith(expected), violations[0]);
  });
}
