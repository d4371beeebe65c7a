// A long list of which only what is in sight is drawn. Heights are known beforehand, so nothing jumps.
import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../view.js";

const SPARE_ROWS = 8;
/** What is drawn moves on by so many rows at a time: scrolling within them costs nothing. */
const STEP = 4;
const FOCUSABLE = "a, button, [tabindex]";
const never = () => false;

/**
 * `items`; `keyOf(item)`; `rowHeight`, pixels, or a function of the item; `row(item, index)` draws one, in exactly that
 * height, and the same for as long as it is the same function; `onEnd` is called when the end comes near, `onTop` with
 * the item at the top as it changes. Arrow keys, Home and End move between rows,
 * and pass over those for which `isHeading(item)`.
 */
export function VirtualList({ items, keyOf, rowHeight, row, isHeading = never, onEnd, onTop, label, children }) {
  const viewport = useRef(null);
  const wanted = useRef(null);
  const tops = useMemo(() => topsOf(items, rowHeight), [items, rowHeight]);
  const [range, setRange] = useState({ first: 0, last: 2 * SPARE_ROWS });
  const drawn = useRef({ row: null, nodes: new Map() });

  const look = useCallback(() => {
    const { scrollTop, clientHeight } = viewport.current;
    const first = indexAt(tops, scrollTop);
    if (first in items) onTop?.(items[first]);
    const last = indexAt(tops, scrollTop + clientHeight) + 1;
    const next = { first: first - (first % STEP), last: last + STEP - (last % STEP) };
    setRange((before) => (before.first === next.first && before.last === next.last ? before : next));
  }, [tops, items, onTop]);
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(viewport.current);
    return () => observer.disconnect();
  }, [look]);

  const first = Math.max(0, Math.min(range.first, items.length) - SPARE_ROWS);
  const last = Math.min(items.length, range.last + SPARE_ROWS);
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
    const step = { ArrowDown: 1, ArrowUp: -1, Home: 1, End: -1 }[event.key];
    let to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    while (to in items && isHeading(items[to])) to += step;
    if (!(to in items)) return;
    event.preventDefault();
    wanted.current = to;
    const view = viewport.current;
    if (tops[to] < view.scrollTop) view.scrollTop = tops[to];
    else if (tops[to + 1] > view.scrollTop + view.clientHeight) view.scrollTop = tops[to + 1] - view.clientHeight;
    look();
    setRange((before) => ({ ...before }));
  };

  // A row that was drawn already is handed back as it is, and costs nothing.
  const known = drawn.current.row === row ? drawn.current.nodes : new Map();
  const nodes = new Map();
  for (let index = first; index < last; index++) {
    const item = items[index];
    const before = known.get(item);
    const top = tops[index];
    nodes.set(item, before?.index === index && before.top === top ? before : { index, top, node: drawnRow(item, index) });
  }
  drawn.current = { row, nodes };
  const rows = Array.from(nodes.values(), ({ node }) => node);

  function drawnRow(item, index) {
    const place = { top: `${tops[index]}px`, height: `${tops[index + 1] - tops[index]}px` };
    return html`<div key=${keyOf(item)} class="virtual-row" role="listitem" data-index=${index} style=${place}>${row(item, index)}</div>`;
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
