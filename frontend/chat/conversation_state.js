// One thread as the page holds it: its turns, what streams into them, and what can be done.
import { ApiError, apiPath, get, post } from "../api.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "../view.js";
import { useConnection } from "../connection.js";
import { toast } from "../ui/toast.js";
import { onThreadChanged, threadChanged } from "./changes.js";
import { ask, join } from "./following.js";
import { bodyFor } from "./options.js";
import { beyondGap, spanned, wholeOf, withLater, withNewest } from "./stretches.js";
import { BEGINNING, isOpen, leafBelow, merged, pathTo, placeOf, treeOf } from "./turns.js";

const NOTHING = { thread: null, turns: [], receipts: {}, problems: {}, next: null, gap: null, loading: true, error: null, pending: [] };
/** So many turns at a time: what is above and below is read when it is scrolled to. */
const PAGE = 20;
/** Where the branch that is shown doesn't go on with the next turns, it may do so much later, or never. */
const FAR_PAGE = 200;
/** What a branch goes on from may stand far above it: all up to there is read, at most so many turns at once. */
const FARTHEST = 2000;
/** So much of an answer's length makes its next drawing wait for a millisecond: all of it is read again each time. */
const LETTERS_A_MS = 100;
let lastPlace = 0;
const TIME_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/**
 * `isNew`: the thread isn't there yet; its first message opens it.
 * Gives what is shown (`path` of turns, `tree`, `receipts`, `pending`: messages on their way, in their order) and what can be done.
 */
