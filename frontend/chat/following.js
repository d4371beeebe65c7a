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
 *
 * `line`: the messages of this chat that are on their way, in their order; those that come after one that lost the
 * server wait for its end. An answer that something follows (`isFollowed`) isn't asked for again: what was said after
 * it would be on another branch.
 */
export async function* ask(threadId, body, signal, leaving, line, isFollowed) {
  const place = new Place(line);
  try {
    yield* askedUntilAnswered(threadId, body, signal, leaving, place, isFollowed);
  } finally {
    place.leave();
  }
}

/** Of a message among those on their way. */
class Place {
  isLost = false;

  constructor(line) {
    this.before = [...line];
    line.add(this);
    this.over = new Promise((resolve) => (this.leave = () => resolve(line.delete(this))));
    this.over.then(() => (this.isLost = false));
  }

  /** Until no message before it looks for the server. */
  async come() {
    for (let first; (first = this.before.find(({ isLost }) => isLost)); ) await first.over;
  }
}

async function* askedUntilAnswered(threadId, body, signal, leaving, place, isFollowed) {
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  let wanted = body;
  for (let resumed = 0; ; resumed++) {
    let last = null;
    for await (const event of asked(threadId, wanted, resumed ? `${key}-${resumed}` : key, signal, leaving, place)) {
      last = event;
      if (event.event === "delta") place.isLost = false;
      yield event;
      if (signal.aborted) return;
    }
    const parent = last.data.user_turn?.turn_id ?? wanted.parent_id;
    if (!wasCutShort(last) || resumed === MOST_RESUMED || !parent || isFollowed(last.data.assistant_turn.turn_id)) return;
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

async function* asked(threadId, body, key, signal, leaving, place) {
  const calling = new AbortController();
  const sent = { method: "POST", body: { ...body, stream: true }, headers: { "Idempotency-Key": key }, signal: calling.signal };
  const path = apiPath("threads", threadId, "messages");
  const begin = async function* () {
    await place.come();
    yield* events(path, sent);
  };
  const onLost = () => (place.isLost = true);
  for await (const event of untilItEnds(begin, threadId, body.user_id, calling.signal, leaving, onLost)) {
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
async function* untilItEnds(begin, threadId, user, signal, leaving = signal, onLost = () => {}) {
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
    onLost();
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
