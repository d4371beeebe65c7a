// For any answer exactly what was sent, block by block, with what changed since the one before.
import { apiPath, get } from "../api.js";
import { threadName } from "../chat/thread_name.js";
import { go, href } from "../router.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { Empty, Loading, Problem } from "../ui/states.js";
import { fullTime, shortTime } from "../ui/times.js";
import { html, useEffect, useState } from "../view.js";
import { SentPrompt } from "./sent_prompt.js";

const THREADS = 50;
const TURNS = 100;
/** So many times as many turns are read where fewer do not hold what is looked for. */
const FARTHER = 4;

export default function Page({ route }) {
  const { user } = useSession();
  const [threadId, turnId] = route.parts;
  const threads = useLoaded((signal) => readThreads(user, threadId, signal), [user, threadId]);
  const newest = threads.value?.[0]?.thread_id;
  useEffect(() => {
    if (threadId === undefined && newest !== undefined) go("prompt", [newest], {}, { replace: true });
  }, [threadId, newest]);

  return html`<div class="prompt-page">
    <header class="page-head">
      <h1>Prompt</h1>
      <p class="muted">Exactly what was sent to the model for an answer, and what changed since the one before.</p>
    </header>
    ${threads.error && html`<${Problem} error=${threads.error} onRetry=${threads.reload} />`}
    ${threads.loading && html`<${Loading} />`}
    ${threads.value?.length === 0 && html`<${Empty} icon="prompt" title="Nothing was sent yet">Say something in <a href=${href("chat")}>Chat</a>: what the model got to read is shown here.<//>`}
    ${threadId !== undefined && threads.value?.length > 0 && html`<${OfThread} key=${threadId} threads=${threads.value} threadId=${threadId} turnId=${turnId} />`}
  </div>`;
}

/** The last used, with the one that is shown among them. */
async function readThreads(user, threadId, signal) {
  const { threads } = await get(apiPath("threads"), { user_id: user, order: "recent", limit: THREADS }, { signal });
  if (threadId === undefined || threads.some((thread) => thread.thread_id === threadId)) return threads;
  return [await get(apiPath("threads", threadId), { user_id: user }, { signal }), ...threads];
}

function OfThread({ threads, threadId, turnId }) {
  const { user } = useSession();
  const [most, setMost] = useState(TURNS);
  const { value: answers, error, loading, reload } = useLoaded((signal) => readAnswers(threadId, user, most, signal), [threadId, user, most]);
  const shown = turnId ?? answers?.sent.at(-1)?.turn_id;
  const at = answers?.sent.findIndex((answer) => answer.turn_id === shown) ?? -1;
  const to = (index) => answers?.sent[index] && href("prompt", [threadId, answers.sent[index].turn_id]);
  return html`<div class="prompt-picker">
      <label class="field">
        <span>Chat</span>
        <select value=${threadId} onChange=${(event) => go("prompt", [event.target.value])}>
          ${threads.map((thread) => html`<option value=${thread.thread_id}>${threadName(thread)}</option>`)}
        </select>
      </label>
      <label class="field">
        <span>Answer</span>
        <select value=${shown} disabled=${loading} onChange=${(event) => go("prompt", [threadId, event.target.value])}>
          ${at < 0 && shown && html`<option value=${shown}>An earlier answer</option>`}
          ${(answers?.sent ?? []).map((answer) => html`<option value=${answer.turn_id}>${shortTime(answer.timestamp)} · ${answer.content.slice(0, 60)}</option>`)}
        </select>
      </label>
      <div class="row" role="group" aria-label="Answers">
        <${Step} to=${to(at - 1)} label="Answer before" icon="left" />
        <${Step} to=${to(at + 1)} label="Answer after" icon="right" />
        ${answers?.more && html`<button class="quiet" onClick=${() => setMost(answers.most * FARTHER)}>Earlier answers</button>`}
        <a class="button quiet" href=${href("chat", shown ? [threadId, shown] : [threadId])}><${Icon} name="chat" />In the chat</a>
      </div>
    </div>
    ${error && html`<${Problem} error=${error} onRetry=${reload} />`}
    ${!loading && !error && !shown && html`<${Empty} icon="prompt" title="Nothing was sent in this chat">Its messages were taken in without an answer, or it is incognito.<//>`}
    ${shown && html`<${OfAnswer} key=${shown} threadId=${threadId} turnId=${shown} />`}`;
}

function Step({ to, label, icon }) {
  if (!to) return html`<button class="icon-only" disabled aria-label=${label}><${Icon} name=${icon} /></button>`;
  return html`<a class="button icon-only" href=${to} aria-label=${label} title=${label}><${Icon} name=${icon} /></a>`;
}

/** The answers for which something was sent, oldest first: those among the last turns, or among more where those hold none. */
async function readAnswers(threadId, user, most, signal) {
  const query = { user_id: user, receipts: true, max_turns: most };
  const { turns, receipts } = await get(apiPath("threads", threadId, "turns"), query, { signal });
  const sent = turns.filter((turn) => turn.turn_id in receipts);
  const more = turns.length === most;
  return sent.length || !more ? { sent, more, most } : readAnswers(threadId, user, most * FARTHER, signal);
}

function OfAnswer({ threadId, turnId }) {
  const { user } = useSession();
  const { value, error, loading, reload } = useLoaded((signal) => readPrompts(threadId, turnId, user, signal), [threadId, turnId, user]);
  if (loading) return html`<${Loading} />`;
  if (error) return html`<${Problem} error=${error} onRetry=${reload} />`;
  return html`<p class="muted small-text">Sent ${fullTime(value.prompt.sent)}</p><${SentPrompt} prompt=${value.prompt} earlier=${value.earlier} />`;
}

const NEAR = 40;

/** The prompt, and the one that the thread sent before it. */
async function readPrompts(threadId, turnId, user, signal) {
  const promptOf = (turn) => get(apiPath("threads", threadId, "turns", turn, "prompt"), { user_id: user }, { signal });
  const prompt = await promptOf(turnId);
  const before = await answerBefore(threadId, prompt.turn_id, user, signal);
  return { prompt, earlier: before && (await promptOf(before)) };
}

/** The last answer before a turn for which something was sent; null where there is none. Many turns may be in between that were only taken in. */
async function answerBefore(threadId, turnId, user, signal) {
  let before = turnId;
  for (let most = NEAR; ; most *= FARTHER) {
    const query = { user_id: user, receipts: true, max_turns: most, before };
    const { turns, receipts } = await get(apiPath("threads", threadId, "turns"), query, { signal });
    const found = turns.findLast((turn) => turn.turn_id in receipts);
    if (found || turns.length < most) return found?.turn_id ?? null;
    before = turns[0].turn_id;
  }
}
