// What of a thread is not remembered yet: how much, until when, and a way to have it remembered now.
import { apiPath, post } from "../api.js";
import { go } from "../router.js";
import { toast } from "../ui/toast.js";
import { count, fullTime, shortTime } from "../ui/times.js";
import { html, useEffect, useState } from "../view.js";

/** The server looks every second. */
const AFTER_MS = 3_000;
const FLUSH_SECONDS = 30;

/** `onChange` is called when what waits may have changed, `onDone` when the button goes that somebody is at. */
export function Waiting({ threadId, user, waiting, onChange, onDone }) {
  const [busy, setBusy] = useState(false);
  const until = waiting?.until ?? null;
  useEffect(() => {
    if (until === null) return undefined;
    const timer = setTimeout(onChange, Math.max(0, until - Date.now()) + AFTER_MS);
    return () => clearTimeout(timer);
  }, [until, threadId]);
  if (!waiting) return null;
  const rememberNow = async ({ currentTarget: button }) => {
    setBusy(true);
    try {
      const flushed = await post(apiPath("memory", "flush"), { session_id: threadId, user_id: user, timeout: FLUSH_SECONDS });
      if (flushed.status === "failed") toast(flushed.error, { kind: "danger" });
      else tell(flushed);
    } catch (error) {
      toast(error);
    }
    setBusy(false);
    await onChange();
    // Whoever was at the button, which may have gone while it waited, is nowhere now.
    if (!button.isConnected && document.activeElement === document.body) onDone();
  };
  const messages = waiting.messages === 1 ? "1 message waits" : `${count(waiting.messages)} messages wait`;
  return html`<p class="muted waiting">
    <span>${messages} to be remembered, until <time title=${fullTime(until)} datetime=${new Date(until).toISOString()}>${shortTime(until)}</time> at the latest.</span>
    <button class="small" aria-disabled=${busy} onClick=${busy ? undefined : rememberNow}>${busy ? "Remembering…" : "Remember now"}</button>
  </p>`;
}

function tell({ status, memcells }) {
  if (status === "pending") return toast("It is being remembered; that takes a while.");
  const isKept = memcells.some(({ strategies }) => strategies.some(({ state }) => state === "extracted"));
  return isKept ? toast("Remembered.", { action: "Show memories", onAction: () => go("memory") }) : toast("There was nothing worth remembering.");
}
