// What happens in one tab, told to the others of this browser.
const channel = "BroadcastChannel" in window ? new BroadcastChannel("recollect") : null;
const listeners = new Set();
channel?.addEventListener("message", (event) => tell(event.data));

/** A thread was written to, renamed, pinned or deleted. Other tabs hear of it, and the rest of this one. `forgotten`: turns of it are gone. */
export function threadChanged(threadId, { forgotten = false } = {}) {
  const change = { threadId, forgotten };
  channel?.postMessage(change);
  tell(change);
}

/** Returns the way to stop listening. */
export function onThreadChanged(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(change) {
  for (const listener of listeners) listener(change);
}
