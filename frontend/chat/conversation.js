// One thread: its turns, what streams into them, and where the next message is written.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { useDrop } from "../ui/drop.js";
import { Icon } from "../ui/icons.js";
import { Empty, Loading, Problem } from "../ui/states.js";
import { toast } from "../ui/toast.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../view.js";
import { attach, partsOf } from "./attach.js";
import { threadChanged } from "./changes.js";
import { Composer } from "./composer.js";
import { useConversation } from "./conversation_state.js";
import { dropUnsent, joined, keepDraft, keepUnsent, takeUnsent, useDraft } from "./draft.js";
import { FirstRun } from "./first_run.js";
import { Message } from "./message.js";
import { ChatOptions } from "./options.js";
import { editedParts, hasImages, Parts, wordsOf } from "./parts.js";
import { useScrolling } from "./scrolling.js";
import { ThreadMenu } from "./thread_list.js";
import { threadName } from "./thread_name.js";
import { BEGINNING, isOpen, versionsOf } from "./turns.js";
import { Waiting } from "./waiting.js";

/** For those who hear the page. A message that was not sent is told by its own words. */
const ENDINGS = { complete: "The answer is complete.", partial: "The answer ended before it was complete.", failed: "No answer came." };
const TITLE_WAITS_MS = [1500, 4000, 10_000];

/** `onOpened` is called when the first message of a new thread is on its way, `onUnsent` when that was never taken and is a draft again. */
export function Conversation({ threadId, isNew, focusTurn, isFirst, onOpened, onUnsent, onMenu }) {
  const { user } = useSession();
  const talk = useConversation(threadId, user, isNew, focusTurn);
  const field = useRef(null);
  const [text, setText, images, setImages] = useDraft(user, isNew && !talk.turns.length ? null : threadId);
  useTitle(talk, threadId, user);

  /** Also where it is looked for once somebody has left this chat. */
  const draftAgain = useCallback((message, place) => {
    keepDraft(user, place, message);
    setText((now) => joined([{ text: now, images: [] }, message]).text);
    setImages((now) => [...now, ...message.images]);
  }, [user]);
  const tree = useRef(talk.tree);
  tree.current = talk.tree;
  const send = useCallback(async ({ typed, ...message }) => {
    try {
      await talk.send(message);
      if (typed) dropUnsent(user, threadId, typed);
    } catch (error) {
      if (typed) {
        dropUnsent(user, threadId, typed);
        draftAgain(typed, isNew && !tree.current.parents.size ? null : threadId);
        if (isNew && !tree.current.parents.size) onUnsent(threadId);
      }
      toast(error);
    }
  }, [talk.send]);
  const say = (content) => {
    const typed = { text: content, images };
    setText("");
    setImages([]);
    keepUnsent(user, threadId, typed);
    onOpened();
    // Far above the newest turns: it is said after those.
    if (talk.later) talk.toNewest();
    send({ content, parts: partsOf(content, images), typed, parent: talk.path.length && !talk.later ? talk.end : undefined });
  };
  useEffect(() => {
    const isGone = talk.error?.status === 404;
    if (talk.loading || talk.pending.length || (talk.error && !isGone)) return;
    const lost = takeUnsent(user, threadId).filter(({ text: said }) => !talk.turns.some((turn) => turn.role === "user" && wordsOf(turn) === said));
    if (!lost.length) return;
    toast(lost.length === 1 ? "Your message was not sent. Send it again." : "Your messages were not sent. Send them again.");
    draftAgain(joined(lost), isGone ? null : threadId);
    if (isGone) onUnsent(threadId);
  }, [talk.loading, talk.error]);
  const bring = (files) => attach(files, images, (image) => setImages((now) => [...now, image]));
  const drop = useDrop(bring, "Drop files to send them");
  const actions = useMemo(() => ({
    edit: (turn, content) => send({ content, parts: editedParts(turn, content), parent: tree.current.parents.get(turn.turn_id) ?? BEGINNING }),
    again: (turn) => send({ parent: tree.current.parents.get(turn.turn_id) }),
    show: talk.show,
    forgotten: () => threadChanged(threadId, { forgotten: true }),
  }), [send, talk.show, threadId]);
  const empty = !talk.loading && !talk.error && !talk.turns.length && !talk.pending.length;
  const missing = talk.error?.status === 404 && !talk.turns.length;
  const title = talk.thread ? threadName(talk.thread) : talk.turns.length ? "New chat" : "";
  return html`<section class="conversation" aria-label="Conversation" ...${drop.zone}>
    ${drop.hint}
    <header class="conversation-head">
      <button class="quiet icon-only drawer-button" aria-label="Chats" onClick=${onMenu}><${Icon} name="menu" /></button>
      ${title && html`<h1>${title}</h1>`}
      ${talk.thread?.archived && html`<span class="chip">Archived</span>`}
      ${!missing && html`<${ChatOptions} threadId=${threadId} thread=${talk.thread} user=${user} />`}
      ${talk.thread && html`<${ThreadMenu} thread=${talk.thread} />`}
    </header>
    ${missing && html`<${Missing} />`}
    ${empty && html`<div class="scroller"><${FirstRun} isFirst=${isFirst} onPick=${setText} /></div>`}
    ${!missing && !empty && html`<${Turns} talk=${talk} threadId=${threadId} actions=${actions} focusTurn=${focusTurn} />`}
    ${!missing && html`<div class="composer-place">
      <${Announcement} talk=${talk} />
      ${talk.later && html`<p class="to-newest"><a class="button small" href=${href("chat", [threadId])}>Newest messages</a></p>`}
      <${Composer} field=${field} text=${text} onText=${setText} images=${images} onFiles=${bring} onRemove=${(image) => setImages((now) => now.filter((each) => each !== image))} onSend=${() => say(text.trim())} onStop=${() => talk.stop().catch(toast)} busy=${talk.busy} />
      ${!talk.busy && html`<${Waiting} threadId=${threadId} user=${user} waiting=${talk.thread?.waiting} onChange=${talk.read} onDone=${() => field.current?.focus()} />`}
      <p class="muted composer-note">What was sent to the model for any answer is under <a href=${href("prompt", talk.turns.length ? [threadId] : [])}>Prompt</a>.</p>
    </div>`}
  </section>`;
}

