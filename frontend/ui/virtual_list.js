// A long list of which only what is in sight is drawn. Heights are known beforehand, so nothing jumps.
import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../view.js";

const SPARE_ROWS = 8;
const FOCUSABLE = "a, button, [tabindex]";

/**
 * `items`; `keyOf(item)`; `rowHeight`, pixels, or a function of the item; `row(item, index)` draws one, in exactly that
 * height; `onEnd` is called when the end comes near, to read more. Arrow keys, Home and End move between rows.
 */
export function VirtualList({ items, keyOf, rowHeight, row, onEnd, label, children }) {
  const viewport = useRef(null);
  const wanted = useRef(null);
  const tops = useMemo(() => topsOf(items, rowHeight), [items, rowHeight]);
  const [seen, setSeen] = useState({ top: 0, height: 800 });

  const look = useCallback(() => {
    const { scrollTop: top, clientHeight: height } = viewport.current;
    setSeen((before) => (before.top === top && before.height === height ? before : { top, height }));
  }, []);
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(viewport.current);
    return () => observer.disconnect();
  }, []);

  const first = Math.max(0, indexAt(tops, seen.top) - SPARE_ROWS);
  const last = Math.min(items.length, indexAt(tops, seen.top + seen.height) + 1 + SPARE_ROWS);
  const nearEnd = last >= items.length - SPARE_ROWS;
  useEffect(() => {
    if (nearEnd) onEnd?.();
  }, [nearEnd, items.length, onEnd]);

  useLayoutEffect(() => {
    if (wanted.current === null) return;
    viewport.current.querySelector(`[data-index="${wanted.current}"]`)?.querySelector(FOCUSABLE)?.focus({ preventScroll: true });
    wanted.current = null;
  });
  const move = (event) => {
    const here = event.target.closest?.("[data-index]");
    if (!here || event.target.closest("[role=menu], input, textarea")) return;
    const at = Number(here.dataset.index);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to === undefined || to < 0 || to >= items.length) return;
    event.preventDefault();
    wanted.current = to;
    const view = viewport.current;
    if (tops[to] < view.scrollTop) view.scrollTop = tops[to];
    else if (tops[to + 1] > view.scrollTop + view.clientHeight) view.scrollTop = tops[to + 1] - view.clientHeight;
    setSeen({ top: view.scrollTop, height: view.clientHeight, moved: to });
  };

  const rows = [];
  for (let index = first; index < last; index++) {
    const item = items[index];
    const place = { top: `${tops[index]}px`, height: `${tops[index + 1] - tops[index]}px` };
    rows.push(html`<div key=${keyOf(item)} class="virtual-row" role="listitem" data-index=${index} style=${place}>${row(item, index)}</div>`);
  }
  return html`<div ref=${viewport} class="virtual" onScroll=${look} onKeyDown=${move}>
    <div class="virtual-rows" role="list" aria-label=${label} style=${{ height: `${tops[items.length]}px` }}>${rows}</div>
    ${children}
  </div>`;
}

function topsOf(items, rowHeight) {
  const tops = new Float64Array(items.length + 1);
  const heightOf = typeof rowHeight === "function" ? rowHeight : () => rowHeight;
  for (let index = 0; index < items.length; index++) tops[index + 1] = tops[index] + heightOf(items[index]);
  return tops;
}

/** The row at a height, by halving. */
function indexAt(tops, y) {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}
