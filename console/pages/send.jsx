// Sending a message by hand.
import { useState } from 'preact/hooks';
import { ApiError, api } from '../api.js';
import { bytes } from '../format.js';
import { refreshOverview } from '../overview.js';
import { ErrorNote, announce, useAction } from '../parts/action.jsx';
import { Dialog, DialogForm } from '../parts/dialog.jsx';
import { Choice, DurationField, Field } from '../parts/fields.jsx';

const kinds = [
  { value: 'text', label: 'Text' },
  { value: 'json', label: 'JSON' },
  { value: 'bytes', label: 'Bytes' },
];
const hints = { text: 'Any text.', json: 'Any JSON value. It is sent as it stands here.', bytes: 'In base64.' };

export function SendMessage({ id, name, onClose, onSent }) {
  const [kind, setKind] = useState('text');
  const [body, setBody] = useState('');
  const [delay_s, setDelay] = useState(60);
  const [delayed, setDelayed] = useState(false);
  const [error, busy, run] = useAction();

  async function send(close) {
    await api.send(id, request(kind, body, delayed ? delay_s : undefined));
    refreshOverview();
    onSent();
    announce('The message is sent.');
    close();
  }

  return (
    <Dialog title={`Send a message to ${name}`} onClose={onClose}>
      {(close) => (
        <DialogForm close={close} onSubmit={() => run(() => send(close))} verb="Send" disabled={busy}>
          <Choice label="Content type" value={kind} onValue={setKind} options={kinds} />
          <Field label="Body" hint={`${hints[kind]} ${bytes(new TextEncoder().encode(body).length)} of at most 128 kB.`}>
            {(tie) => <textarea {...tie} class="mono" rows="8" spellcheck={false} autofocus value={body} onInput={(event) => setBody(event.currentTarget.value)} />}
          </Field>
          <label class="check">
            <input type="checkbox" checked={delayed} onChange={(event) => setDelayed(event.currentTarget.checked)} />
            <span>With a delay of its own</span>
          </label>
          {delayed && <DurationField label="Delay" hint="Until then nobody gets it. At most 24 hours." value={delay_s} onValue={setDelay} min={0} max={86_400} />}
          <ErrorNote error={error} />
        </DialogForm>
      )}
    </Dialog>
  );
}

/** The request as JSON text: a json body is put in as it was typed, so its numbers stay as they are. */
function request(kind, body, delay_seconds) {
  if (kind === 'json') {
    try {
      JSON.parse(body);
    } catch (error) {
      throw new ApiError(`The body is not JSON: ${error.message}.`, { advice: 'Correct it, or send it as text.' });
    }
  }
  const shown = kind === 'json' ? body : JSON.stringify(kind === 'bytes' ? body.replace(/\s/g, '') : body);
  const delay = delay_seconds === undefined ? '' : `,"delay_seconds":${delay_seconds}`;
  return `{"content_type":"${kind}"${delay},"body":${shown}}`;
}
