// An empty chat: what this is, which model it found, and a first message to send.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { html } from "../view.js";

const FIRST_MESSAGES = [
  "My sister Marta is moving to Porto in June. Remember that for me.",
  "What do you remember about me?",
  "Explain in three sentences how a KV cache works.",
];

/** `isFirst`: nobody has said anything here yet. */
export function FirstRun({ isFirst, onPick }) {
  return html`<div class="first-run">
    <img src="web/icon.svg" alt="" width="48" height="48" />
    <h1>${isFirst ? "Welcome to Recollect" : "A new chat"}</h1>
    <p>Recollect keeps every conversation, distils it into Markdown files that you own, and recalls the right parts when you chat.</p>
    <${FoundModel} />
    <div class="first-messages" role="group" aria-label="First messages">
      ${FIRST_MESSAGES.map((text) => html`<button onClick=${() => onPick(text)}>${text}</button>`)}
    </div>
  </div>`;
}

function FoundModel() {
  const { value, error, loading } = useLoaded((signal) => get(apiPath("backends"), {}, { signal }), []);
  if (loading) return html`<p class="found-model muted">Looking for a model…</p>`;
  const found = value?.backends[0];
  if (error || !found) return html`<p class="found-model muted">${error?.message ?? "No model is configured."}</p>`;
  if (found.problem || !found.kind) {
    return html`<p class="found-model warning"><${Icon} name="warning" size=${16} /><span>The model's server ${found.name} doesn't answer. ${found.problem ?? ""} <a href=${href("health")}>What to do</a></span></p>`;
  }
  const others = value.backends.length > 1 ? `, and ${value.backends.length - 1} more` : "";
  return html`<p class="found-model"><${Icon} name="spark" size=${16} /><span>Model: <strong>${found.models[0] ?? found.name}</strong>, ${found.local ? "on your own hardware" : "in the cloud"}${others}${found.label ? `. ${found.label}` : ""}</span></p>`;
}
