// Following an answer as it streams, through lost connections, up to its end.
import { ApiError, apiPath, events } from "../api.js";

const RETRIES = 6;
/** Before anything came: more would keep somebody waiting for a server that is not there. */
const FIRST_RETRIES = 2;
const FIRST_PAUSE_MS = 400;

/**
 * Sends a message; yields the events of its answer. Whoever leaves (`signal`) before the server took the message
 * doesn't call it back: it would be lost.
 */
export async function* ask(threadId, body, signal) {
  const calling = new AbortController();
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const sent = { method: "POST", body: { ...body, stream: true }, headers: { "Idempotency-Key": key }, signal: calling.signal };
  const path = apiPath("threads", threadId, "messages");
  for await (const event of untilItEnds(() => events(path, sent), threadId, body.user_id, calling.signal)) {
    if (event.event === "meta") signal.addEventListener("abort", () => calling.abort());
    yield event;
    if (signal.aborted) return;
  }
}

/** Joins an answer that somebody asked for: another tab, or this page before it was reloaded. */
export function join(threadId, turnId, user, signal) {
  return untilItEnds(() => joined(threadId, { user_id: user, turn_id: turnId }, signal), threadId, user, signal);
}

const joined = (threadId, query, signal) => events(apiPath("threads", threadId, "stream"), { query, signal });

async function* untilItEnds(begin, threadId, user, signal) {
  let seen = null;
  let source = begin();
  for (let retries = 0; ; retries++) {
    try {
      for await (const event of source) {
        seen = event.id ?? seen;
        retries = 0;
        yield event;
        if (event.event === "done" || event.event === "error") return;
      }
    } catch (error) {
      if (signal.aborted || !isLostConnection(error)) throw error;
      if (seen === null && retries >= FIRST_RETRIES) throw error;
    }
    if (retries >= RETRIES) throw new ApiError(0, { code: "unreachable", message: "The connection was lost. The answer goes on at the server; reload to see it." });
    await pause(FIRST_PAUSE_MS * 2 ** retries, signal);
    // Begun again where nothing came: under its key a message is taken once.
    source = seen === null ? begin() : joined(threadId, { user_id: user, after: seen }, signal);
  }
}

const isLostConnection = (error) => !(error instanceof ApiError) || error.code === "unreachable";

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
