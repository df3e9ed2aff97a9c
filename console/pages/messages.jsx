// The messages that wait, looked at without taking a lease.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from '../api.js';
import { bodySize, contentType, preview } from '../body.js';
import { now_ms } from '../clock.js';
import { bytes, clockSeconds, count, fullTime, number } from '../format.js';
import { refreshOverview } from '../overview.js';
import { ErrorNote, announce } from '../parts/action.jsx';
import { Age } from '../parts/age.jsx';
import { Confirm } from '../parts/confirm.jsx';
import { canWrite } from '../session.js';
import { MessageBody } from './message_body.jsx';

/** How many are shown at first, and at most: a look shows no more than a batch. */
const few = 25;
const most = 100;

/** Metadata of a dead letter, named by the API. */
const origin = ({ metadata }) => metadata['pullq-dead-letter-queue'];
const deliveriesThere = ({ metadata }) => Number(metadata['pullq-dead-letter-attempts']);

export function MessagesTab({ id, touched, chosen, setChosen, isDeadLetters, onDeadLetter, redrive, onChange, metrics, paused }) {
  const [messages, setMessages] = useState(null);
  const [limit, setLimit] = useState(few);
  const [looked_ms, setLooked] = useState(0);
  const [open, setOpen] = useState(null);
  const [deleting, setDeleting] = useState(null);
  const [error, setError] = useState(null);
  const looks = useRef(0);

  /** Of two looks at once the later one counts. */
  async function look() {
    const mine = ++looks.current;
    try {
      const { messages } = await api.peek(id, limit);
      if (mine !== looks.current) return;
      setMessages(messages);
      setLooked(now_ms.peek());
      setChosen((before) => before.filter((ref) => messages.some((message) => message.ref === ref)));
      if (messages.some(origin)) onDeadLetter();
      setError(null);
    } catch (error) {
      if (mine === looks.current) setError(error);
    }
  }
  useEffect(() => {
    look();
  }, [id, limit, touched]);

  const all = messages ?? [];
  const toggle = (ref) => setChosen((before) => (before.includes(ref) ? before.filter((one) => one !== ref) : [...before, ref]));
  const waiting = metrics?.waiting_count ?? metrics?.backlog_count;
  return (
    <section class="card messages" aria-labelledby="messages">
      <div class="card-head">
        <div>
          <h2 id="messages">Waiting messages</h2>
          <p class="muted fine">
            {messages && `${all.length === 0 ? 'None' : all.length < waiting ? `The first ${number(all.length)} of ${number(waiting)}` : number(all.length)} at ${clockSeconds(looked_ms)}. `}
            Looking takes no lease: consumers get these messages as if nobody had looked.
          </p>
        </div>
        <button type="button" onClick={look}>Refresh</button>
      </div>
      {canWrite() && all.length > 0 && (
        <div class="selection">
          <label class="check">
            <input
              type="checkbox" checked={chosen.length === all.length} indeterminate={chosen.length > 0 && chosen.length < all.length}
              onChange={(event) => setChosen(event.currentTarget.checked ? all.map(({ ref }) => ref) : [])}
            />
            <span>{chosen.length === 0 ? 'Select all shown' : `${number(chosen.length)} selected`}</span>
          </label>
          {chosen.length > 0 && (
            <>
              {isDeadLetters && <button type="button" onClick={redrive}>Redrive selected…</button>}
              <button type="button" class="bad-quiet" onClick={() => setDeleting(chosen)}>Delete selected…</button>
            </>
          )}
        </div>
      )}
      <ErrorNote error={error} />
      {messages === null && !error && <p class="muted pad" role="status">Looking…</p>}
      {messages?.length === 0 && <Nothing metrics={metrics} paused={paused} />}
      <ul class="message-list">
        {all.map((message) => (
          <Message
            key={message.id} message={message} chosen={chosen.includes(message.ref)} toggle={toggle}
            open={open === message.id} setOpen={(wanted) => setOpen(wanted ? message.id : null)} remove={() => setDeleting([message.ref])}
          />
        ))}
      </ul>
      {all.length === limit && limit < most && waiting > limit && (
        <p class="pad"><button type="button" onClick={() => setLimit(most)}>Show up to {most}</button></p>
      )}
      {deleting && (
        <Confirm
          title={`Delete ${count(deleting.length, 'message')}`} verb="Delete" onClose={() => setDeleting(null)}
          act={async (close) => {
            const { purgedCount } = await api.deleteMessages(id, deleting);
            const gone = deleting.length - purgedCount;
            announce(`${count(purgedCount, 'message')} deleted${gone > 0 ? `; ${number(gone)} ${gone === 1 ? 'was' : 'were'} no longer there` : ''}.`);
            setChosen([]);
            refreshOverview();
            close();
            onChange();
          }}
        >
          <p>{deleting.length === 1 ? 'This message is' : `These ${number(deleting.length)} messages are`} deleted for good.</p>
        </Confirm>
      )}
    </section>
  );
}

