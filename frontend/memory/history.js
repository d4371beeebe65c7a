// What a memory said before, who changed it, and a way back.
import { apiPath, get } from "../api.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { Loading, Problem } from "../ui/states.js";
import { fullTime } from "../ui/times.js";
import { html, useState } from "../view.js";

const ACTORS = { extraction: "by extraction", consolidation: "by consolidation", person: "by a person", undo: "by an undo" };

export function History({ id, revision, onBack }) {
  const [open, setOpen] = useState(false);
  return html`<details class="history" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>History: ${revision === 1 ? "never changed" : `${revision - 1} ${revision === 2 ? "change" : "changes"}`}</summary>
    ${open && html`<${Versions} id=${id} revision=${revision} onBack=${onBack} />`}
  </details>`;
}

function Versions({ id, revision, onBack }) {
  const { user } = useSession();
  const found = useLoaded((signal) => get(apiPath("memory", "entries", id, "history"), { user_id: user }, { signal }), [id, revision, user]);
  if (found.error) return html`<${Problem} error=${found.error} onRetry=${found.reload} />`;
  if (!found.value) return html`<${Loading} />`;
  return html`<ol class="plain-list entry-versions" aria-label="Versions, the newest first">
    ${[...found.value.versions].reverse().map((version) => html`<${Version} key=${version.revision} version=${version} current=${version.revision === revision} onBack=${onBack} />`)}
  </ol>`;
}

function Version({ version, current, onBack }) {
  return html`<li>
    <p class="row-head">
      <span class="chip ${current ? "good" : ""}">revision ${version.revision}${current ? ", in force" : ""}</span>
      <span class="muted small-text">${version.actor ? `${version.cause}, ${ACTORS[version.actor]}, ${fullTime(version.at)}` : "as it was made"}</span>
    </p>
    ${version.title !== version.text && html`<p><strong>${version.title}</strong></p>`}
    <p class="verbatim">${version.text}</p>
    ${!current && html`<button class="small" onClick=${() => onBack(version.revision)}><${Icon} name="undo" size=${14} />Back to this version</button>`}
  </li>`;
}
