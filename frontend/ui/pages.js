// Reading a list page by page, and anything else that is fetched.
import { useConnection } from "../connection.js";
import { useCallback, useEffect, useRef, useState } from "../view.js";

/** What `load(signal)` answers, as `{value, error, loading, reload, setValue}`; read again when `inputs` change. */
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ value: null, error: null, loading: true });
  const running = useRef(null);
  const reload = useCallback(async () => {
    running.current?.abort();
    const mine = (running.current = new AbortController());
    setState((before) => ({ ...before, loading: true, error: null }));
    try {
      const value = await load(mine.signal);
      if (running.current === mine) setState({ value, error: null, loading: false });
    } catch (error) {
      if (running.current === mine) setState((before) => ({ ...before, error, loading: false }));
    }
  }, inputs);
  useEffect(() => {
    setState({ value: null, error: null, loading: true });
    reload();
    return () => {
      running.current?.abort();
      running.current = null;
    };
  }, [reload]);
  useConnection(useCallback((gone) => !gone && unreached(state.error) && reload(), [state.error, reload]));
  const setValue = useCallback((value) => setState((before) => ({ ...before, value })), []);
  return { ...state, reload, setValue };
}

/**
 * A list that is read as it is scrolled: `{items, more, loading, error, loadMore, reload, setItems}`.
 * `load(after, signal)` answers `{items, next}`; it starts again when `inputs` change.
 * `reload` reads the first page again and keeps what is shown until it is there.
 */
export function usePages(load, inputs) {
  const [state, setState] = useState({ items: [], next: null, loading: true, error: null });
  const running = useRef(null);
  const latest = useRef(state);
  latest.current = state;

  const read = useCallback(async (after) => {
    running.current?.abort();
    const mine = (running.current = new AbortController());
    setState((before) => ({ ...before, loading: true, error: null }));
    try {
      const page = await load(after, mine.signal);
      if (running.current !== mine) return;
      running.current = null;
      setState((before) => ({
        items: after === null ? page.items : [...before.items, ...page.items],
        next: page.next ?? null,
        loading: false,
        error: null,
      }));
    } catch (error) {
      if (running.current !== mine) return;
      running.current = null;
      setState((before) => ({ ...before, loading: false, error }));
    }
  }, inputs);

  useEffect(() => {
    setState({ items: [], next: null, loading: true, error: null });
    read(null);
    return () => running.current?.abort();
  }, [read]);

  const loadMore = useCallback(() => {
    if (!running.current && latest.current.next !== null) read(latest.current.next);
  }, [read]);
  const reload = useCallback(() => read(null), [read]);
  useConnection(useCallback((gone) => !gone && unreached(latest.current.error) && read(latest.current.items.length ? latest.current.next : null), [read]));
  const setItems = useCallback((change) => setState((before) => ({ ...before, items: change(before.items) })), []);
  const { items, next, loading, error } = state;
  return { items, more: next !== null, loading, error, loadMore, reload, setItems };
}

/** What the server could not be asked is asked again when it is back. */
const unreached = (error) => error?.code === "unreachable";
