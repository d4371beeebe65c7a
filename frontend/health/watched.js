// What is looked at again and again for as long as somebody looks at the page.
import { useLoaded } from "../ui/pages.js";
import { useEffect, useRef } from "../view.js";

const EVERY_MS = 5000;

/** As `useLoaded`; what was read last stays until the next is there, and so does what kept it from being read again. */
export function useWatched(load, inputs) {
  const loaded = useLoaded(load, inputs);
  const failure = useRef(null);
  if (!loaded.loading) failure.current = loaded.error;
  const reload = useRef(loaded.reload);
  reload.current = loaded.reload;
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && reload.current(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return { ...loaded, error: failure.current };
}
