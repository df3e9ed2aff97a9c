// Where in the console one is: the part of the address behind "#".
import { computed, signal } from '@preact/signals';

const hash = signal(location.hash);
window.addEventListener('hashchange', () => (hash.value = location.hash));

/** Tabs of a queue's page; the first is shown where the address names none. */
export const tabs = ['activity', 'messages', 'settings', 'code'];

/** `{page: "queues"}` or `{page: "queue", id, tab}`. */
export const route = computed(() => {
  const [, page, id, tab] = hash.value.split('/');
  if (page === 'queues' && /^[0-9a-f]{32}$/.test(id ?? '')) return { page: 'queue', id, tab: tabs.includes(tab) ? tab : tabs[0] };
  return { page: 'queues' };
});

export const queuesHref = '#/queues';
export const queueHref = (id, tab) => `#/queues/${id}${tab && tab !== tabs[0] ? `/${tab}` : ''}`;

export function go(href) {
  location.hash = href;
}
