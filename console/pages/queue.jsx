// One queue: its figures, what can be done with it, and the tabs.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { api } from '../api.js';
import { repeat } from '../clock.js';
import { bytes, fullTime, number, perSecond } from '../format.js';
import { deadLetterSources, overview, queueById, queueByName, refreshOverview } from '../overview.js';
import { ErrorNote, Note, announce, useAction } from '../parts/action.jsx';
import { Age } from '../parts/age.jsx';
import { Confirm } from '../parts/confirm.jsx';
import { queueHref, queuesHref, tabs } from '../route.js';
import { canWrite } from '../session.js';
import { ActivityTab } from './activity.jsx';
import { CodeTab } from './code.jsx';
import { MessagesTab } from './messages.jsx';
import { Redrive, RedriveStatus, useRedrive } from './redrive.jsx';
import { SendMessage } from './send.jsx';
import { SettingsTab } from './settings.jsx';
import { useTitle } from './title.js';

const every_ms = 2_000;
const tabNames = { activity: 'Activity', messages: 'Messages', settings: 'Settings', code: 'Code' };

export function QueuePage({ id, tab }) {
  const [queue, metrics, error, refresh] = useQueue(id);
  const [dialog, setDialog] = useState(null);
  /** The messages that are chosen in the list, for a redrive of these alone. */
  const [chosen, setChosen] = useState([]);
  /** Counted up whenever this tab changed which messages there are. */
  const [touched, setTouched] = useState(0);
  const [diedHere, setDiedHere] = useState(false);
  const redrive = useRedrive(id);
  const listed = queueById.value.get(id);
  const name = queue?.queue_name ?? listed?.queue_name;
  const heading = useTitle(name ?? 'Queue', queue !== null);
  useLayoutEffect(() => window.scrollTo(0, 0), []);
  const sources = deadLetterSources.value.get(name) ?? [];
  const isDeadLetters = sources.length > 0 || diedHere;

  const touch = () => {
    setTouched((times) => times + 1);
    refresh();
  };
  const closeDialog = () => setDialog(null);
  // What was moved away is no longer to be seen.
  const state = redrive.status?.state;
  useEffect(() => {
    if (state === 'completed' || state === 'stopped') touch();
  }, [state]);

  if (!queue) {
    return (
      <>
        <Crumbs name={name} />
        <h1 ref={heading} tabindex="-1">{name ?? 'Queue'}</h1>
        {error ? <ErrorNote error={error}><p><a href={queuesHref}>Back to all queues</a></p></ErrorNote> : <p class="muted" role="status">Loading the queue…</p>}
      </>
    );
  }
  const paused = queue.settings.delivery_paused;
  const [consumer] = queue.consumers;
  return (
    <>
      <Crumbs name={name} />
      <div class="page-head">
        <div class="title">
          <h1 ref={heading} tabindex="-1">{name}</h1>
          {paused && <span class="badge badge-warn">Paused</span>}
          {isDeadLetters && <span class="badge badge-bad">Dead letters</span>}
        </div>
        {canWrite() && (
          <div class="actions">
            <PauseButton id={id} paused={paused} done={refresh} />
            {isDeadLetters && <button type="button" onClick={() => setDialog('redrive')} disabled={redrive.status?.state === 'running'}>Redrive…</button>}
            <button type="button" onClick={() => setDialog('purge')}>Purge…</button>
            <button type="button" class="main" onClick={() => setDialog('send')}>Send message</button>
          </div>
        )}
      </div>
      <ErrorNote error={error} />
      <Hints queue={queue} sources={sources} consumer={consumer} />
      <RedriveStatus redrive={redrive} />
      <Figures metrics={metrics} listed={listed} />
      <nav class="tabs" aria-label={`Pages of ${name}`}>
        {tabs.map((one) => <a key={one} href={queueHref(id, one)} aria-current={one === tab ? 'page' : undefined}>{tabNames[one]}</a>)}
      </nav>
      {tab === 'activity' && <ActivityTab id={id} queue={queue} metrics={metrics} />}
      {tab === 'messages' && (
        <MessagesTab
          id={id} touched={touched} chosen={chosen} setChosen={setChosen} isDeadLetters={isDeadLetters} onDeadLetter={() => setDiedHere(true)}
          redrive={() => setDialog('redrive')} onChange={touch} metrics={metrics} paused={paused}
        />
      )}
      {tab === 'settings' && <SettingsTab id={id} shown={queue} onChange={refresh} />}
      {tab === 'code' && <CodeTab id={id} consumer={consumer} />}
      {dialog === 'send' && <SendMessage id={id} name={name} onClose={closeDialog} onSent={touch} />}
      {dialog === 'redrive' && (
        <Redrive
          id={id} name={name} sources={sources} waiting={metrics?.waiting_count ?? metrics?.backlog_count ?? 0} chosen={chosen} onClose={closeDialog}
          onStarted={() => {
            setChosen([]);
            redrive.watch();
            touch();
          }}
        />
      )}
      {dialog === 'purge' && (
        <Confirm
          title={`Purge ${name}`} name={name} verb="Delete every message" onClose={closeDialog}
          act={async (close) => {
            await api.purge(id);
            setChosen([]);
            touch();
            refreshOverview();
            announce(`${name} is purged.`);
            close();
          }}
        >
          <p>
            This deletes <strong>every message of {name}</strong>, {number(metrics?.backlog_count ?? 0)} at the moment, also those that consumers have
            under a lease and those that are delayed. It can't be taken back. The queue and its settings stay.
          </p>
        </Confirm>
      )}
    </>
  );
}

