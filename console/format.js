// How numbers, sizes and times are written. Everything here is text for a person and takes plain values.

const whole = new Intl.NumberFormat('en');
const oneDigit = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);

/** "1 message", "2 messages" */
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

/** Messages a second: small ones with a digit behind the point, none as 0. */
export function perSecond(value) {
  if (value === 0) return '0';
  if (value < 0.1) return '< 0.1';
  return value < 10 ? oneDigit.format(value) : whole.format(Math.round(value));
}

const units = [['d', 86_400], ['h', 3_600], ['min', 60], ['s', 1]];

/** "12 s", "3 min", "2 h", "4 d": how old something is. */
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const [unit, size] = units.find(([, size]) => seconds >= size) ?? units.at(-1);
  return `${Math.floor(seconds / size)} ${unit}`;
}

export function bytes(value) {
  if (value < 1_000) return `${value} B`;
  if (value < 1_000_000) return `${oneDigit.format(value / 1_000)} kB`;
  if (value < 1_000_000_000) return `${oneDigit.format(value / 1_000_000)} MB`;
  return `${oneDigit.format(value / 1_000_000_000)} GB`;
}

const longUnits = [['day', 86_400], ['hour', 3_600], ['minute', 60], ['second', 1]];

/** A setting's time: the greatest unit that it is a whole number of, as `{amount, unit}`. */
export function splitSeconds(seconds) {
  const [unit, size] = longUnits.find(([, size]) => seconds >= size && seconds % size === 0) ?? longUnits.at(-1);
  return { amount: seconds / size, unit };
}

export const unitSeconds = (unit) => longUnits.find(([name]) => name === unit)[1];

/** "4 days", "30 seconds" */
export function duration(seconds) {
  const { amount, unit } = splitSeconds(seconds);
  return count(amount, unit);
}

const clockFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const secondsFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const fullFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

export const clock = (ms) => clockFormat.format(ms);
export const clockSeconds = (ms) => secondsFormat.format(ms);
export const fullTime = (ms) => fullFormat.format(ms);
