// What the screen is like, as signals.
import { signal } from '@preact/signals';

function matches(query) {
  const list = window.matchMedia(query);
  const result = signal(list.matches);
  list.addEventListener('change', () => (result.value = list.matches));
  return result;
}

/** The same width as in the style sheets. */
export const isNarrow = matches('(max-width: 45rem)');
export const isDark = matches('(prefers-color-scheme: dark)');
