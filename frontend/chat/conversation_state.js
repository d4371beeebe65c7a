// One thread as the page holds it: its turns, what streams into them, and what can be done.
import { ApiError, apiPath, get, post } from "../api.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "../view.js";
import { onThreadChanged, threadChanged } from "./changes.js";
import { ask, join } from "./following.js";
import { BEGINNING, isOpen, leafBelow, merged, pathTo, placeOf, treeOf } from "./turns.js";

const NOTHING = { thread: null, turns: [], receipts: {}, problems: {}, next: null, loading: true, error: null, pending: null };
/** So many turns at a time: what is above is read when it is scrolled to. */
const PAGE = 20;
/** So much of an answer's length makes its next drawing wait for a millisecond: all of it is read anew each time. */
const LETTERS_A_MS = 100;
const TIME_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/**
 * `isNew`: the thread isn't there yet; its first message opens it.
 * Gives what is shown (`path` of turns, `tree`, `receipts`, `pending`: words on their way) and what can be done.
 */
export function useConversation(threadId, user, isNew, focusTurn) {
  const [state, setState] = useState({ ...NOTHING, loading: !isNew });
  const [leaf, setLeaf] = useState(focusTurn ?? null);
  const turns = useRef([]);
  turns.current = state.turns;
  const change = useCallback((make) => setState((before) => ({ ...before, ...make(before) })), []);
  const stopping = useMemo(() => new AbortController(), []);
  const following = useRef(new Set());
  useEffect(() => () => stopping.abort(), []);

  const follow = useCallback(async (source, { onMeta } = {}) => {
    const live = new LiveText(change);
    try {
      for await (const { event, data } of source) {
        if (event === "meta") {
          following.current.add(data.assistant_turn.turn_id);
          live.begin(data);
          onMeta?.(data);
        } else if (event === "delta" || event === "reasoning") {
          live.add(event, data.text);
        } else {
          live.end(data, event === "error" ? data.error.message : null);
        }
      }
    } finally {
      live.stop();
      following.current.delete(live.turnId);
    }
  }, []);

  /** Follows every answer that is under way and that nobody here follows yet, one after another. */
  const followOpen = useCallback(async () => {
    for (;;) {
      const open = turns.current.find((turn) => turn.role === "assistant" && isOpen(turn) && !following.current.has(turn.turn_id));
      if (!open) return;
      following.current.add(open.turn_id);
      await follow(join(threadId, open.turn_id, user, stopping.signal));
      await nextDraw();
    }
  }, [threadId, user]);

  /** `anew`: all that is shown, since some of it may be gone. */
  const read = useCallback(async ({ anew = false } = {}) => {
    try {
      const [thread, page] = await Promise.all([
        get(apiPath("threads", threadId), { user_id: user }, { signal: stopping.signal }),
        readTurns(threadId, user, null, stopping.signal, anew ? Math.max(PAGE, turns.current.length) : PAGE),
      ]);
      const isFollowed = (turn) => following.current.has(turn.turn_id);
      change((before) => ({
        thread,
        // What streams here is newer than what was read.
        turns: merged(anew ? before.turns.filter(isFollowed) : before.turns, page.turns.filter((turn) => !isFollowed(turn))),
        receipts: { ...before.receipts, ...page.receipts },
        next: before.turns.length && !anew ? before.next : page.next,
        loading: false,
        error: null,
      }));
      await nextDraw();
      await followOpen();
    } catch (error) {
      if (stopping.signal.aborted) return;
      // Deleted meanwhile: nothing of it stays in sight.
      change(() => (error.status === 404 ? { ...NOTHING, error, loading: false } : { error, loading: false }));
    }
  }, [threadId, user]);

  useEffect(() => {
    if (!isNew) read();
    const returned = () => document.visibilityState === "visible" && turns.current.length && read({ anew: true });
    document.addEventListener("visibilitychange", returned);
    const silence = onThreadChanged(({ threadId: changed, forgotten: anew }) => changed === threadId && turns.current.length && read({ anew }));
    return () => {
      document.removeEventListener("visibilitychange", returned);
      silence();
    };
  }, [threadId, user]);

  const reading = useRef(false);
  /** A page of them, or as many as it takes to reach a turn. */
  const readEarlier = useCallback(async (reach) => {
    if (state.next === null || reading.current) return;
    reading.current = true;
    try {
      const most = reach === undefined ? PAGE : Math.max(PAGE, placeOf(state.next) - placeOf(reach) + PAGE / 2 || 0);
      const page = await readTurns(threadId, user, state.next, stopping.signal, most);
      change((before) => ({
        turns: merged(page.turns, before.turns),
        receipts: { ...page.receipts, ...before.receipts },
        next: page.next,
      }));
    } catch (error) {
      if (!stopping.signal.aborted) change(() => ({ error }));
    } finally {
      reading.current = false;
    }
  }, [threadId, user, state.next]);

  /** `content` (with what else it holds, as `parts`), or none for another answer to `parent`. Raises what kept it from being taken. */
  const send = useCallback(async ({ content, parts, parent }) => {
    const last = turns.current.at(-1)?.turn_id;
    const body = { user_id: user, ...(parts ? { parts } : { content }), time_zone: TIME_ZONE };
    if (parent !== undefined && (parent !== last || content === undefined)) body.parent_id = parent;
    change(() => ({ pending: { content: content ?? null, parent: parent ?? null } }));
    setLeaf(parent === undefined ? null : parent);
    let taken = false;
    const onMeta = () => {
      taken = true;
      change(() => ({ pending: null }));
      setLeaf(null);
      threadChanged(threadId);
    };
    try {
      await follow(ask(threadId, body, stopping.signal), { onMeta });
      threadChanged(threadId);
    } catch (error) {
      if (stopping.signal.aborted) return;
      change(() => ({ pending: null }));
      if (!taken) setLeaf(null);
      throw error instanceof ApiError ? error : new ApiError(0, { message: error.message });
    }
  }, [threadId, user]);

  const stop = useCallback(() => post(apiPath("threads", threadId, "cancel"), { user_id: user, all: true }), [threadId, user]);

  const tree = useMemo(() => treeOf(state.turns, state.next === null), [state.turns, state.next]);
  const end = endOf(state, tree, leaf);
  const path = useMemo(() => pathTo(state.turns, tree, end), [state.turns, tree, end]);
  return {
    ...state,
    tree,
    path,
    end,
    busy: state.pending !== null || state.turns.some((turn) => turn.role === "assistant" && isOpen(turn)),
    send,
    stop,
    read,
    readEarlier,
    show: setLeaf,
    setThread: (thread) => change(() => ({ thread })),
  };
}

