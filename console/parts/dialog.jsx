// A modal dialog: the browser's own, which keeps the focus inside, closes on Escape and gives the focus back.
import { useEffect, useId, useRef } from 'preact/hooks';

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
