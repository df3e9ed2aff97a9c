// Random numbers from a seed: the same seed gives the same numbers.

/** A generator (mulberry32): `next` gives a number from 0 up to, not including, 1. */
export function random(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    /** A whole number, both ends included. */
    between: (from, to) => from + Math.floor(next() * (to - from + 1)),
    chance: (probability) => next() < probability,
    pick: (items) => items[Math.floor(next() * items.length)],
    /** A generator of its own for a part of the work, so that parts don't disturb each other. */
    fork: () => random(Math.floor(next() * 4_294_967_296)),
  };
}
