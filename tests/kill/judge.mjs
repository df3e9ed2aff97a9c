// Decides whether a history can be right: lost 0, unexpected 0, and a message delivered twice only
// where a lease had ended, it was given back, or an answer never arrived.
import { ANSWERED, REFUSED, UNANSWERED } from './history.mjs';

/** The clocks of client and server are the same, but each may be cut to the millisecond. */
const SLACK_MS = 5;

/**
 * Looks at a history whose queues have been drained.
 *
 * `queues`: {name: {max_retries, dead_letter_queue?}}. Gives back `violations`, sentences, and
 * `figures`, counts; in them a duplicate is a delivery of a message that was delivered before.
 */
export function judge(history, queues) {
  return new Judge(history, queues).verdict();
}

class Judge {
  violations = [];
  figures = {
    refused: 0, sends: 0, sends_unanswered: 0, pulls: 0, pulls_unanswered: 0, settles: 0, settles_unanswered: 0,
    messages_sent: 0, messages_maybe_sent: 0, messages_delivered: 0, deliveries: 0, acknowledged: 0, dead_lettered: 0,
    lost: 0, unexpected: 0, duplicates: 0, duplicates_after_lease_end: 0, duplicates_after_retry: 0, duplicates_after_no_answer: 0, duplicates_unexplained: 0,
  };
  /** key → {message, send, deliveries: [{queue, pull, message, settled, ...}]} */
  messages = new Map();
  /** lease id → its delivery */
  leases = new Map();

  constructor(history, queues) {
    Object.assign(this, { history, queues });
  }

  verdict() {
    const { sends, pulls, settles, extensions } = this.history;
    this.figures.refused = [sends, pulls, settles, extensions].flat().filter(({ outcome }) => outcome === REFUSED).length;
    this.#readSends();
    this.#readPulls();
    this.#readSettles();
    this.#readExtensions();
    for (const entry of this.messages.values()) this.#judgeMessage(entry);
    for (const send of this.history.sends) this.#judgeSend(send);
    this.#judgeOrder();
    return { violations: this.violations, figures: this.figures };
  }

