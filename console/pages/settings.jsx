// A queue's settings and its consumer. They are read again before they are changed, and only what was
// changed here is sent, so that two people who edit different things don't undo each other's work.
import { useEffect, useState } from 'preact/hooks';
import { api } from '../api.js';
import { duration } from '../format.js';
import { refreshOverview } from '../overview.js';
import { ErrorNote, Note, announce, useAction } from '../parts/action.jsx';
import { Confirm } from '../parts/confirm.jsx';
import { DurationField, Form, NumberField, QueueNameField } from '../parts/fields.jsx';
import { go, queuesHref } from '../route.js';
import { canWrite } from '../session.js';

/** What each form edits, flat: how it is read from a queue, and what a field is called in a sentence. */
const queueFields = {
  read: ({ queue_name, settings }) => ({ name: queue_name, delay: settings.delivery_delay, retention: settings.message_retention_period }),
  names: { name: 'the name', delay: 'the delay', retention: 'the retention' },
};
const consumerFields = {
  read: ({ consumers: [consumer] }) => consumer && {
    visibility: consumer.settings.visibility_timeout_ms / 1_000,
    batch: consumer.settings.batch_size,
    retries: consumer.settings.max_retries,
    retryDelay: consumer.settings.retry_delay,
    deadLetters: consumer.dead_letter_queue,
  },
  names: { visibility: 'the visibility timeout', batch: 'the batch size', retries: 'the retries', retryDelay: 'the delay of retries', deadLetters: 'the dead-letter queue' },
};
const newConsumer = { visibility: 30, batch: 5, retries: 3, retryDelay: 0, deadLetters: '' };

const changes = (draft, base) => Object.keys(draft).filter((key) => draft[key] !== base[key]);

export function SettingsTab({ id, shown, onChange }) {
  return (
    <>
      {!canWrite() && <Note><p>This token may look at the settings and not change them.</p></Note>}
      <div class="columns">
        <QueueSettings id={id} shown={shown} onChange={onChange} />
        <Consumer id={id} shown={shown} onChange={onChange} />
      </div>
      {canWrite() && <DeleteQueue id={id} name={shown.queue_name} />}
    </>
  );
}

/**
 * A form's values: `[draft, set, save, conflict]`. What is shown follows the server as long as nothing was
 * edited. `save` reads the queue again; where somebody else changed a field that was edited here too, it
 * says so in `conflict` and leaves it to a second save.
 */
function useDraft(id, shown, { read, names }, initial) {
  const [base, setBase] = useState(() => read(shown) ?? initial);
  const [draft, setDraft] = useState(base);
  const [conflict, setConflict] = useState('');
  const current = read(shown);
  const key = JSON.stringify(current);
  useEffect(() => {
    if (!current || changes(draft, base).length > 0) return;
    setBase(current);
    setDraft(current);
  }, [key]);

  async function save(send) {
    const mine = changes(draft, base);
    const queue = await api.queue(id);
    const fresh = read(queue);
    const theirs = fresh ? mine.filter((name) => fresh[name] !== base[name] && fresh[name] !== draft[name]) : [];
    const merged = { ...(fresh ?? base), ...Object.fromEntries(mine.map((name) => [name, draft[name]])) };
    if (fresh) setBase(fresh);
    setDraft(merged);
    if (theirs.length > 0) {
      setConflict(`Meanwhile somebody else set ${theirs.map((name) => `${names[name]} to ${told(name, fresh[name])}`).join(' and ')}. Save again to put yours in its place.`);
      return;
    }
    setConflict('');
    await send(merged, fresh ? changes(merged, fresh) : Object.keys(merged), queue);
    setBase(merged);
  }

  const set = (name) => (value) => setDraft((before) => ({ ...before, [name]: value }));
  return [draft, set, save, conflict, changes(draft, base).length > 0];
}

function told(name, value) {
  if (['delay', 'retention', 'visibility', 'retryDelay'].includes(name)) return duration(value);
  return value === '' ? 'none' : String(value);
}

function QueueSettings({ id, shown, onChange }) {
  const [draft, set, save, conflict, changed] = useDraft(id, shown, queueFields);
  const [error, busy, run] = useAction();
  const send = async ({ name, delay, retention }, mine) => {
    const settings = { ...(mine.includes('delay') && { delivery_delay: delay }), ...(mine.includes('retention') && { message_retention_period: retention }) };
    await api.changeQueue(id, { ...(mine.includes('name') && { queue_name: name }), ...(Object.keys(settings).length > 0 && { settings }) });
    announce('The settings are saved.');
    refreshOverview();
    onChange();
  };
  return (
    <Form class="card" aria-labelledby="queue-settings" onSubmit={() => run(() => save(send))}>
      <h2 id="queue-settings">Queue</h2>
      <fieldset disabled={!canWrite()} class="plain">
        <QueueNameField label="Name" hint="Clients use the queue's id, which stays." value={draft.name} onValue={set('name')} required />
        <DurationField label="Delay" hint="Of messages sent without a delay of their own. At most 24 hours." value={draft.delay} onValue={set('delay')} min={0} max={86_400} />
        <DurationField label="Retention" hint="From when a message can first be delivered until it is dropped. 1 minute to 14 days." value={draft.retention} onValue={set('retention')} min={60} max={1_209_600} />
        <Saving conflict={conflict} error={error} busy={busy} changed={changed} label="Save settings" />
      </fieldset>
    </Form>
  );
}

