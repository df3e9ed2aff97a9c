// All queues of the account: a table that shows only the rows near the screen.
import { computed, signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { bytes, count, fullTime, number, perSecond } from '../format.js';
import { deadLetterSources, overview } from '../overview.js';
import { ErrorNote } from '../parts/action.jsx';
import { Age } from '../parts/age.jsx';
import { isNarrow } from '../parts/media.js';
import { memo } from '../parts/memo.js';
import { useVirtualRows } from '../parts/virtual_rows.jsx';
import { queueHref } from '../route.js';
import { canWrite } from '../session.js';
import { CreateQueue } from './create_queue.jsx';
import { useTitle } from './title.js';

/** Columns after the name, each with what it is sorted by; figures are sorted from the largest on at first. */
const columns = [
  { id: 'waiting', label: 'Waiting', sortBy: (queue) => queue.waiting_count },
  { id: 'out', label: 'Out', sortBy: (queue) => queue.out_count },
  { id: 'delayed', label: 'Delayed', sortBy: (queue) => queue.delayed_count },
  { id: 'oldest', label: 'Oldest', sortBy: (queue) => (queue.oldest_message_timestamp_ms ? -queue.oldest_message_timestamp_ms : -Infinity) },
  { id: 'sent', label: 'Sent/s', sortBy: (queue) => queue.rates.sent },
  { id: 'acknowledged', label: 'Done/s', sortBy: (queue) => queue.rates.acknowledged },
];

// These outlive the page, so that one comes back to the list as one left it.
const search = signal('');
const sort = signal({ by: 'name', down: false });
let leftAt_px = 0;

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const byName = (one, other) => collator.compare(one.queue_name, other.queue_name);

const found = computed(() => {
  const words = search.value.trim().toLowerCase();
  const { queues } = overview.value;
  return words === '' ? queues : queues.filter(({ queue_name, queue_id }) => queue_name.toLowerCase().includes(words) || queue_id === words);
});

const rows = computed(() => {
  const { by, down } = sort.value;
  const column = columns.find(({ id }) => id === by);
  const order = column ? (one, other) => column.sortBy(one) - column.sortBy(other) || byName(other, one) : byName;
  const sorted = [...found.value].sort(order);
  return down ? sorted.reverse() : sorted;
});

const totals = computed(() => {
  const sums = { waiting: 0, out: 0, delayed: 0 };
  for (const queue of overview.value.queues) {
    sums.waiting += queue.waiting_count;
    sums.out += queue.out_count;
    sums.delayed += queue.delayed_count;
  }
  return sums;
});

export function QueuesPage() {
  const { queues, loaded, error } = overview.value;
  const [creating, setCreating] = useState(false);
  const heading = useTitle('Queues');
  const { waiting, out, delayed } = totals.value;
  return (
    <>
      <div class="page-head">
        <div>
          <h1 ref={heading} tabindex="-1">Queues</h1>
          {loaded && <p class="muted">{count(queues.length, 'queue')} · {number(waiting)} waiting · {number(out)} out · {number(delayed)} delayed</p>}
        </div>
        {canWrite() && <button type="button" class="main" onClick={() => setCreating(true)}>Create queue</button>}
      </div>
      <ErrorNote error={error} />
      {!loaded && !error && <p class="muted" role="status">Loading the queues…</p>}
      {loaded && queues.length === 0 && <NoQueues create={() => setCreating(true)} />}
      {loaded && queues.length > 0 && <Table />}
      {creating && <CreateQueue onClose={() => setCreating(false)} />}
    </>
  );
}

function NoQueues({ create }) {
  return (
    <div class="card empty">
      <h2>No queues yet</h2>
      <p class="muted">A queue holds messages until a consumer has pulled and acknowledged them.</p>
      {canWrite() && <button type="button" class="main" onClick={create}>Create the first one</button>}
    </div>
  );
}

function Table() {
  const list = rows.value;
  const narrow = isNarrow.value;
  const [focused, setFocused] = useState(null);
  const wanted = useRef(null);
  const body = useRef();
  const keep = focused === null ? -1 : list.findIndex(({ queue_id }) => queue_id === focused);
  const [container, items, total_px, showRow] = useVirtualRows({
    count: list.length,
    row_px: narrow ? 104 : 48,
    key: (index) => list[index]?.queue_id ?? index,
    keep,
  });

  useLayoutEffect(() => {
    window.scrollTo(0, leftAt_px);
    const remember = () => (leftAt_px = window.scrollY);
    window.addEventListener('scroll', remember, { passive: true });
    return () => window.removeEventListener('scroll', remember);
  }, []);
  useFocusKey();

  // A row that the arrow keys went to may only now be there.
  useEffect(() => {
    if (wanted.current === null) return;
    const link = container.current.querySelector(`[data-index="${wanted.current}"] a`);
    if (!link) return;
    wanted.current = null;
    link.focus({ preventScroll: true });
  });

  function move(event) {
    const from = Number(event.target.closest?.('[data-index]')?.dataset.index ?? NaN);
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: list.length - 1 }[event.key];
    if (Number.isNaN(from) || to === undefined || to < 0 || to >= list.length) return;
    event.preventDefault();
    wanted.current = to;
    setFocused(list[to].queue_id);
    showRow(to);
  }

  return (
    <>
      <Tools shown={list.length} narrow={narrow} />
      {list.length === 0 ? (
        <p class="card empty muted">No queue's name has “{search}” in it.</p>
      ) : (
        <div class="card table" role="table" aria-label="Queues" aria-rowcount={list.length + 1} ref={body}>
          <div role="rowgroup" class="table-head">
            <div role="row" class="row" aria-rowindex={1}>
              <Heading id="name" label="Name" />
              {columns.map(({ id, label }) => <Heading key={id} id={id} label={label} />)}
            </div>
          </div>
          <div
            role="rowgroup" class="rows" ref={container} style={{ height: `${total_px}px` }} onKeyDown={move}
            onFocusIn={(event) => setFocused(list[event.target.closest('[data-index]')?.dataset.index]?.queue_id ?? null)}
            onFocusOut={() => wanted.current === null && setFocused(null)}
          >
            {items.map(({ index, top_px }) => list[index] && (
              <Row
                key={list[index].queue_id} queue={list[index]} index={index} top_px={top_px}
                isDeadLetters={deadLetterSources.value.has(list[index].queue_name)}
              />
            ))}
          </div>
        </div>
      )}
    </>
  );
}

