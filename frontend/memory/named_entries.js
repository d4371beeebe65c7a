// Memories by their kind and words: what goes along when something is forgotten.
import { html } from "../view.js";
import { kindName } from "./kinds.js";

export function NamedEntries({ label, entries }) {
  return html`<div>
    <p>${label}</p>
    <ul class="along" aria-label=${label}>${entries.map((each) => html`<li key=${each.id}>${kindName(each.kind)}: ${each.text}</li>`)}</ul>
  </div>`;
}
