// Dead letters on their way back: to the queues they died in, or to another one.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../api.js';
import { now_ms, repeat } from '../clock.js';
import { count, number } from '../format.js';
import { overview, refreshOverview } from '../overview.js';
import { ErrorNote, announce, useAction } from '../parts/action.jsx';
import { Dialog, DialogForm } from '../parts/dialog.jsx';
import { NumberField, Radios, TextField } from '../parts/fields.jsx';
import { canWrite } from '../session.js';

const every_ms = 1_000;
const idleEvery_ms = 5_000;
/** A redrive that ended longer ago is no news. */
const news_ms = 600_000;

/** `{status, watch}`: the queue's latest redrive, and a function that asks for it at once. */
export function useRedrive(id) {
  const [status, setStatus] = useState(null);
  const latest = useRef(null);
  const polling = useRef();
  useEffect(() => {
    let gone = false, asked_ms = 0;
    const stop = repeat(async () => {
      // One that another tab started is noticed too, a little later.
      if (latest.current?.state !== 'running' && Date.now() - asked_ms < idleEvery_ms) return;
      asked_ms = Date.now();
      try {
        const read = await api.redriveStatus(id);
        if (gone) return;
        if (latest.current?.state === 'running' && read.state !== 'running') {
          announce(`The redrive is ${read.state}: ${count(read.moved, 'message')} moved.`);
          refreshOverview();
        }
        latest.current = read;
        setStatus(read);
      } catch {
        // The page's own polling says what is wrong; without redrive on the server there is nothing to show.
      }
    }, every_ms);
    polling.current = () => {
      asked_ms = 0;
      stop.soon();
    };
    return () => {
      gone = true;
      stop();
    };
  }, [id]);
  return { id, status, watch: () => polling.current?.() };
}

export function RedriveStatus({ redrive: { id, status, watch } }) {
  const [error, busy, run] = useAction();
  const [hidden, setHidden] = useState(null);
  if (!status || status.state === 'none' || hidden === status.started_on) return null;
  const { state, destination_queue_name, messages_per_second, messages_to_move, moved, skipped, started_on, ended_on } = status;
  const running = state === 'running';
  if (!running && now_ms.value - Date.parse(ended_on) > news_ms) return null;
  const where = destination_queue_name ? `to ${destination_queue_name}` : 'back to where they died';
  const stayed = skipped > 0 && ` ${count(skipped, 'message')} stayed, because ${skipped === 1 ? 'it' : 'they'} did not die in a queue or ${skipped === 1 ? 'was' : 'were'} no longer there.`;
  return (
    <section class="card redrive" aria-label="Redrive">
      <div class="card-head">
        <div>
          <h2>{running ? 'Redriving' : state === 'stopped' ? 'Redrive stopped' : 'Redrive completed'}</h2>
          <p>
            {number(moved)} of {count(messages_to_move, 'message')} moved {where}
            {running && (messages_per_second ? `, at most ${number(messages_per_second)} a second` : ', as fast as it goes')}.{stayed}
          </p>
        </div>
        {running && canWrite() && (
          <button
            type="button" disabled={busy}
            onClick={() => run(async () => {
              await api.stopRedrive(id);
              watch();
            })}
          >
            Stop
          </button>
        )}
        {!running && <button type="button" class="quiet" onClick={() => setHidden(started_on)} aria-label="Hide this notice">✕</button>}
      </div>
      {running && <progress max={Math.max(1, messages_to_move)} value={moved + skipped} aria-label="Messages moved" />}
      <ErrorNote error={error} />
    </section>
  );
}

export function Redrive({ id, name, sources, waiting, chosen, onClose, onStarted }) {
  const [which, setWhich] = useState(chosen.length > 0 ? 'chosen' : 'all');
  const [where, setWhere] = useState('back');
  const [destination, setDestination] = useState('');
  const [speed, setSpeed] = useState('fast');
  const [rate, setRate] = useState(100);
  const [error, busy, run] = useAction();

  async function start(close) {
    await api.redrive(id, {
      ...(where === 'other' && { destination_queue_name: destination }),
      ...(speed === 'rate' && { messages_per_second: rate }),
      ...(which === 'chosen' && { refs: chosen.map((ref) => ({ ref })) }),
    });
    announce('The redrive has begun.');
    onStarted();
    close();
  }

  return (
    <Dialog title={`Redrive from ${name}`} onClose={onClose}>
      {(close) => (
        <DialogForm close={close} onSubmit={() => run(() => start(close))} verb="Start redrive" disabled={busy}>
          <Radios
            legend="Which messages" value={which} onValue={setWhich}
            options={[
              { value: 'all', label: waiting > 0 ? `All, ${number(waiting)} waiting at the moment` : 'All' },
              chosen.length > 0 && { value: 'chosen', label: chosen.length === 1 ? 'The one selected' : `The ${number(chosen.length)} selected` },
            ]}
          />
          <Radios
            legend="Where to" value={where} onValue={setWhere}
            options={[
              { value: 'back', label: sources.length === 1 ? `Back to where each died (${sources[0]})` : 'Back to the queue where each died' },
              {
                value: 'other',
                label: 'To another queue',
                field: <TextField label="Name of that queue" value={destination} onValue={setDestination} required list="queue-names" maxlength="63" autofocus />,
              },
            ]}
          />
          <datalist id="queue-names">
            {suggestions(destination, name).map((one) => <option key={one} value={one} />)}
          </datalist>
          <Radios
            legend="How fast" value={speed} onValue={setSpeed}
            options={[
              { value: 'fast', label: 'As fast as it goes' },
              {
                value: 'rate',
                label: 'At a chosen rate',
                field: <NumberField label="Messages a second, at most" value={rate} onValue={setRate} min="1" max="10000" />,
              },
            ]}
          />
          <p class="hint">Each message arrives exactly once, with its attempts counted from the start. It can be stopped at any time.</p>
          <ErrorNote error={error} />
        </DialogForm>
      )}
    </Dialog>
  );
}

/** A few names that fit: ten thousand of them are no help. */
function suggestions(typed, own) {
  const words = typed.toLowerCase();
  return overview.value.queues.map(({ queue_name }) => queue_name).filter((name) => name !== own && name.toLowerCase().includes(words)).sort().slice(0, 20);
}