export function useConversation(threadId, user, isNew, focusTurn) {
  const [state, setState] = useState({ ...NOTHING, loading: !isNew });
  const [leaf, setLeaf] = useState(focusTurn ?? null);
  const here = useRef(state);
  here.current = state;
  const change = useCallback((make) => setState((before) => ({ ...before, ...make(before) })), []);
  const stopping = useMemo(() => new AbortController(), []);
  const following = useRef(new Set());
  const treeHere = useRef(null);
  const line = useRef(new Set());
  const unsent = useRef([]);
  useEffect(() => () => stopping.abort(), []);

  const follow = useCallback(async (source, { onMeta, onResumed } = {}) => {
    const live = new LiveText(change);
    const followed = new Set();
    try {
      for await (const { event, data } of source) {
        if (event === "meta") {
          following.current.add(data.assistant_turn.turn_id);
          followed.add(data.assistant_turn.turn_id);
          live.begin(data);
          onMeta?.(data);
        } else if (event === "delta" || event === "reasoning") {
          live.add(event, data.text);
        } else if (event === "resumed") {
          onResumed(data.parent);
        } else {
          live.end(data, event === "error" ? data.error : null);
        }
      }
    } finally {
      live.stop();
      for (const turnId of followed) following.current.delete(turnId);
    }
  }, []);

  /** Follows every answer that is under way and that nobody here follows yet, one after another. */
  const followOpen = useCallback(async () => {
    for (;;) {
      const open = here.current.turns.find((turn) => turn.role === "assistant" && isOpen(turn) && !following.current.has(turn.turn_id));
      if (!open) return;
      following.current.add(open.turn_id);
      await follow(join(threadId, open.turn_id, user, stopping.signal));
      await nextDraw();
    }
  }, [threadId, user]);

  /** `again`: all that is shown, since some of it may be gone. */
  const read = useCallback(async ({ again = false } = {}) => {
    const first = !here.current.turns.length;
    const { newest: most, around } = again ? wholeOf(here.current, PAGE) : { newest: PAGE, around: first && focusTurn ? { turnId: focusTurn, most: PAGE } : null };
    try {
      const [thread, newest, stretch] = await Promise.all([
        get(apiPath("threads", threadId), { user_id: user }, { signal: stopping.signal }),
        readNewest(threadId, user, most, stopping.signal),
        around && readStretch(threadId, user, { around: around.turnId, max_turns: around.most }, stopping.signal).catch(noneAtAll),
      ]);
      const isFollowed = (turn) => following.current.has(turn.turn_id);
      const isThere = stretch?.turns.length && newest.turns.length && (again || stretch.turns.some((turn) => turn.turn_id === focusTurn));
      const whole = isThere ? spanned(stretch, newest) : { ...newest, gap: null };
      change((before) => {
        const streaming = before.turns.filter(isFollowed);
        const read = again || !before.turns.length ? { ...whole, receipts: { ...before.receipts, ...whole.receipts } } : withNewest(before, newest);
        // What streams here is newer than what was read.
        return { ...read, thread, turns: merged(read.turns, streaming), loading: false, error: null };
      });
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
    const returned = () => document.visibilityState === "visible" && here.current.turns.length && read({ again: true });
    document.addEventListener("visibilitychange", returned);
    const silence = onThreadChanged(({ threadId: changed, forgotten: again }) => changed === threadId && here.current.turns.length && read({ again }));
    return () => {
      document.removeEventListener("visibilitychange", returned);
      silence();
    };
  }, [threadId, user]);

  useConnection(useCallback((gone) => !gone && (here.current.turns.length || here.current.error) && read({ again: true }), [read]));

  const reading = useRef(false);
  /** `load` tells how what it read changes what is here, as long as that is what it was. */
  const readMore = useCallback(async (load) => {
    if (reading.current) return;
    reading.current = true;
    try {
      change(await load());
    } catch (error) {
      if (!stopping.signal.aborted) change(() => ({ error }));
    } finally {
      reading.current = false;
    }
  }, []);
  const cancel = ({ turn_id: answer }) => post(apiPath("threads", threadId, "cancel"), { user_id: user, turn_id: answer });
  /** Stops the answer that streams, and no other; a message that no server took is called back. */
  const stop = useCallback(async () => {
    const open = here.current.turns.find((turn) => turn.role === "assistant" && isOpen(turn));
    if (open) await cancel(open);
    else unsent.current.at(-1)?.abort();
  }, [threadId, user]);
  /** `content` (with what else it holds, as `parts`), or none for another answer to `parent`. Raises what kept it from being taken. */
  const send = useCallback(async ({ content, parts, parent }) => {
    const last = here.current.turns.at(-1)?.turn_id;
    const body = { user_id: user, ...(parts ? { parts } : { content }), time_zone: TIME_ZONE };
    if (parent !== undefined && (parent !== last || content === undefined)) body.parent_id = parent;
    const waiting = { place: (lastPlace += 1), content: content ?? null, parts };
    const others = (pending) => pending.filter(({ place }) => place !== waiting.place);
    change(({ pending }) => ({ pending: [...pending, waiting] }));
    setLeaf(parent === undefined ? null : parent);
    let taken = false;
    const calling = new AbortController();
    unsent.current.push(calling);
    const over = () => {
      unsent.current = unsent.current.filter((each) => each !== calling);
      change(({ pending }) => ({ pending: others(pending) }));
    };
    const leaving = AbortSignal.any([stopping.signal, calling.signal]);
    const onMeta = ({ assistant_turn: answer }) => {
      taken = true;
      if (calling.signal.aborted) cancel(answer).catch(toast);
      over();
      setLeaf(null);
      threadChanged(threadId);
    };
    const onResumed = (said) => {
      change(({ pending }) => ({ pending: [{ ...waiting, content: null, parts: undefined }, ...others(pending)] }));
      setLeaf(said);
    };
    try {
      await follow(ask(threadId, { ...(await bodyFor(threadId, user)), ...body }, stopping.signal, leaving, line.current, (answer) => treeHere.current.children.has(answer)), { onMeta, onResumed });
      threadChanged(threadId);
    } catch (error) {
      over();
      if (leaving.aborted && taken) return;
      if (!taken) setLeaf(null);
      throw error instanceof ApiError ? error : new ApiError(0, { message: error.message });
    }
  }, [threadId, user]);


  const { gap } = state;
  const tree = useMemo(() => treeOf(state.turns, state.next === null, gap), [state.turns, state.next, gap]);
  treeHere.current = tree;
  const end = endOf(state, tree, leaf);
  const readLater = useCallback(() => readMore(async () => {
    const most = end === gap.after ? PAGE : FAR_PAGE;
    const page = await readStretch(threadId, user, { after: gap.after, max_turns: most }, stopping.signal);
    // What is shown goes on: it doesn't turn into a newer branch while it is read.
    setLeaf(end);
    return (before) => (before.gap?.after === gap.after ? withLater(before, page) : before);
  }), [threadId, user, gap, end]);
  const path = useMemo(() => pathTo(state.turns, tree, end), [state.turns, tree, end]);
  const above = path.length ? tree.parents.get(path[0].turn_id) : null;
  const readEarlier = useCallback(() => readMore(async () => {
    const most = above === null ? PAGE : upTo(above, state.next);
    const page = await readNewest(threadId, user, most, stopping.signal, state.next);
    return (before) => (before.next !== state.next ? before : {
      turns: merged(page.turns, before.turns),
      receipts: { ...page.receipts, ...before.receipts },
      next: page.next,
    });
  }), [threadId, user, state.next, above]);
  return {
    ...state,
    tree,
    path,
    end,
    busy: state.pending.length > 0 || state.turns.some((turn) => turn.role === "assistant" && isOpen(turn)),
    send,
    stop,
    read,
    readEarlier,
    /** Whether turns that are not here yet may follow those that are shown. */
    later: gap !== null && placeOf(end) <= placeOf(gap.after),
    readLater,
    toNewest: () => change(beyondGap),
    show: setLeaf,
    setThread: (thread) => change(() => ({ thread })),
  };
}

/** Where the branch ends that is shown: below the chosen turn, or with the newest where that is not here (yet, or any more). */
function endOf({ turns, gap, pending }, tree, chosen) {
  if (chosen === BEGINNING || (chosen !== null && pending.length)) return chosen;
  if (chosen !== null && tree.parents.has(chosen)) return leafBelow(tree, chosen);
  if (chosen !== null && gap) return leafBelow(tree, gap.after); // Forgotten: what stood around it stays in sight.
  return turns.at(-1)?.turn_id ?? BEGINNING;
}

/** How many turns to read before `first`, so that `wanted` is among them, with some before it: all that it branched into stands in between. */
function upTo(wanted, first) {
  const distance = placeOf(first) - placeOf(wanted);
  return Math.max(PAGE, Math.min(distance + PAGE / 2, FARTHEST));
}

async function readNewest(threadId, user, most, signal, before = null) {
  const page = await readStretch(threadId, user, { max_turns: most, before }, signal);
  return { ...page, next: page.turns.length < most ? null : page.turns[0].turn_id };
}

async function readStretch(threadId, user, place, signal) {
  const query = { user_id: user, receipts: true, ...place };
  const { turns, receipts, next = null, newer = null } = await get(apiPath("threads", threadId, "turns"), query, { signal });
  return { turns, receipts, next, newer };
}

/** An address that names no turn. */
function noneAtAll(error) {
  if (error.field !== "around") throw error;
  return null;
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