function Consumer({ id, shown, onChange }) {
  const [adding, setAdding] = useState(false);
  const [consumer] = shown.consumers;
  useEffect(() => setAdding(false), [consumer?.consumer_id]);
  if (consumer || adding) return <ConsumerForm key={consumer?.consumer_id ?? 'new'} id={id} shown={shown} onChange={onChange} cancel={() => setAdding(false)} />;
  return (
    <section class="card" aria-labelledby="no-consumer">
      <h2 id="no-consumer">Pull consumer</h2>
      <p class="muted">There is none, so nothing can be pulled from this queue. Sends are taken.</p>
      {canWrite() && <button type="button" class="main" onClick={() => setAdding(true)}>Add a pull consumer</button>}
    </section>
  );
}

function ConsumerForm({ id, shown, onChange, cancel }) {
  const [draft, set, save, conflict, changed] = useDraft(id, shown, consumerFields, newConsumer);
  const [removing, setRemoving] = useState(false);
  const [error, busy, run] = useAction();
  const [consumer] = shown.consumers;
  const send = async (values, _mine, queue) => {
    const body = {
      type: 'http_pull',
      dead_letter_queue: values.deadLetters,
      settings: { visibility_timeout_ms: Math.round(values.visibility * 1_000), batch_size: values.batch, max_retries: values.retries, retry_delay: values.retryDelay },
    };
    const [there] = queue.consumers;
    await (there ? api.replaceConsumer(id, there.consumer_id, body) : api.addConsumer(id, body));
    announce('The consumer is saved.');
    refreshOverview();
    onChange();
  };
  return (
    <>
      <Form class="card" aria-labelledby="consumer" onSubmit={() => run(() => save(send))}>
        <h2 id="consumer">Pull consumer</h2>
        <fieldset disabled={!canWrite()} class="plain">
          <DurationField label="Visibility timeout" hint="How long a lease runs, unless a pull says so itself. At most 12 hours." value={draft.visibility} onValue={set('visibility')} min={0.001} max={43_200} />
          <NumberField label="Batch size" hint="Messages of a pull that doesn't say how many. 1 to 100." value={draft.batch} onValue={set('batch')} min="1" max="100" />
          <NumberField label="Retries" hint="A message is delivered at most once more than this. 0 to 100." value={draft.retries} onValue={set('retries')} min="0" max="100" />
          <DurationField label="Delay of retries" hint="Of retries that don't say. At most 24 hours." value={draft.retryDelay} onValue={set('retryDelay')} min={0} max={86_400} />
          <QueueNameField
            label="Dead-letter queue" hint="Takes messages whose deliveries are used up; made if it isn't there. Empty: they are dropped."
            value={draft.deadLetters} onValue={set('deadLetters')}
          />
          <Saving conflict={conflict} error={error} busy={busy} changed={changed || !consumer} label={consumer ? 'Save consumer' : 'Add consumer'}>
            {consumer ? <button type="button" class="bad-quiet" onClick={() => setRemoving(true)}>Remove…</button> : <button type="button" onClick={cancel}>Cancel</button>}
          </Saving>
        </fieldset>
      </Form>
      {removing && <RemoveConsumer id={id} consumer={consumer} onChange={onChange} onClose={() => setRemoving(false)} />}
    </>
  );
}

function RemoveConsumer({ id, consumer, onChange, onClose }) {
  return (
    <Confirm
      title="Remove the pull consumer" verb="Remove" onClose={onClose}
      act={async (close) => {
        await api.removeConsumer(id, consumer.consumer_id);
        announce('The consumer is removed.');
        refreshOverview();
        close();
        onChange();
      }}
    >
      <p>Nothing can be pulled from this queue until it has one again. Its messages stay.</p>
    </Confirm>
  );
}

function Saving({ conflict, error, busy, changed, label, children }) {
  return (
    <>
      {conflict && <Note kind="warn"><p role="alert">{conflict}</p></Note>}
      <ErrorNote error={error} />
      {canWrite() && (
        <div class="form-foot">
          <button type="submit" class="main" disabled={busy || !changed}>{label}</button>
          {children}
        </div>
      )}
    </>
  );
}

function DeleteQueue({ id, name }) {
  const [asking, setAsking] = useState(false);
  return (
    <section class="card row-card" aria-labelledby="delete">
      <div>
        <h2 id="delete">Delete this queue</h2>
        <p class="muted">With its messages, settings and consumer. It can't be taken back.</p>
      </div>
      <button type="button" class="bad-quiet" onClick={() => setAsking(true)}>Delete queue…</button>
      {asking && (
        <Confirm
          title={`Delete ${name}`} name={name} verb="Delete the queue" onClose={() => setAsking(false)}
          act={async (close) => {
            await api.deleteQueue(id);
            close();
            refreshOverview();
            announce(`The queue ${name} is deleted.`);
            go(queuesHref);
          }}
        >
          <p>This deletes <strong>{name}</strong> with all its messages. Clients that use it get errors from then on.</p>
        </Confirm>
      )}
    </section>
  );
}
