// A page's name in the window's title, and the focus on its heading, from which a screen reader reads on.
import { useEffect, useRef } from 'preact/hooks';

let first = true;

/**
 * Gives the ref for the page's heading. The first page leaves the focus to the browser. `ready` says that
 * what the page loads is there, with which another heading may have come.
 */
export function useTitle(title, ready = true) {
  const heading = useRef();
  const isFirst = useRef(first);
  useEffect(() => {
    document.title = title ? `${title} · pullq` : 'pullq';
  }, [title]);
  useEffect(() => {
    first = false;
    if (!isFirst.current) heading.current?.focus({ preventScroll: true });
  }, [ready]);
  return heading;
}
