// Memory: what was made of conversations, and all that its owner may do with it.
import { get } from "../api.js";
import { go, href } from "../router.js";
import { useLoaded } from "../ui/pages.js";
import { html, useState } from "../view.js";
import { AddMemory } from "./add.js";
import { NoteDrop } from "./note_drop.js";
import { Entries } from "./entries.js";
import { Notes } from "./notes.js";
import { Profile } from "./profile.js";
import { Skills } from "./skills.js";

const OF_USER = ["episodes", "facts", "foresight"];
const OF_AGENTS = ["cases"];

const SECTIONS = {
  entries: { label: "Memories", show: ({ added, ...props }) => html`<${Entries} ...${props} key=${`entries ${added}`} section="entries" kinds=${OF_USER} searchable />` },
  profile: { label: "Profile", show: () => html`<${Profile} />` },
  skills: { label: "Skills", show: () => html`<${Skills} />` },
  cases: { label: "Cases", show: (props) => html`<${Entries} ...${props} key="cases" section="cases" kinds=${OF_AGENTS} />` },
  notes: { label: "Notes", show: (props) => html`<${Notes} ...${props} />` },
};

export default function MemoryPage({ route }) {
  const name = Object.hasOwn(SECTIONS, route.parts[0] ?? "") ? route.parts[0] : "entries";
  const [added, setAdded] = useState(0);
  const shown = ({ id }) => {
    setAdded((before) => before + 1);
    go("memory", ["entries", id]);
  };
  const chosen = route.parts.slice(1).join("/") || null;
  return html`<${NoteDrop}>
    <div class="memory">
      <header class="memory-head">
        <div class="card-head"><h1>Memory</h1><${AddMemory} onAdded=${shown} /></div>
        <nav class="tabs" aria-label="Parts of memory">
          ${Object.entries(SECTIONS).map(
            ([each, { label }]) => html`<a href=${href("memory", [each])} aria-current=${each === name ? "page" : undefined}>${label}</a>`,
          )}
        </nav>
        <${Hints} />
      </header>
      ${SECTIONS[name].show({ chosen, query: route.query, added })}
    </div>
  <//>`;
}

/** What would make more of conversations, and is not set up. */
function Hints() {
  const health = useLoaded((signal) => get("health", {}, { signal }), []);
  return (health.value?.hints ?? []).map((hint) => html`<p class="muted memory-hint" key=${hint}>${hint}</p>`);
}
