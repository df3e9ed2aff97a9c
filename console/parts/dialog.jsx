// Modal dialogs: the browser's own, which keeps the focus inside, closes on Escape and gives the focus back.
import { useEffect, useId, useRef } from 'preact/hooks';
import { Form } from './fields.jsx';

/** `children` is a function of `close`. `onClose` comes once the dialog is closed, however that was. */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef();
  const heading = useId();
  useEffect(() => {
    const element = dialog.current;
    element.showModal();
    return () => element.close();
  }, []);
  const close = () => dialog.current?.close();
  return (
    <dialog ref={dialog} aria-labelledby={heading} onClose={onClose}>
      <header class="dialog-head">
        <h2 id={heading}>{title}</h2>
        <button type="button" class="quiet" onClick={close} aria-label="Close">✕</button>
      </header>
      {children(close)}
    </dialog>
  );
}

/** What a dialog asks for: the fields, and below them the way out and the button that does it. */
export function DialogForm({ close, onSubmit, verb, kind = 'main', disabled, children }) {
  return (
    <Form onSubmit={onSubmit}>
      {children}
      <footer class="dialog-foot">
        <button type="button" onClick={close}>Cancel</button>
        <button type="submit" class={kind} disabled={disabled}>{verb}</button>
      </footer>
    </Form>
  );
}