function Nothing({ metrics, paused }) {
  const { out_count = 0, delayed_count = 0 } = metrics ?? {};
  const elsewhere = [out_count > 0 && `${count(out_count, 'message')} under a lease`, delayed_count > 0 && `${number(delayed_count)} delayed`].filter(Boolean);
  return (
    <div class="empty">
      <p class="muted">No message is waiting{elsewhere.length > 0 ? `; ${elsewhere.join(' and ')} can't be looked at` : paused ? ' in this paused queue' : ''}.</p>
    </div>
  );
}

function Message({ message, chosen, toggle, open, setOpen, remove }) {
  const { id, ref, attempts, timestamp_ms } = message;
  const from = origin(message);
  // A body may be a megabyte, and this is rendered often.
  const [line, size] = useMemo(() => [preview(message), bytes(bodySize(message))], [message]);
  const details = `message-${id}`;
  const deliveries = attempts === 0 ? 'not delivered yet' : `delivered ${count(attempts, 'time')}`;
  return (
    <li class={open ? 'open' : ''}>
      <div class="message-row">
        {canWrite() && <input type="checkbox" checked={chosen} onChange={() => toggle(ref)} aria-label={`Select message ${id.slice(0, 8)}`} />}
        <button type="button" class="message-open" aria-expanded={open} aria-controls={details} onClick={() => setOpen(!open)}>
          <span class="message-preview mono">{line || <em>empty</em>}</span>
          <span class="message-facts">
            <span>{contentType(message)}</span>
            <span>{size}</span>
            {from ? <span>died in {from} after {count(deliveriesThere(message), 'delivery', 'deliveries')}</span> : <span>{deliveries}</span>}
            <span title={`Sent ${fullTime(timestamp_ms)}`}><Age from_ms={timestamp_ms} /> old</span>
          </span>
        </button>
      </div>
      {open && (
        <div id={details} class="message-details">
          <MessageBody message={message} />
          <dl class="facts">
            <dt>Id</dt><dd class="mono">{id}</dd>
            <dt>{from ? 'Came here' : 'Sent'}</dt><dd>{fullTime(timestamp_ms)}</dd>
            <dt>Attempts</dt><dd>{number(attempts)}</dd>
            {from && <><dt>Died in</dt><dd>{from}, after {count(deliveriesThere(message), 'delivery', 'deliveries')}</dd></>}
            {Object.entries(message.metadata).filter(([key]) => !key.startsWith('pullq-dead-letter-') || key.endsWith('first-sent-ms')).map(([key, value]) => (
              key.endsWith('first-sent-ms')
                ? <><dt key={key}>First sent</dt><dd>{fullTime(Number(value))}</dd></>
                : <><dt key={key}>{key}</dt><dd class="mono">{value}</dd></>
            ))}
          </dl>
          {canWrite() && <p><button type="button" class="bad-quiet" onClick={remove}>Delete this message…</button></p>}
        </div>
      )}
    </li>
  );
}
