// Which model answers where a chat chooses no other, and a way to connect another one.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { useLoaded } from "../ui/pages.js";
import { Problem } from "../ui/states.js";
import { html } from "../view.js";
import { ConnectForm } from "./connect.js";

const SOURCES = {
  settings: "It is named in the settings.",
  found: "It was found running on this machine.",
  demonstration: "It is the bundled model, a demonstration: its answers are often wrong, and are never remembered.",
  none: "There is none yet.",
};

export function Model() {
  const { value, error, reload } = useLoaded((signal) => get(apiPath("model"), {}, { signal }), []);
  return html`<section class="card" aria-labelledby="model">
    <h2 id="model">Model</h2>
    ${error && html`<${Problem} error=${error} onRetry=${reload} />`}
    ${value && html`<p>${SOURCES[value.source]} ${value.server && html`It answers at <code>${value.server}</code>. `}<a href=${href("health")}>How it is</a></p>
      ${value.fixed_by && html`<p class="muted">It is set by the variable <code>${value.fixed_by}</code> where the server is started, and is changed there.</p>`}
      ${!value.fixed_by && value.may_connect && html`<details open=${value.source === "demonstration" || value.source === "none"}>
        <summary>Connect another model</summary>
        <${ConnectForm} onConnected=${reload} />
      </details>`}
      <p class="muted small-text">A chat can use another one: see its own settings, above the messages.</p>`}
  </section>`;
}