function Missing() {
  return html`<div class="scroller">
    <${Empty} icon="chat" title="This chat is not here">It was deleted, or it belongs to somebody else. <a href=${href("chat")}>Begin a new one</a><//>
  </div>`;
}

/** For those who hear the page: an answer is not read out while it grows. */
function Announcement({ talk: { busy, path } }) {
  const [text, setText] = useState("");
  const was = useRef({ busy: false, answered: null });
  useEffect(() => {
    const last = path.at(-1);
    const answered = last?.role === "assistant" && !isOpen(last) ? last.turn_id : null;
    if (busy) setText("The answer is on its way.");
    else if (was.current.busy) setText(answered !== was.current.answered ? ENDINGS[last?.status] ?? "" : "");
    was.current = { busy, answered };
  }, [busy]);
  return html`<p class="hidden-label" role="status">${text}</p>`;
}

function Turns({ talk, threadId, actions, focusTurn }) {
  const scroller = useScrolling(talk, focusTurn);
  const messages = useMessages(talk, threadId, actions, focusTurn);
  return html`<div class="scroller" ref=${scroller.element} onScroll=${scroller.onScroll} tabindex="0" role="log" aria-label="Messages" aria-live="off">
    <div class="turns">
      ${talk.next !== null && html`<${Loading} label="Earlier messages" />`}
      ${talk.loading && html`<${Loading} />`}
      ${talk.error && html`<${Problem} error=${talk.error} onRetry=${talk.read} />`}
      ${messages}
      ${talk.later && html`<${Loading} key=${`after ${talk.gap.after}`} label="Later messages" />`}
      ${talk.pending.map((message) => html`<${Pending} key=${`pending ${message.place}`} ...${message} />`)}
    </div>
  </div>`;
}

/** Messages that are as they were are handed back as they are: while one grows, the others cost nothing. */
function useMessages({ path, tree, receipts, problems, busy }, threadId, actions, focusTurn) {
  const known = useRef(new Map());
  const drawn = new Map();
  let pictured = false;
  for (const turn of path) {
    pictured ||= hasImages(turn);
    const { turn_id: id } = turn;
    const versions = versionsOf(tree, id);
    const inputs = [turn, receipts[id], problems[id], versions.join(), busy, actions, pictured];
    const before = known.current.get(id);
    const same = before?.inputs.every((input, at) => input === inputs[at]);
    const properties = { turn, threadId, receipt: receipts[id], problem: problems[id], versions, actions, busy, pictured, marked: id === focusTurn };
    drawn.set(id, same ? before : { inputs, node: html`<${Message} key=${id} ...${properties} />` });
  }
  known.current = drawn;
  return Array.from(drawn.values(), ({ node }) => node);
}

/** Words that are on their way to the server. */
function Pending({ content, parts }) {
  return html`${content !== null && html`<article class="message user" aria-label="You, just now"><div class="bubble">${content && html`<p class="verbatim">${content}</p>`}</div><${Parts} parts=${parts} /></article>`}
    <article class="message assistant" aria-label="Assistant"><p class="thinking"><i></i><i></i><i></i></p></article>`;
}

/** A thread gets its title a moment after its first answer: it is looked for a few times. */
function useTitle(talk, threadId, user) {
  const title = talk.thread?.title;
  const wanted = !talk.busy && talk.turns.length > 0 && !title;
  const untitled = useRef(null);
  useEffect(() => {
    if (wanted) untitled.current = threadId;
    if (!title || untitled.current !== threadId) return;
    untitled.current = null;
    threadChanged(threadId);
  }, [wanted, title, threadId]);
  useEffect(() => {
    if (!wanted) return undefined;
    const timers = TITLE_WAITS_MS.map((ms) =>
      setTimeout(async () => {
        const thread = await get(apiPath("threads", threadId), { user_id: user }).catch(() => null); // It may be gone by now.
        if (!thread?.title) return;
        timers.forEach(clearTimeout);
        talk.setThread(thread);
      }, ms),
    );
    return () => timers.forEach(clearTimeout);
  }, [wanted, threadId, user]);
}
