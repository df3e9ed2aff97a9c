// Form fields: each with its label, and its hint tied to it.
import { useId, useRef, useState } from 'preact/hooks';
import { splitSeconds, unitSeconds } from '../format.js';

/** A form that the page itself handles. */
export function Form({ onSubmit, ...rest }) {
  return (
    <form
      {...rest}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    />
  );
}

export function Field({ label, hint, children }) {
  const id = useId();
  const hintId = hint ? `${id}-hint` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': hintId })}
      {hint && <p class="hint" id={hintId}>{hint}</p>}
    </div>
  );
}

export function TextField({ label, hint, value, onValue, ...rest }) {
  return (
    <Field label={label} hint={hint}>
      {(tie) => <input {...tie} type="text" autocomplete="off" spellcheck={false} value={value} onInput={(event) => onValue(event.currentTarget.value)} {...rest} />}
    </Field>
  );
}

export function QueueNameField(props) {
  return <TextField maxlength="63" pattern="[A-Za-z0-9._\-]+" title="Letters, digits, hyphens, underscores and dots" {...props} />;
}

export function NumberField({ label, hint, value, onValue, ...rest }) {
  return (
    <Field label={label} hint={hint}>
      {(tie) => (
        <input
          {...tie} type="number" inputmode="numeric" step="1" required value={value ?? ''} {...rest}
          onInput={(event) => onValue(event.currentTarget.value === '' ? null : Number(event.currentTarget.value))}
        />
      )}
    </Field>
  );
}

/** A time as an amount and a unit; `value` is in seconds. */
export function DurationField({ label, hint, value, onValue, min, max, ...rest }) {
  const [unit, setUnit] = useState(() => splitSeconds(value).unit);
  const own = useRef(value);
  // A value that came from outside brings its own unit; one that is being typed keeps the chosen one.
  if (value !== own.current) {
    own.current = value;
    setUnit(splitSeconds(value).unit);
  }
  const amount = value === null ? '' : value / unitSeconds(unit);
  const id = useId();
  const change = (text, unit) => {
    own.current = text === '' ? null : Number(text) * unitSeconds(unit);
    onValue(own.current);
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="joined">
        <input
          id={id} type="number" inputmode="numeric" required value={amount} aria-describedby={hint && `${id}-hint`}
          min={min / unitSeconds(unit)} max={max / unitSeconds(unit)} step="any" {...rest}
          onInput={(event) => change(event.currentTarget.value, unit)}
        />
        <select
          aria-label={`Unit of ${label.toLowerCase()}`} value={unit}
          onChange={(event) => {
            setUnit(event.currentTarget.value);
            change(String(amount), event.currentTarget.value);
          }}
        >
          {['second', 'minute', 'hour', 'day'].map((name) => <option key={name} value={name}>{name}s</option>)}
        </select>
      </div>
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
    </div>
  );
}

/** One of a few: radio buttons that look like a row of buttons. */
export function Choice({ label, value, onValue, options }) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend class="hidden">{label}</legend>
      {options.map((option) => (
        <label key={option.value}>
          <input type="radio" name={name} value={option.value} checked={option.value === value} onChange={() => onValue(option.value)} />
          <span>{option.label}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** One of a few, each with a sentence and perhaps a field of its own. */
export function Radios({ legend, value, onValue, options }) {
  const name = useId();
  return (
    <fieldset class="radios">
      <legend>{legend}</legend>
      {options.filter(Boolean).map((option) => (
        <div key={option.value} class="radio">
          <label>
            <input type="radio" name={name} value={option.value} checked={option.value === value} onChange={() => onValue(option.value)} />
            <span>{option.label}</span>
          </label>
          {option.value === value && option.field}
        </div>
      ))}
    </fieldset>
  );
}

export function CopyButton({ text, label = 'Copy' }) {
  const [copied, setCopied] = useState('');
  async function copy() {
    try {
      await navigator.clipboard.writeText(typeof text === 'function' ? text() : text);
      setCopied('Copied');
    } catch {
      // A page that isn't served over HTTPS or from this machine has no clipboard.
      setCopied('The browser refuses: select the text and copy it');
    }
    setTimeout(() => setCopied(''), 2_500);
  }
  return (
    <button type="button" onClick={copy}>
      <span aria-live="polite">{copied || label}</span>
    </button>
  );
}