/** The queue and its metrics, kept up to date. Settings are read again when this tab is looked at again. */
function useQueue(id) {
  const [queue, setQueue] = useState(null);
  const [metrics, setMetrics] = useState(null);
  const [error, setError] = useState(null);
  const polling = useRef();
  const stale = useRef(true);
  // Another tab or client changed something that the overview shows.
  const listed = queueById.value.get(id);
  const seen = listed && `${listed.queue_name} ${listed.delivery_paused} ${listed.has_consumer} ${listed.dead_letter_queue}`;

  useEffect(() => {
    const readAgain = () => (stale.current = true);
    let gone = false;
    window.addEventListener('focus', readAgain);
    document.addEventListener('visibilitychange', readAgain);
    polling.current = repeat(async () => {
      try {
        if (stale.current) {
          stale.current = false;
          const read = await api.queue(id);
          if (!gone) setQueue(read);
        }
        const read = await api.metrics(id);
        if (gone) return;
        setMetrics(read);
        setError(null);
      } catch (error) {
        stale.current = true;
        if (!gone && error.kind !== 'lost') setError(error);
      }
    }, every_ms);
    return () => {
      gone = true;
      polling.current();
      window.removeEventListener('focus', readAgain);
      document.removeEventListener('visibilitychange', readAgain);
    };
  }, [id]);

  const refresh = () => {
    stale.current = true;
    polling.current?.soon();
  };
  useEffect(() => {
    if (seen && queue) refresh();
  }, [seen]);
  return [queue, metrics, error, refresh];
}

function Crumbs({ name }) {
  return (
    <nav aria-label="Where you are" class="crumbs">
      <a href={queuesHref}>Queues</a> <span aria-hidden="true">/</span> <span aria-current="page">{name ?? '…'}</span>
    </nav>
  );
}

function PauseButton({ id, paused, done }) {
  const [error, busy, run] = useAction();
  const press = () => run(async () => {
    await api.changeQueue(id, { settings: { delivery_paused: !paused } });
    refreshOverview();
    announce(paused ? 'Delivery goes on.' : 'Delivery is paused: sends are taken, nothing is delivered.');
    done();
  });
  return (
    <>
      <button type="button" disabled={busy} onClick={press}>{paused ? 'Resume delivery' : 'Pause delivery'}</button>
      <ErrorNote error={error} />
    </>
  );
}

/** What one should know about this queue before anything else. */
function Hints({ queue, sources, consumer }) {
  const deadLetters = consumer && queueByName.value.get(consumer.dead_letter_queue);
  return (
    <>
      {queue.settings.delivery_paused && <Note kind="warn"><p>Delivery is paused: sends are taken, and consumers get nothing until it is resumed.</p></Note>}
      {sources.length > 0 && (
        <Note>
          <p>Messages come here when their deliveries in {list(sources.map((name) => <QueueLink key={name} name={name} />))} are used up.</p>
        </Note>
      )}
      {deadLetters?.waiting_count > 0 && (
        <Note kind="warn">
          <p><strong>{number(deadLetters.waiting_count)}</strong> waiting in its dead-letter queue, <QueueLink name={deadLetters.queue_name} tab="messages" />.</p>
        </Note>
      )}
      {!consumer && sources.length === 0 && overview.value.loaded && (
        <Note>
          <p>This queue has no pull consumer, so nothing can be pulled from it. <a href={queueHref(queue.queue_id, 'settings')}>Add one in the settings.</a></p>
        </Note>
      )}
    </>
  );
}

function QueueLink({ name, tab }) {
  const queue = queueByName.value.get(name);
  return queue ? <a href={queueHref(queue.queue_id, tab)}>{name}</a> : <strong>{name}</strong>;
}

/** "a", "a and b", "a, b and c" */
function list(items) {
  return items.flatMap((item, index) => [index === 0 ? '' : index === items.length - 1 ? ' and ' : ', ', item]);
}

function Figures({ metrics, listed }) {
  const { waiting_count = '…', out_count = '…', delayed_count = '…', backlog_bytes = 0, oldest_message_timestamp_ms: oldest_ms = 0 } = metrics ?? listed ?? {};
  const rates = listed?.rates;
  return (
    <dl class="figures">
      <Figure label="Waiting" value={waiting_count} title="Can be delivered now" />
      <Figure label="Out" value={out_count} title="Under a consumer's lease" />
      <Figure label="Delayed" value={delayed_count} title="Can be delivered later" />
      <Figure label="Oldest" value={oldest_ms ? <Age from_ms={oldest_ms} /> : '–'} title={oldest_ms ? `Sent ${fullTime(oldest_ms)}` : 'No message'} />
      <Figure label="Size" value={bytes(backlog_bytes)} title="Bodies and metadata of all messages" />
      <Figure label="Sent/s" value={rates ? perSecond(rates.sent) : '…'} title="Mean of the last 10 seconds" />
      <Figure label="Done/s" value={rates ? perSecond(rates.acknowledged) : '…'} title="Acknowledged, mean of the last 10 seconds" />
    </dl>
  );
}

function Figure({ label, value, title }) {
  return (
    <div title={title}>
      <dt>{label}</dt>
      <dd>{typeof value === 'number' ? number(value) : value}</dd>
    </div>
  );
}