/** "/" goes to the search, as in many lists. */
function useFocusKey() {
  useEffect(() => {
    const listen = (event) => {
      if (event.key !== '/' || event.target.closest('input, textarea, select, dialog')) return;
      event.preventDefault();
      document.getElementById('search')?.focus();
    };
    document.addEventListener('keydown', listen);
    return () => document.removeEventListener('keydown', listen);
  }, []);
}

function Tools({ shown, narrow }) {
  const { by, down } = sort.value;
  return (
    <div class="tools" role="search">
      <label class="hidden" for="search">Search queues by name</label>
      <input
        id="search" type="search" placeholder="Search by name" autocomplete="off" spellcheck={false} aria-keyshortcuts="/" value={search}
        onInput={(event) => (search.value = event.currentTarget.value)}
      />
      {narrow && (
        <>
          <label class="hidden" for="sort">Sort by</label>
          <select id="sort" value={`${by} ${down}`} onChange={(event) => setSort(...event.currentTarget.value.split(' '))}>
            <option value="name false">Name, A to Z</option>
            <option value="name true">Name, Z to A</option>
            {columns.map(({ id, label }) => <option key={id} value={`${id} true`}>{label}, most first</option>)}
          </select>
        </>
      )}
      <p class="muted fine" role="status">{search.value.trim() && `${number(shown)} of ${count(overview.value.queues.length, 'queue')}`}</p>
    </div>
  );
}

const setSort = (by, down) => (sort.value = { by, down: down === 'true' });

function Heading({ id, label }) {
  const { by, down } = sort.value;
  // On a phone the headings are there for screen readers alone, and a list of orders stands above.
  if (isNarrow.value) return <div role="columnheader">{label}</div>;
  const active = by === id;
  const order = active ? (down ? 'descending' : 'ascending') : 'none';
  return (
    <div role="columnheader" class={id === 'name' ? 'name' : 'figure'} aria-sort={order}>
      <button type="button" class="sort" onClick={() => (sort.value = { by: id, down: active ? !down : id !== 'name' })}>
        <span aria-hidden="true" class="arrow">{active ? (down ? '↓' : '↑') : ''}</span>{label}
      </button>
    </div>
  );
}

const Row = memo(({ queue, index, top_px, isDeadLetters }) => {
  const oldest_ms = queue.oldest_message_timestamp_ms;
  return (
    <div role="row" class="row" aria-rowindex={index + 2} data-index={index} style={{ transform: `translateY(${top_px}px)` }}>
      <div role="cell" class="name">
        <a href={queueHref(queue.queue_id)} title={queue.queue_name}>{queue.queue_name}</a>
        {queue.delivery_paused && <span class="badge badge-warn">Paused</span>}
        {isDeadLetters && <span class="badge badge-bad">Dead letters</span>}
        {!queue.has_consumer && !isDeadLetters && <span class="badge">No consumer</span>}
      </div>
      <Figure label="waiting" value={queue.waiting_count} title={bytes(queue.backlog_bytes)} />
      <Figure label="out" value={queue.out_count} />
      <Figure label="delayed" value={queue.delayed_count} />
      <div role="cell" class="figure" title={oldest_ms ? `Sent ${fullTime(oldest_ms)}` : ''}>
        <b>{oldest_ms ? <Age from_ms={oldest_ms} /> : <span class="none">–</span>}</b> <span class="unit">oldest</span>
      </div>
      <Rate label="sent/s" value={queue.rates.sent} />
      <Rate label="done/s" value={queue.rates.acknowledged} />
    </div>
  );
});

function Figure({ label, value, title }) {
  return (
    <div role="cell" class="figure" title={title}>
      <b class={value === 0 ? 'none' : ''}>{number(value)}</b> <span class="unit">{label}</span>
    </div>
  );
}

function Rate({ label, value }) {
  return (
    <div role="cell" class="figure">
      <b class={value === 0 ? 'none' : ''}>{perSecond(value)}</b> <span class="unit">{label}</span>
    </div>
  );
}
