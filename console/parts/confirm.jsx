// Asking before something that can't be taken back. What destroys a whole queue asks for its name.
import { useState } from 'preact/hooks';
import { ErrorNote, useAction } from './action.jsx';
import { Dialog } from './dialog.jsx';
import { TextField } from './fields.jsx';

/** `name` has to be typed where it is given. `act` does it, and the dialog stays open with what went wrong. */
export function Confirm({ title, name, verb, act, onClose, children }) {
  const [typed, setTyped] = useState('');
  const [error, busy, run] = useAction();
  return (
    <Dialog title={title} onClose={onClose}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (name === undefined || typed === name) run(() => act(close));
          }}
        >
          {children}
          {name !== undefined && <TextField label={`Type ${name} to confirm`} value={typed} onValue={setTyped} autofocus />}
          <ErrorNote error={error} />
          <footer class="dialog-foot">
            <button type="button" onClick={close}>Cancel</button>
            <button type="submit" class="bad" disabled={busy || (name !== undefined && typed !== name)}>{verb}</button>
          </footer>
        </form>
      )}
    </Dialog>
  );
}