/** Where the branch ends that is shown: below the chosen turn, or with the newest where that is not here (yet, or any more). */
function endOf({ turns, pending }, tree, chosen) {
  if (chosen === BEGINNING || (chosen !== null && pending)) return chosen;
  if (chosen !== null && tree.parents.has(chosen)) return leafBelow(tree, chosen);
  return turns.at(-1)?.turn_id ?? BEGINNING;
}

async function readTurns(threadId, user, before, signal, most = PAGE) {
  const query = { user_id: user, receipts: true, max_turns: most, before };
  const { turns, receipts } = await get(apiPath("threads", threadId, "turns"), query, { signal });
  return { turns, receipts, next: turns.length < most ? null : turns[0].turn_id };
}

/** An answer that grows: drawn once a frame at most, however many pieces come, and the longer it is the more seldom. */
class LiveText {
  constructor(change) {
    this.change = change;
    this.turnId = null;
    this.timer = null;
    this.frame = null;
  }

  begin({ user_turn: said, assistant_turn: answer }) {
    if (this.turnId === answer.turn_id) return; // Joined again after a lost connection: what came stays.
    this.turnId = answer.turn_id;
    this.turn = { ...answer, status: isOpen(answer) ? "streaming" : answer.status };
    this.texts = { delta: "", reasoning: "" };
    this.change((before) => ({ turns: merged(before.turns, [...(said ? [said] : []), this.turn]) }));
  }

  add(kind, text) {
    this.texts[kind] += text;
    this.timer ??= setTimeout(() => {
      this.frame = requestAnimationFrame(() => this.draw());
    }, this.texts.delta.length / LETTERS_A_MS);
  }

  draw() {
    this.timer = this.frame = null;
    this.turn = { ...this.turn, content: this.texts.delta, reasoning: this.texts.reasoning || null };
    this.change((before) => ({ turns: merged(before.turns, [this.turn]) }));
  }

  end({ user_turn: said, assistant_turn: answer, receipt }, problem) {
    this.stop();
    this.change((before) => ({
      turns: merged(before.turns, [...(said ? [said] : []), answer]),
      receipts: receipt ? { ...before.receipts, [answer.turn_id]: receipt } : before.receipts,
      problems: problem ? { ...before.problems, [answer.turn_id]: problem } : before.problems,
    }));
  }

  stop() {
    clearTimeout(this.timer);
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.timer = this.frame = null;
  }
}

/** State that was set is in place after it. A page in the background draws nothing, so it is a timer. */
const nextDraw = () => new Promise((resolve) => setTimeout(resolve, 30));
