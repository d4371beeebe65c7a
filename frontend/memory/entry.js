// One memory: what it says, the words it came from, what it replaced, and how it came to be as it is.
import { apiPath, get, patch, post } from "../api.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { Markdown } from "../ui/markdown.js";
import { useLoaded } from "../ui/pages.js";
import { Loading, Problem } from "../ui/states.js";
import { fullTime, shortDay } from "../ui/times.js";
import { toast } from "../ui/toast.js";
import { html, useState } from "../view.js";
import { EntryForm } from "./entry_form.js";
import { ForgetDialog } from "./forget.js";
import { History } from "./history.js";
import { handName, kindName } from "./kinds.js";

const RELATIONS = { supersedes: "Took the place of", superseded_by: "Superseded by", made_of: "Made of" };

export function EntryPage({ id, section, onChanged, onForgotten }) {
  const { user } = useSession();
  const entry = useLoaded((signal) => get(apiPath("memory", "entries", id), { user_id: user }, { signal }), [user, id]);
  const [doing, setDoing] = useState(null);
  if (entry.error) return html`<${Problem} error=${entry.error} onRetry=${entry.reload} />`;
  if (!entry.value) return html`<${Loading} />`;

  const put = (changed) => {
    entry.setValue(changed);
    onChanged(changed);
  };
  const change = async (changes) => put(await patch(apiPath("memory", "entries", id), { user_id: user, revision: entry.value.revision, ...changes }));
  const pin = async () => {
    try {
      await change({ pinned: !entry.value.pinned });
    } catch (error) {
      toast(error);
      if (error.code === "conflict") entry.reload();
    }
  };
  const undo = async (revision) => {
    try {
      put(await post(apiPath("memory", "entries", id, "undo"), { user_id: user, revision }));
      toast("Undone");
    } catch (error) {
      toast(error);
    }
  };
  const { title, text, quotes, linked } = entry.value;
  return html`<article class="entry" aria-label=${title}>
    <${Marks} entry=${entry.value} />
    ${doing === "edit"
      ? html`<${EntryForm} entry=${entry.value} onSave=${change} onReload=${entry.reload} onClose=${() => setDoing(null)} />`
      : html`<h2>${title}</h2>
          ${text !== title && html`<div class="entry-text"><${Markdown} text=${text} /></div>`}
          <div class="entry-actions" role="group" aria-label="What to do with it">
            <button onClick=${() => setDoing("edit")}><${Icon} name="edit" />Edit</button>
            <button aria-pressed=${entry.value.pinned} onClick=${pin}><${Icon} name="pin" />${entry.value.pinned ? "Unpin" : "Pin"}</button>
            ${entry.value.revision > 1 && html`<button onClick=${() => undo()}><${Icon} name="undo" />Undo</button>`}
            <button class="danger-text" onClick=${() => setDoing("forget")}><${Icon} name="trash" />Forget</button>
          </div>`}
    ${doing === "forget" && html`<${ForgetDialog} entry=${entry.value} onForgotten=${onForgotten} onClose=${() => setDoing(null)} />`}
    <${Quotes} quotes=${quotes} />
    <${Linked} linked=${linked} section=${section} />
    <${History} id=${id} revision=${entry.value.revision} onBack=${undo} />
    <${Details} entry=${entry.value} />
  </article>`;
}

function Marks({ entry }) {
  return html`<p class="row-head">
    <span class="chip good">${kindName(entry.kind)}</span>
    ${entry.pinned && html`<span class="chip">pinned</span>`}
    ${entry.edited && html`<span class="chip">${handName(entry)}${entry.revision > 1 ? " by a person" : ""}</span>`}
    ${entry.until !== null && html`<span class="chip warning">${entry.until > Date.now() ? "holds" : "held"} until ${shortDay(entry.until)}</span>`}
    <time class="row-time" datetime=${new Date(entry.when).toISOString()}>${fullTime(entry.when)}</time>
  </p>`;
}

function Quotes({ quotes }) {
  if (!quotes.length) return html`<section><h3>Where it came from</h3><p class="muted">No message: it was made of other memories, or written by hand.</p></section>`;
  return html`<section aria-label="Where it came from">
    <h3>Where it came from</h3>
    <ul class="plain-list quotes">
      ${quotes.map((quote) => html`<li key=${`${quote.thread_id} ${quote.turn_id}`}><${Quote} quote=${quote} /></li>`)}
    </ul>
  </section>`;
}

function Quote({ quote }) {
  if (quote.forgotten) return html`<p class="muted">A message that was forgotten.</p>`;
  return html`<figure class="quote">
    <blockquote class="verbatim">${quote.content}</blockquote>
    <figcaption>
      <span>${quote.sender_id}, ${shortDay(quote.timestamp)}</span>
      <a href=${href("chat", [quote.thread_id, quote.turn_id])}>Show in its conversation</a>
    </figcaption>
  </figure>`;
}

function Linked({ linked, section }) {
  if (!linked.length) return null;
  return html`<section aria-label="Related memories">
    <h3>Related memories</h3>
    <ul class="plain-list">
      ${linked.map(
        (other) => html`<li key=${`${other.relation} ${other.id}`}>
          <span class="muted">${RELATIONS[other.relation]} </span>
          <a href=${href("memory", [section, other.id])}>${other.title}</a>
        </li>`,
      )}
    </ul>
  </section>`;
}

function Details({ entry }) {
  const rows = [
    ["Made by", entry.by],
    ...Object.entries(entry.properties),
    ["Owner", entry.owner],
    ["File in the vault", entry.path],
    ["Memcell", entry.memcell],
    ["Id", entry.id],
  ].filter(([, value]) => value);
  return html`<details>
    <summary>Details</summary>
    <dl class="details">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
  </details>`;
}
