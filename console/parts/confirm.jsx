// Asking before something that can't be taken back. What destroys a whole queue asks for its name.
import { useState } from 'preact/hooks';
import { ErrorNote, useAction } from './action.jsx';
import { Dialog, DialogForm } from './dialog.jsx';
import { TextField } from './fields.jsx';

/** `name` has to be typed where it is given. `act` does it, and the dialog stays open with what went wrong. */
export function Confirm({ title, name, verb, act, onClose, children }) {
  const [typed, setTyped] = useState('');
  const [error, busy, run] = useAction();
  const sure = name === undefined || typed === name;
  return (
    <Dialog title={title} onClose={onClose}>
      {(close) => (
        <DialogForm
          close={close} verb={verb} kind="bad" disabled={busy || !sure}
          onSubmit={() => {
            if (sure) run(() => act(close));
          }}
        >
          {children}
          {name !== undefined && <TextField label={`Type ${name} to confirm`} value={typed} onValue={setTyped} autofocus />}
          <ErrorNote error={error} />
        </DialogForm>
      )}
    </Dialog>
  );
}
