// All queues the token may see, kept up to date by polling what changed, with rates out of the counters.
import { computed, effect, signal, untracked } from '@preact/signals';
import { api } from './api.js';
import { repeat, setServerTime } from './clock.js';
import { noRates, rated, ratesOf } from './rates.js';
import { session } from './session.js';

const every_ms = 2_000;

/** `{queues, loaded, error}`: each queue as the API shows it, and `rates` in messages a second. */
export const overview = signal({ queues: [], loaded: false, error: null });

/** A queue of the overview by its id, or undefined. */
export const queueById = computed(() => new Map(overview.value.queues.map((queue) => [queue.queue_id, queue])));
export const queueByName = computed(() => new Map(overview.value.queues.map((queue) => [queue.queue_name, queue])));

/** For each dead-letter queue's name, the names of the queues whose dead letters it takes. */
export const deadLetterSources = computed(() => {
  const sources = new Map();
  for (const { queue_name, dead_letter_queue } of overview.value.queues) {
    if (dead_letter_queue) sources.set(dead_letter_queue, [...(sources.get(dead_letter_queue) ?? []), queue_name]);
  }
  return sources;
});

let byId = new Map();
/** queue id → `[{at_ms, counters}]`, the oldest first: what its rates are taken from. */
let samples = new Map();
let version;
let polling;

/** Asks at once: for what this tab has just changed itself. */
export const refreshOverview = () => polling?.soon();

effect(() => {
  const signedIn = session.value !== null;
  untracked(() => {
    polling?.();
    polling = undefined;
    forget();
    if (signedIn) polling = repeat(poll, every_ms);
  });
});

function forget() {
  byId = new Map();
  samples = new Map();
  version = undefined;
  overview.value = { queues: [], loaded: false, error: null };
}

async function poll() {
  const asked = session.value;
  try {
    let answer = await api.overview(version);
    if (session.peek() !== asked) return;
    if (version !== undefined && !merge(answer)) {
      answer = await api.overview();
      if (session.peek() !== asked) return;
      version = undefined;
    }
    if (version === undefined) {
      byId = new Map();
      merge(answer);
    }
    version = answer.version;
    setServerTime(answer.as_of_ms);
    rate(answer.as_of_ms);
    overview.value = { queues: [...byId.values()], loaded: true, error: null };
  } catch (error) {
    if (session.peek() !== asked) return;
    // What was seen last stays on the screen while the connection is away: the banner says how old it is.
    if (error.kind !== 'lost') overview.value = { ...overview.value, error };
  }
}

/** Takes over what changed; false when a queue is gone, which an answer with changes alone can't say. */
function merge({ queues, queue_count, as_of_ms }) {
  for (const queue of queues) {
    byId.set(queue.queue_id, { ...queue, rates: byId.get(queue.queue_id)?.rates ?? noRates });
    const known = samples.get(queue.queue_id) ?? [];
    known.push({ at_ms: as_of_ms, counters: queue.counters });
    samples.set(queue.queue_id, known);
  }
  return byId.size === queue_count;
}

/** Renews the rates of the queues that changed of late. */
function rate(at_ms) {
  for (const [id, known] of samples) {
    const queue = byId.get(id);
    if (!queue) {
      samples.delete(id);
      continue;
    }
    const rates = ratesOf(known, at_ms);
    if (rated.some((name) => rates[name] !== queue.rates[name])) byId.set(id, { ...queue, rates });
  }
}
