// How old something is, counted on by itself: only this is rendered again each second, not what it stands in.
import { now_ms } from '../clock.js';
import { age } from '../format.js';

export function Age({ from_ms }) {
  return age(now_ms.value - from_ms);
}
