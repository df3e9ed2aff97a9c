// Messages a second, out of counters that were seen at several times.

/** Rates are a mean over this long, so that they don't flicker. */
const over_ms = 10_000;

export const rated = ['sent', 'delivered', 'acknowledged'];
export const noRates = { sent: 0, delivered: 0, acknowledged: 0 };

/**
 * The rates at `at_ms` from `known`, a list of `{at_ms, counters}`, the oldest first. Counters hold from one
 * sample to the next, so the rate is what they grew by in the last seconds. Samples too old to count are
 * taken out of the list.
 */
export function ratesOf(known, at_ms) {
  const from_ms = at_ms - over_ms;
  while (known.length > 1 && known[1].at_ms <= from_ms) known.shift();
  const [first, last] = [known[0], known.at(-1)];
  const seconds = (at_ms - Math.max(first.at_ms, from_ms)) / 1_000;
  if (first === last || seconds <= 0) return noRates;
  return Object.fromEntries(rated.map((name) => [name, Math.max(0, last.counters[name] - first.counters[name]) / seconds]));
}
