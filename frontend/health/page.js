// Health: that nothing is lost, what is under way, and what to do where something doesn't work.
import { get } from "../api.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { Problem } from "../ui/states.js";
import { sentence } from "../ui/words.js";
import { html } from "../view.js";
import { Backends } from "./backends.js";
import { Cache } from "./cache.js";
import { Coverage } from "./coverage.js";
import { IndexSize } from "./index_size.js";
import { Jobs } from "./jobs.js";
import { useWatched } from "./watched.js";
import { Webhooks } from "./webhooks.js";

const STATUS = {
  ok: { title: "All is well", kind: "good", icon: "check" },
  degraded: { title: "Messages are taken in, and something doesn't work", kind: "warning", icon: "warning" },
  unavailable: { title: "Messages are not taken in", kind: "danger", icon: "warning" },
};

export default function HealthPage() {
  const { user, chooses, space } = useSession();
  // Who may see the whole space sees it here: jobs and the index are nobody's own.
  const scope = chooses ? {} : { user_id: user };
  return html`<div class="column health">
    <header>
      <h1>Health</h1>
      <p class="muted">${chooses ? `All of the space ${space}.` : `What is ${user}'s.`} Looked at again every few seconds.</p>
    </header>
    <${Status} />
    <${Coverage} scope=${scope} />
    <${Cache} scope=${scope} />
    <${Jobs} scope=${scope} />
    <${Webhooks} scope=${scope} />
    <${Backends} />
    ${chooses && html`<${IndexSize} />`}
  </div>`;
}

function Status() {
  const health = useWatched((signal) => get("health", {}, { signal }).catch(unavailable), []);
  if (health.error) return html`<${Problem} error=${health.error} onRetry=${health.reload} />`;
  if (!health.value) return html`<section class="card status" aria-label="Status"><p class="muted">Looking…</p></section>`;
  const { status, degraded, version, hints = [] } = health.value;
  const { title, kind, icon } = STATUS[status] ?? STATUS.degraded;
  return html`<section class="card status ${kind}" aria-label="Status">
    <h2><${Icon} name=${icon} />${title}</h2>
    ${degraded.length > 0 && html`<ul aria-label="What doesn't work, and what to do">${degraded.map((problem) => html`<li key=${problem}>${sentence(problem)}</li>`)}</ul>`}
    ${hints.map((hint) => html`<p key=${hint}>${hint}</p>`)}
    <p class="muted small-text">Recollect ${version}</p>
  </section>`;
}

/** A server that takes no messages says why in an answer that is an error. */
function unavailable(error) {
  if (error.status !== 503) throw error;
  return { status: "unavailable", degraded: [error.message], version: "" };
}