  #wrong(text) {
    this.violations.push(text);
  }

  #readSends() {
    for (const send of this.history.sends) {
      this.figures.sends += 1;
      if (send.outcome === UNANSWERED) this.figures.sends_unanswered += 1;
      if (send.outcome === ANSWERED) this.figures.messages_sent += send.messages.length;
      if (send.outcome === UNANSWERED) this.figures.messages_maybe_sent += send.messages.length;
      send.messages.forEach((message, index) => {
        this.messages.set(message.key, { message, send, index, id: send.ids?.[index], deliveries: [] });
      });
    }
  }

  #readPulls() {
    for (const pull of this.history.pulls) {
      this.figures.pulls += 1;
      if (pull.outcome === UNANSWERED) this.figures.pulls_unanswered += 1;
      for (const message of pull.messages ?? []) {
        this.figures.deliveries += 1;
        const delivery = { queue: pull.queue, pull, message, attempts: message.attempts, acks: [], retries: [], extensions: [] };
        this.leases.set(message.lease_id, delivery);
        const entry = this.messages.get(keyOf(message.body_bytes));
        if (entry === undefined) {
          this.figures.unexpected += 1;
          this.#wrong(`unexpected: ${pull.queue} delivered a message that nobody sent (id ${message.id}, "${message.body_bytes.subarray(0, 80)}")`);
        } else {
          this.#judgeContent(entry, delivery);
          entry.deliveries.push(delivery);
        }
      }
    }
  }

  #readSettles() {
    for (const settle of this.history.settles) {
      this.figures.settles += 1;
      if (settle.outcome === UNANSWERED) this.figures.settles_unanswered += 1;
      for (const lease_id of settle.acks) {
        this.leases.get(lease_id)?.acks.push(settle);
        if (settle.warnings?.[lease_id]) this.#wrong(`a lease id was not accepted as an acknowledgement: ${settle.warnings[lease_id]}`);
      }
      for (const { lease_id, delay_seconds = 0 } of settle.retries) {
        if (!settle.warnings?.[lease_id]) this.leases.get(lease_id)?.retries.push({ settle, delay_ms: delay_seconds * 1_000 });
      }
    }
  }

  #readExtensions() {
    for (const extension of this.history.extensions) {
      for (const lease_id of extension.lease_ids) {
        if (!extension.warnings?.[lease_id]) this.leases.get(lease_id)?.extensions.push(extension);
      }
    }
  }

  #judgeContent({ message: sent, send, id }, { queue, pull, message }) {
    const what = `message ${sent.key}`;
    const origin = this.queues[send.queue];
    const dead = queue !== send.queue;
    const wrong = (text) => {
      this.figures.unexpected += 1;
      this.#wrong(`unexpected: ${what} ${text}`);
    };
    if (send.outcome === REFUSED) wrong('was delivered although its send was refused');
    if (pull.end_ms < send.start_ms) wrong('was delivered before it was sent');
    if (dead && queue !== origin.dead_letter_queue) wrong(`was sent to ${send.queue} and delivered by ${queue}`);
    if (!message.body_bytes.equals(sent.body_bytes)) wrong('came back with another body');
    if (message.metadata['CF-Content-Type'] !== sent.content_type) wrong('came back with another content type');
    if (id !== undefined && message.id !== id) wrong(`has the id ${message.id}, and its send was answered with ${id}`);
    if (dead && queue === origin.dead_letter_queue) {
      const { 'pullq-dead-letter-queue': from, 'pullq-dead-letter-attempts': attempts } = message.metadata;
      if (from !== send.queue || attempts !== String(origin.max_retries + 1)) {
        wrong(`is said to have died in ${from} after ${attempts} deliveries`);
      }
    }
  }

  #judgeMessage(entry) {
    const { message: { key }, send, deliveries } = entry;
    if (deliveries.length === 0) {
      if (send.outcome === ANSWERED) this.#lost(key, 'its send was answered, and it was never delivered');
      return;
    }
    this.figures.messages_delivered += 1;
    if (new Set(deliveries.map(({ message }) => message.id)).size > 1) {
      this.#wrong(`message ${key} was stored twice: it has more than one id`);
    }
    if (!deliveries.some(({ acks }) => acks.length > 0)) this.#lost(key, 'it was delivered, and vanished without an acknowledgement');
    if (deliveries.some(({ acks }) => acks.some(({ outcome }) => outcome === ANSWERED))) this.figures.acknowledged += 1;

    const inOrder = (queue) => deliveries.filter((delivery) => delivery.queue === queue).sort((a, b) => a.attempts - b.attempts);
    const living = inOrder(send.queue);
    const dead = deliveries.length > living.length ? inOrder(this.queues[send.queue].dead_letter_queue) : [];
    const { max_retries } = this.queues[send.queue];
    this.#judgeDelay(entry, living[0]);
    if (living.at(-1)?.attempts > max_retries + 1) {
      this.#wrong(`message ${key} was delivered ${living.at(-1).attempts} times, and ${max_retries + 1} is the most`);
    }
    this.#judgeRepeats(key, living, send.start_ms);
    if (dead.length > 0) {
      this.figures.dead_lettered += 1;
      this.#judgeDeath(key, living, dead, max_retries + 1, send);
      this.#judgeRepeats(key, dead, living.at(-1)?.pull.start_ms ?? send.start_ms);
    }
  }

  #lost(key, why) {
    this.figures.lost += 1;
    this.#wrong(`lost: message ${key}: ${why}`);
  }

  #judgeDelay({ message: { key, delay_ms }, send }, first) {
    if (first && first.pull.end_ms < send.start_ms + delay_ms - SLACK_MS) {
      this.#wrong(`message ${key} was delivered ${first.pull.end_ms - send.start_ms} ms after its send, and delayed by ${delay_ms} ms`);
    }
  }

  /** `deliveries` of one message by one queue, by rising attempts: each one after the first has a reason. */
  #judgeRepeats(key, deliveries, since_ms) {
    let before;
    for (const delivery of deliveries) {
      const what = `message ${key} in ${delivery.queue}, delivery ${delivery.attempts}`;
      const missed = delivery.attempts - (before?.attempts ?? 0) - 1;
      if (missed < 0) {
        this.#duplicateUnexplained(`${what}: two deliveries have this number`);
      } else if (missed > this.#unansweredPulls(delivery.queue, before?.pull.start_ms ?? since_ms, delivery.pull.end_ms)) {
        this.#wrong(`${what}: ${missed} deliveries before it were counted and never arrived, with no unanswered pull to explain it`);
      }
      if (before !== undefined) {
        this.figures.duplicates += 1;
        this.#judgeRepeat(what, before, delivery, missed > 0);
      }
      before = delivery;
    }
  }

  #judgeRepeat(what, before, delivery, answerMissing) {
    if (before.acks.some(({ outcome, end_ms }) => outcome === ANSWERED && end_ms < delivery.pull.start_ms)) {
      return this.#duplicateUnexplained(`${what}: it had been acknowledged, and that was answered`);
    }
    const { at_ms, why } = freeAgain(before);
    if (delivery.pull.end_ms < at_ms - SLACK_MS) {
      return this.#duplicateUnexplained(`${what}: the one before it held the message for ${at_ms - delivery.pull.end_ms} ms more`);
    }
    if (answerMissing || before.acks.some(({ outcome }) => outcome === UNANSWERED)) this.figures.duplicates_after_no_answer += 1;
    else this.figures[`duplicates_after_${why}`] += 1;
  }

  #duplicateUnexplained(text) {
    this.figures.duplicates_unexplained += 1;
    this.#wrong(`duplicate: ${text}`);
  }

  /** A message dies once: after its last delivery was over, and then its queue has it no more. */
  #judgeDeath(key, living, dead, deliveries, send) {
    const what = `message ${key}`;
    const arrived = dead.reduce((first, delivery) => (delivery.pull.end_ms < first.pull.end_ms ? delivery : first));
    const before = living.filter(({ pull }) => pull.start_ms <= arrived.pull.end_ms);
    const last = before.find(({ attempts }) => attempts === deliveries);
    if (before.length < living.length) {
      this.#wrong(`${what} was delivered by ${send.queue} after its dead-letter queue had it`);
    }
    if (last && arrived.pull.end_ms < overFrom(last) - SLACK_MS) this.#wrong(`${what} was dead-lettered while its last lease ran`);
    if (!last && this.#unansweredPulls(send.queue, before.at(-1)?.pull.start_ms ?? send.start_ms, arrived.pull.end_ms) === 0) {
      this.#wrong(`${what} was dead-lettered before its deliveries were used up`);
    }
    // An acknowledgement that comes after the last lease has ended may find the message on its way.
    const inTime = (ack) => ack.outcome === ANSWERED && last !== undefined && ack.end_ms < overFrom(last) - SLACK_MS;
    if (living.some(({ acks }) => acks.some(inTime))) this.#wrong(`${what} was acknowledged in time and dead-lettered all the same`);
  }

  #unansweredPulls(queue, from_ms, until_ms) {
    this.unanswered ??= this.history.pulls.filter(({ outcome }) => outcome === UNANSWERED);
    return this.unanswered.filter((pull) => pull.queue === queue && pull.end_ms >= from_ms && pull.start_ms <= until_ms).length;
  }

  /** A batch is taken whole or refused whole. */
  #judgeSend({ messages, outcome }) {
    if (outcome !== UNANSWERED) return;
    const seen = messages.filter(({ key }) => this.messages.get(key).deliveries.length > 0).length;
    if (seen !== 0 && seen !== messages.length) {
      this.#wrong(`of a batch whose answer never arrived ${seen} of ${messages.length} messages were stored (first: ${messages[0].key})`);
    }
  }

  /** First deliveries follow the order of one producer's sends to a queue, delayed ones left out. */
  #judgeOrder() {
    const lines = new Map();
    for (const { message, send, index, deliveries } of this.messages.values()) {
      const first = deliveries.find(({ queue, attempts }) => queue === send.queue && attempts === 1);
      if (first === undefined || message.delay_ms > 0) continue;
      const line = `${send.producer} ${send.queue}`;
      if (!lines.has(line)) lines.set(line, []);
      lines.get(line).push({ key: message.key, place: [send.number, index], pull: first.pull });
    }
    for (const line of lines.values()) this.#judgeLine(line);
  }

  #judgeLine(line) {
    const byEnd = [...line].sort((a, b) => a.pull.end_ms - b.pull.end_ms);
    let furthest;
    let next = 0;
    for (const delivery of line.sort((a, b) => a.pull.start_ms - b.pull.start_ms)) {
      for (; next < byEnd.length && byEnd[next].pull.end_ms < delivery.pull.start_ms; next += 1) {
        if (furthest === undefined || isBefore(furthest.place, byEnd[next].place)) furthest = byEnd[next];
      }
      if (furthest !== undefined && isBefore(delivery.place, furthest.place)) {
        this.#wrong(`order: message ${delivery.key} was sent before ${furthest.key} and delivered after it`);
      }
    }
  }
}

