// Following an answer as it streams, through lost connections and restarts of the server, up to its end.
import { ApiError, apiPath, events } from "../api.js";
import { serverBack } from "../connection.js";

/** While the server answers and the connection breaks off all the same. */
const RETRIES = 6;
/** Before anything came: more would keep somebody waiting for what is never taken. */
const FIRST_RETRIES = 2;
const FIRST_PAUSE_MS = 400;
/** An answer that is asked for again each time may be what brings the server down. */
const MOST_RESUMED = 2;

/**
 * Sends a message; yields the events of its answer. Where the server stopped in mid-answer, the message is answered
 * again when it is back. Whoever leaves (`signal`) before the server took the message doesn't call it back: it would
 * be lost. Only one that no server is there for is called back, by `leaving`.
 */
export async function* ask(threadId, body, signal, leaving) {
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  let wanted = body;
  for (let resumed = 0; ; resumed++) {
    let last = null;
    for await (const event of asked(threadId, wanted, resumed ? `${key}-${resumed}` : key, signal, leaving)) {
      last = event;
      yield event;
      if (signal.aborted) return;
    }
    const parent = last.data.user_turn?.turn_id ?? wanted.parent_id;
    if (!wasCutShort(last) || resumed === MOST_RESUMED || !parent) return;
    const { content: _, parts: __, ...rest } = body;
    wanted = { ...rest, parent_id: parent };
    yield { event: "resumed", data: { parent } };
  }
}

/** By the end of the server, and not by somebody or by the model. */
function wasCutShort({ event, data, wasLost }) {
  if (event !== "done" || !["failed", "partial"].includes(data.assistant_turn.status)) return false;
  return data.receipt.code === "server_stopped" || (wasLost && !data.receipt.error);
}

async function* asked(threadId, body, key, signal, leaving) {
  const calling = new AbortController();
  const sent = { method: "POST", body: { ...body, stream: true }, headers: { "Idempotency-Key": key }, signal: calling.signal };
  const path = apiPath("threads", threadId, "messages");
  for await (const event of untilItEnds(() => events(path, sent), threadId, body.user_id, calling.signal, leaving)) {
    if (event.event === "meta") signal.addEventListener("abort", () => calling.abort());
    yield event;
  }
}

/** Joins an answer that somebody asked for: another tab, or this page before it was reloaded. */
export function join(threadId, turnId, user, signal) {
  return untilItEnds(() => joined(threadId, { user_id: user, turn_id: turnId }, signal), threadId, user, signal);
}

const joined = (threadId, query, signal) => events(apiPath("threads", threadId, "stream"), { query, signal });

/** `leaving`: ends the wait for a server that is not there. */
async function* untilItEnds(begin, threadId, user, signal, leaving = signal) {
  let seen = null;
  let wasLost = false;
  let source = begin();
  for (let retries = 0; ; retries++) {
    try {
      for await (const event of source) {
        seen = event.id ?? seen;
        retries = 0;
        yield { ...event, wasLost };
        if (event.event === "done" || event.event === "error") return;
      }
    } catch (error) {
      if (signal.aborted || !isLostConnection(error)) throw error;
      if (seen === null && retries >= FIRST_RETRIES) throw error;
    }
    wasLost = true;
    if (retries >= RETRIES) throw new ApiError(0, { code: "unreachable", message: "The connection was lost. The answer goes on at the server; reload to see it." });
    if (!(await serverBack(leaving))) throw new ApiError(0, { code: "unreachable", message: "The server doesn't answer. The message is kept as a draft." });
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
