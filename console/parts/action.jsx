// What an action on the server needs on the screen: while it runs, how it ended, and where errors are shown.
import { signal } from '@preact/signals';
import { useRef, useState } from 'preact/hooks';

/** The sentence that was announced last: shown for some seconds, and read out by screen readers. */
const announced = signal('');
let clearing;

export function announce(sentence) {
  clearTimeout(clearing);
  announced.value = sentence;
  clearing = setTimeout(() => (announced.value = ''), 6_000);
}

/** There from the start, since a screen reader only hears changes of what it knows. */
export function Announcer() {
  return (
    <div class="announcer" role="status" aria-live="polite">
      {announced.value && <p>{announced}</p>}
    </div>
  );
}

/** `[error, busy, run]`: `run(task)` keeps the task's ApiError and refuses a second click meanwhile. */
export function useAction() {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const running = useRef(false);
  async function run(task) {
    if (running.current) return;
    running.current = true;
    setBusy(true);
    setError(null);
    try {
      await task();
    } catch (error) {
      setError(error);
    } finally {
      running.current = false;
      setBusy(false);
    }
  }
  return [error, busy, run, setError];
}

/** An error as its sentence, what to do, and where to ask about it. */
export function ErrorNote({ error, children }) {
  if (!error) return null;
  // An error that isn't one of the API is the console's own fault.
  const { message, advice, code, status } = error;
  return (
    <div class="note note-bad" role="alert">
      <p>
        <strong>{message}</strong> {advice}
      </p>
      {code > 0 && <p class="fine">Status {status}, code {code}</p>}
      {children}
    </div>
  );
}

/** A hint that is no error. */
export function Note({ kind = 'info', children }) {
  return <div class={`note note-${kind}`}>{children}</div>;
}
