// A message's body as text, JSON or hex. It is only ever set as text, and in portions, since a megabyte on
// the screen at once makes a browser stall.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { asHex, asJson, asText, bodyBytes, contentType, naturalView, toBase64 } from '../body.js';
import { bytes as sizeOf } from '../format.js';
import { Choice, CopyButton } from '../parts/fields.jsx';

/** Characters, and bytes in hex, of a portion. */
const portions = { text: 65_536, json: 65_536, hex: 16_384 };

const views = [
  { value: 'text', label: 'Text' },
  { value: 'json', label: 'JSON' },
  { value: 'hex', label: 'Hex' },
];

export function MessageBody({ message }) {
  const bytes = useMemo(() => bodyBytes(message), [message.id, message.body]);
  const [view, setView] = useState(() => naturalView(message, bytes));
  const [shown, setShown] = useState(1);
  useEffect(() => setShown(1), [view]);
  const whole = useMemo(() => (view === 'json' ? asJson(bytes) : view === 'text' ? { text: asText(bytes) } : {}), [bytes, view]);

  const portion = portions[view];
  const length = view === 'hex' ? bytes.length : (whole.text?.length ?? 0);
  const count = Math.min(shown, Math.ceil(length / portion));
  const part = (index) => (view === 'hex' ? asHex(bytes, index * portion, (index + 1) * portion) : whole.text.slice(index * portion, (index + 1) * portion));

  return (
    <div class="body">
      <div class="body-tools">
        <Choice label="Show the body as" value={view} onValue={setView} options={views} />
        <CopyButton text={() => (naturalView(message, bytes) === 'hex' ? toBase64(bytes) : asText(bytes))} label={naturalView(message, bytes) === 'hex' ? 'Copy as base64' : 'Copy'} />
        <button type="button" onClick={() => download(message, bytes)}>Download</button>
      </div>
      {whole.error && <p class="muted">{whole.error}</p>}
      {length === 0 && !whole.error && <p class="muted">The body is empty.</p>}
      {count > 0 && (
        <div class={`body-text mono ${view === 'hex' ? 'hex' : ''}`} tabindex="0" role="region" aria-label={`Body as ${view}`}>
          {Array.from({ length: count }, (_, index) => <Portion key={`${view} ${index}`} text={part(index)} joined={view === 'hex' && index > 0} />)}
        </div>
      )}
      {count * portion < length && (
        <p class="more">
          <button type="button" onClick={() => setShown(shown + 1)}>Show more</button>
          <span class="muted fine">The first {sizeOf(count * portion)} of {sizeOf(length)} are shown; copying and downloading take all of them.</span>
        </p>
      )}
    </div>
  );
}

/** Text nodes that are there already stay as they are when another one comes. */
function Portion({ text, joined }) {
  return <span>{joined ? '\n' : ''}{text}</span>;
}

function download(message, bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${message.id}.${{ json: 'json', text: 'txt' }[contentType(message)] ?? 'bin'}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

