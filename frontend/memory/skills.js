// Skills: what agents learned, as the files that they read.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { Markdown } from "../ui/markdown.js";
import { useLoaded } from "../ui/pages.js";
import { Empty, Loading, Problem } from "../ui/states.js";
import { html } from "../view.js";

const FRONT_MATTER = /^---\n[\s\S]*?\n---\n/;

export function Skills() {
  const { user } = useSession();
  const found = useLoaded((signal) => get(apiPath("memory", "skills"), { user_id: user }, { signal }), [user]);
  if (found.error) return html`<${Problem} error=${found.error} onRetry=${found.reload} />`;
  if (!found.value) return html`<${Loading} />`;
  const { skills } = found.value;
  if (!skills.length) return html`<${Empty} icon="spark" title="No skills yet">A skill is made of like tasks that an agent has worked on with tools.<//>`;
  return html`<div class="column">${skills.map((skill) => html`<${Skill} key=${skill.path} skill=${skill} />`)}</div>`;
}

function Skill({ skill }) {
  return html`<article class="card skill" aria-label=${skill.name}>
    <h2>${skill.name}</h2>
    <p>${skill.description}</p>
    <p class="row-head">
      <span class="chip">agent ${skill.agent}</span>
      ${skill.tools.map((tool) => html`<span class="chip good" key=${tool}>${tool}</span>`)}
      ${skill.edited.length > 0 && html`<span class="chip">edited by a person</span>`}
    </p>
    <details>
      <summary>What it says</summary>
      <div class="entry-text"><${Markdown} text=${skill.text.replace(FRONT_MATTER, "")} /></div>
    </details>
    <details>
      <summary>Made of ${skill.cases.length} ${skill.cases.length === 1 ? "case" : "cases"}</summary>
      <ul class="plain-list">${skill.cases.map((id) => html`<li key=${id}><a href=${href("memory", ["cases", id])}>${id}</a></li>`)}</ul>
    </details>
    <p class="muted small-text">Change it by editing its file in the vault: ${skill.path}</p>
  </article>`;
}
