// Making a queue, with its pull consumer, since a queue without one can't be pulled from.
import { useState } from 'preact/hooks';
import { api } from '../api.js';
import { refreshOverview } from '../overview.js';
import { ErrorNote, announce, useAction } from '../parts/action.jsx';
import { Dialog, DialogForm } from '../parts/dialog.jsx';
import { QueueNameField } from '../parts/fields.jsx';
import { go, queueHref } from '../route.js';

export function CreateQueue({ onClose }) {
  const [name, setName] = useState('');
  const [consumer, setConsumer] = useState(true);
  const [deadLetters, setDeadLetters] = useState('');
  const [made, setMade] = useState(null);
  const [error, busy, run] = useAction();

  async function create(close) {
    // A second try after a refused consumer finds the queue there.
    const queue = made ?? (await api.createQueue({ queue_name: name }));
    setMade(queue);
    if (consumer) await api.addConsumer(queue.queue_id, { type: 'http_pull', ...(deadLetters && { dead_letter_queue: deadLetters }) });
    refreshOverview();
    announce(`The queue ${name} is made.`);
    close();
    go(queueHref(queue.queue_id));
  }

  return (
    <Dialog title="Create a queue" onClose={onClose}>
      {(close) => (
        <DialogForm close={close} onSubmit={() => run(() => create(close))} verb="Create" disabled={busy}>
          <QueueNameField
            label="Name" hint="1 to 63 letters, digits, hyphens, underscores and dots." value={name} onValue={setName} required
            disabled={made !== null} autofocus
          />
          <label class="check">
            <input type="checkbox" checked={consumer} onChange={(event) => setConsumer(event.currentTarget.checked)} />
            <span>With a pull consumer, so that messages can be pulled</span>
          </label>
          {consumer && (
            <QueueNameField
              label="Dead-letter queue (optional)" hint="Takes messages that were delivered too often. It is made if it isn't there."
              value={deadLetters} onValue={setDeadLetters}
            />
          )}
          <ErrorNote error={error}>{made && <p>The queue itself is made.</p>}</ErrorNote>
        </DialogForm>
      )}
    </Dialog>
  );
}