/** The earliest moment at which a delivered message can be delivered again, and what it is then free by. */
function freeAgain(delivery) {
  const leaseEnd_ms = leaseEnd(delivery);
  for (const { settle, delay_ms } of delivery.retries) {
    const at_ms = settle.start_ms + delay_ms;
    // One that was answered took the place of the lease; another may have.
    if (settle.outcome === ANSWERED || at_ms < leaseEnd_ms) return { at_ms, why: 'retry' };
  }
  return { at_ms: leaseEnd_ms, why: 'lease_end' };
}

/** The earliest moment at which a last delivery can be over: a retry's delay doesn't count then. */
function overFrom(delivery) {
  return Math.min(leaseEnd(delivery), ...delivery.retries.map(({ settle }) => settle.start_ms));
}

function leaseEnd({ pull, extensions }) {
  let end_ms = pull.start_ms + pull.visibility_timeout_ms;
  for (const { start_ms, visibility_timeout_ms, outcome } of extensions) {
    const extended_ms = start_ms + visibility_timeout_ms;
    end_ms = outcome === ANSWERED ? extended_ms : Math.min(end_ms, extended_ms);
  }
  return end_ms;
}

function isBefore([send, index], [otherSend, otherIndex]) {
  return send < otherSend || (send === otherSend && index < otherIndex);
}

/** The key stands at the front of every body; JSON may put a brace and a quote before it. */
function keyOf(body) {
  return body.subarray(0, 64).toString().match(/^(?:\{")?(\d+-\d+);/)?.[1];
}
