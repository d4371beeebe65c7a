// Whether the server answers. While it doesn't it is asked again and again, and whoever waits for it goes on when it is back.
import { html, useEffect, useState } from "./view.js";
import { Icon } from "./ui/icons.js";

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 3000;
/** A server that takes so long to say that it is there can't be worked with. */
const PATIENCE_MS = 5000;
const listeners = new Set();
let isGone = false;
let watching = null;

/** A request found nobody, or a stream broke off: it may be the server, or that one connection. */
export function lostConnection() {
  watching ??= watch().finally(() => (watching = null));
}

/** True when the server answers; false where it doesn't and `leaving` is aborted. */
export function serverBack(leaving) {
  return new Promise((resolve) => {
    const look = () => {
      if (watching && !(isGone && leaving.aborted)) return;
      listeners.delete(look);
      leaving.removeEventListener("abort", look);
      resolve(!watching);
    };
    listeners.add(look);
    leaving.addEventListener("abort", look);
    watching?.then(look);
    look();
  });
}

async function watch() {
  for (let pause = FIRST_PAUSE_MS; !(await answers()); pause = Math.min(LONGEST_PAUSE_MS, pause * 1.5)) {
    tell(true);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  tell(false);
}

const answers = () => fetch("health/live", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) }).then((response) => response.ok, () => false);

function tell(gone) {
  if (gone === isGone) return;
  isGone = gone;
  for (const listener of listeners) listener(gone);
}

/** `changed(gone)` is called when the server goes, and when it is back. */
export function useConnection(changed) {
  useEffect(() => {
    listeners.add(changed);
    return () => listeners.delete(changed);
  }, [changed]);
}

/** There at once when the server is gone; says so when it is back. */
export function ConnectionBanner() {
  const [gone, setGone] = useState(isGone);
  const [wasGone, setWasGone] = useState(false);
  const [changed] = useState(() => (now) => {
    setGone(now);
    setWasGone(!now);
  });
  useConnection(changed);
  return html`<div class="connection">
    ${gone && html`<p class="connection-lost" role="alert"><${Icon} name="warning" size=${16} />The server doesn't answer. Nothing is lost: the page goes on by itself when it is back. If it doesn't come back, start it with recollect serve.</p>`}
    <p class="hidden-label" aria-live="polite">${wasGone ? "The server is back." : ""}</p>
  </div>`;
}
