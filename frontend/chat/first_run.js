// An empty chat: what this is, which model it found, and a first message to send.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { ConnectForm } from "../settings/connect.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { sentence } from "../ui/words.js";
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

/** The model that answers; where there is none but the demonstration, a way to connect one. */
function FoundModel() {
  const chosen = useLoaded((signal) => get(apiPath("model"), {}, { signal }), []);
  if (chosen.loading) return html`<p class="found-model muted">Looking for a model…</p>`;
  if (chosen.error) return html`<p class="found-model muted">${chosen.error.message}</p>`;
  const { source, may_connect: may, fixed_by: fixed } = chosen.value;
  if (source === "settings" || source === "found") return html`<${AnsweringModel} source=${source} />`;
  return html`<section class="card no-model" aria-labelledby="no-model">
    <h2 id="no-model">No model was found on this machine</h2>
    <p class="muted">Ollama, LM Studio and llama.cpp were looked for. ${may && !fixed ? "Start one and reload this page, or connect any other:" : "Whoever runs this server can connect one."}</p>
    ${may && !fixed && html`<${ConnectForm} onConnected=${chosen.reload} />`}
    <p class="muted small-text">${source === "demonstration"
      ? "Until then you chat with the bundled model (SmolLM2, 135 million parameters). It is a demonstration: its answers are often wrong, and they are never remembered."
      : "Until then there is no chat; what is sent here is kept all the same."}</p>
  </section>`;
}

function AnsweringModel({ source }) {
  const { value, error, loading } = useLoaded((signal) => get(apiPath("backends"), {}, { signal }), []);
  if (loading) return html`<p class="found-model muted">Looking for a model…</p>`;
  const found = value?.backends[0];
  if (error || !found) return html`<p class="found-model muted">${error?.message ?? "No model is configured."}</p>`;
  if (found.problem || !found.kind) {
    return html`<p class="found-model warning"><${Icon} name="warning" size=${16} /><span>The model's server ${found.name} doesn't answer. ${found.problem ? sentence(found.problem) : ""} <a href=${href("health")}>What to do</a></span></p>`;
  }
  const others = value.backends.length > 1 ? `, and ${value.backends.length - 1} more` : "";
  const where = source === "found" ? "found on this machine" : found.local ? "on your own hardware" : "in the cloud";
  return html`<p class="found-model"><${Icon} name="spark" size=${16} /><span>Model: <strong>${found.models[0] ?? found.name}</strong>, ${where}${others}</span></p>`;
}
