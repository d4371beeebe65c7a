// What a search finds, the best first up to where relevance ends, in which chat, and why each was found.
import { apiPath, post } from "../api.js";
import { threadName } from "../chat/thread_name.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { Empty, Loading, Problem } from "../ui/states.js";
import { fullTime, shortDay } from "../ui/times.js";
import { html, useEffect, useState } from "../view.js";
import { boundsOf } from "./days.js";
import { KINDS, typeName } from "./kinds.js";

const MOST = 50;

/** What the parts of a score are about. */
const PARTS = {
  words: "its words",
  meaning: "its meaning",
  near_words: "words around it",
  near_meaning: "meaning around it",
  date: "the day that is asked about",
  speaker: "who said it",
  asking: "it asks rather than tells",
  time: "it tells when",
  number: "it tells how many",
  user: "said by the person",
  instruction: "a standing instruction",
  preference: "a preference",
  brought: "a memory that came from it",
  turns: "the messages it came from",
  validity: "whether it held then",
  instead: "it holds instead of another",
  inherited: "the question it answers",
};

export function Hits({ q, kind, day, section, query, chosen }) {
  const { user } = useSession();
  const [all, setAll] = useState(false);
  useEffect(() => setAll(false), [q]);
  const found = useLoaded(
    (signal) => {
      const types = kind ? [KINDS[kind].type] : undefined;
      return post(apiPath("memory", "search"), { user_id: user, query: q, types, top_k: MOST, relevant_only: !all, ...boundsOf(day) }, { signal });
    },
    [user, q, kind, day, all],
  );
  if (found.error) return html`<${Problem} error=${found.error} onRetry=${found.reload} />`;
  if (!found.value) return html`<${Loading} label="Searching" />`;
  const { hits, threads, degraded, searched, timing } = found.value;
  const names = new Map(threads.map((thread) => [thread.thread_id, thread.one_shot ? "API" : threadName(thread)]));
  return html`<div class="pane-scroll hits">
    <p class="muted small-text hits-count" role="status">
      ${hits.length === 1 ? "1 hit" : `${hits.length} hits`} among ${searched.texts} texts in ${Math.max(1, Math.round(timing.total_ms))} ms
    </p>
    ${degraded.map((problem) => html`<p class="chip warning wrap">${problem}</p>`)}
    ${hits.length === 0 && html`<${Empty} icon="search" title="Nothing found">${!all && "Nothing that is remembered is about it."}<//>`}
    <ol class="plain-list" aria-label="Hits">
      ${hits.map((hit) => html`<${Hit} key=${hit.id} hit=${hit} chat=${chatOf(hit, names)} byMeaning=${searched.embedded > 0} section=${section} query=${query} chosen=${hit.id === chosen} />`)}
    </ol>
    ${!all && hits.length < Math.min(MOST, searched.texts) && html`<button class="quiet small" onClick=${() => setAll(true)}>${hits.length ? "Show less relevant ones, too" : "Show the nearest all the same"}</button>`}
  </div>`;
}

function Hit({ hit, chat, byMeaning, section, query, chosen }) {
  const parts = Object.entries(hit.why).sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
  const most = Math.max(...parts.map(([, value]) => Math.abs(value)), 0.001);
  return html`<li class="hit">
    <a class="hit-link" href=${addressOf(hit, section, query)} aria-current=${chosen ? "true" : undefined}>
      <span class="row-head">
        <span class="chip">${typeName(hit.type)}</span>
        ${isSaid(hit) && html`<span class="muted">${hit.sender_id}</span>`}
        ${hit.about && hit.about !== "user" && html`<span class="muted">${hit.about}</span>`}
        <time class="row-time" datetime=${new Date(hit.timestamp).toISOString()} title=${fullTime(hit.timestamp)}>${shortDay(hit.timestamp)}${hit.until ? ` until ${shortDay(hit.until)}` : ""}</time>
      </span>
      <span class="hit-text">${[hit.text, ...hit.said].join("\n")}</span>
      ${chat && html`<span class="hit-chat"><${Icon} name="chat" size=${14} />${chat}</span>`}
    </a>
    <details class="why">
      <summary>Why: score ${hit.score.toFixed(2)}</summary>
      <table>
        <caption class="hidden-label">The parts of the score</caption>
        <tbody>
          ${parts.map(
            ([name, value]) => html`<tr>
              <th scope="row">${PARTS[name] ?? name}</th>
              <td class="why-number">${value.toFixed(2)}</td>
              <td class="why-bar"><${Bar} share=${value / most} /></td>
            </tr>`,
          )}
        </tbody>
      </table>
      ${!hit.embedded && byMeaning && html`<p class="muted small-text">Found by words alone so far.</p>`}
    </details>
  </li>`;
}

/** The chat that said it last, and how many others did. */
function chatOf({ thread_ids: [last, ...others] }, names) {
  const name = names.get(last);
  return name && others.length ? `${name} and ${others.length} more` : name;
}

/** Of the largest part; what counts against a text is marked. */
function Bar({ share }) {
  return html`<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class=${share < 0 ? "against" : ""} width=${Math.max(1, Math.abs(share) * 100)} height="6" rx="1" /></svg>`;
}

const isSaid = ({ type }) => type === "turn" || type === "stretch";

/** A message is shown in its conversation, a note among the notes, a memory here. */
function addressOf(hit, section, query) {
  if (isSaid(hit)) return href("chat", [hit.thread_id, hit.id.slice(hit.id.lastIndexOf(":") + 1)]);
  if (hit.type === "note") return href("memory", ["notes", hit.path.split("/").slice(4).join("/")]);
  return href("memory", [section, hit.id], query);
}
