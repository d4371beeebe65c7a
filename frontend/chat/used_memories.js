// Which memories and sources an answer was given, and the words they come from.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { Loading, Problem } from "../ui/states.js";
import { fullTime, shortTime } from "../ui/times.js";
import { html } from "../view.js";

const ENTRY = /^[a-z]{2}-[0-9a-f]{6,}$/;
const TURN = /:(t-\d+)~?$/;

export function UsedMemories({ memories }) {
  return html`<ul class="used-memories" aria-label="Memories used for this answer">
    ${memories.map((memory) => html`<li key=${memory.id}><${UsedMemory} memory=${memory} /></li>`)}
  </ul>`;
}

/** Files, links and results that were quoted to the model, as the receipt tells; images are shown with their message. */
export function UsedSources({ sources }) {
  const shown = sources.filter(({ kind }) => kind !== "image");
  return shown.length > 0 && html`<ul class="used-sources" role="list" aria-label="Sources of this answer">
    ${shown.map(({ kind, name, cut, error }) => html`<li key=${name} class="chip ${error ? "warning" : ""}">${kind}: ${name}${error ? `, not used: ${error}` : cut ? ", cut" : ""}</li>`)}
  </ul>`;
}

function UsedMemory({ memory }) {
  const { user } = useSession();
  const { value, error, loading, reload } = useLoaded((signal) => sourcesOf(memory, user, signal), [memory.id, user]);
  if (error && error.status !== 404) return html`<${Problem} error=${error} onRetry=${reload} />`;
  if (loading) return html`<${Loading} />`;
  if (!value) return html`<p class="muted">It was forgotten, or replaced by another, since.</p>`;
  return html`<p class="said">${value.text}</p>
    <div class="sources">
      ${memory.correction && html`<span class="chip warning">sent as a correction</span>`}
      ${value.entry && html`<a class="button small" href=${href("memory", ["entries", value.entry])}><${Icon} name="memory" size=${14} />Memory</a>`}
      ${value.note && html`<a class="button small" href=${href("memory", ["notes", value.note])}><${Icon} name="file" size=${14} />${value.note}</a>`}
      ${value.sources.map(
        (source) => html`<a class="button small" href=${href("chat", [source.thread_id, source.turn_id])} title=${fullTime(source.timestamp)}>
          <${Icon} name="link" size=${14} />Said ${shortTime(source.timestamp)}
        </a>`,
      )}
    </div>`;
}

/** `{text, entry, note, sources}`; null where nothing is left of it. */
async function sourcesOf(memory, user, signal) {
  const turn = TURN.exec(memory.id)?.[1];
  if (turn && memory.thread_id) {
    const said = await get(apiPath("threads", memory.thread_id, "turns", turn), { user_id: user }, { signal });
    return { text: said.content, sources: [{ ...said, thread_id: memory.thread_id }] };
  }
  if (ENTRY.test(memory.id)) {
    const entry = await get(apiPath("memory", "entries", memory.id), { user_id: user }, { signal });
    return { text: entry.text, entry: entry.id, sources: entry.quotes.filter((quote) => !quote.forgotten) };
  }
  return { text: "A passage of a note; the prompt quotes it.", note: nameOf(memory.id), sources: [] };
}

/** `default/users/ann/notes/a/b.md#3` is a passage of the note `a/b.md`. */
const nameOf = (id) => id.replace(/#\d+$/, "").split("/").slice(4).join("/");
