// The time as the server has it, and tasks that are repeated while somebody looks.
import { signal } from '@preact/signals';
import { lostSince_ms } from './api.js';

/** Once a second, ms since 1970 by the server's clock: ages are counted from it. */
export const now_ms = signal(Date.now());

/** How far the server's clock is ahead of this machine's. */
let ahead_ms = 0;

setInterval(() => {
  if (!document.hidden) now_ms.value = Date.now() + ahead_ms;
}, 1_000);

/** Notes what the server's clock says at this moment. */
export function setServerTime(ms) {
  ahead_ms = ms - Date.now();
  now_ms.value = ms;
}

/** The waits between attempts while there is no connection. */
const retryAfter_ms = [500, 1_000, 2_000, 3_000];

/**
 * Runs `task` now and then `every_ms` after each end, not while the tab is hidden. `task` handles its own
 * errors. Gives back a function that stops it; its `soon` runs the task at once.
 */
export function repeat(task, every_ms) {
  let timer, stopped = false, running = false, again = false, losses = 0;

  async function run() {
    clearTimeout(timer);
    if (stopped || document.hidden) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    await task();
    running = false;
    if (stopped) return;
    losses = lostSince_ms.value === null ? 0 : losses + 1;
    const wait_ms = losses > 0 ? retryAfter_ms[Math.min(losses, retryAfter_ms.length) - 1] : every_ms;
    timer = setTimeout(run, again ? 0 : wait_ms);
    again = false;
  }

  const stop = () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', run);
    window.removeEventListener('online', run);
  };
  stop.soon = run;
  document.addEventListener('visibilitychange', run);
  window.addEventListener('online', run);
  run();
  return stop;
}
