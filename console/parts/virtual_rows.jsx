// Rows of one height in the page's own scroll area, of which only those near the screen are there.
import { Virtualizer, defaultRangeExtractor, observeWindowOffset, observeWindowRect, windowScroll } from '@tanstack/virtual-core';
import { useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';

/**
 * `[container, items, total_px, showRow]`: the ref of the element that the rows lie in, the rows to render,
 * and how high all of them are together.
 */
export function useVirtualRows({ count, row_px, key, keep }) {
  const [, render] = useReducer((times) => times + 1, 0);
  const container = useRef();
  const [top_px, setTop] = useState(0);
  const options = {
    count,
    getScrollElement: () => window,
    estimateSize: () => row_px,
    getItemKey: key,
    overscan: 8,
    scrollMargin: top_px,
    observeElementRect: observeWindowRect,
    observeElementOffset: observeWindowOffset,
    scrollToFn: windowScroll,
    initialOffset: () => window.scrollY,
    onChange: render,
    // The row with the focus stays, or the keyboard would lose its place when the list scrolls.
    rangeExtractor: (range) => {
      const indexes = defaultRangeExtractor(range);
      return keep >= 0 && keep < count && !indexes.includes(keep) ? [...indexes, keep].sort((a, b) => a - b) : indexes;
    },
  };
  const [virtualizer] = useState(() => new Virtualizer(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => {
    if (container.current) setTop(Math.round(container.current.getBoundingClientRect().top + window.scrollY));
    virtualizer._willUpdate();
  });
  useLayoutEffect(() => virtualizer.measure(), [row_px]);
  const items = virtualizer.getVirtualItems().map(({ index, start }) => ({ index, top_px: start - top_px }));
  return [container, items, virtualizer.getTotalSize(), (index) => virtualizer.scrollToIndex(index, { align: 'auto' })];
}
