// Where every message is that was ever accepted.
import { apiPath, get } from "../api.js";
import { Problem } from "../ui/states.js";
import { count } from "../ui/times.js";
import { html } from "../view.js";
import { useWatched } from "./watched.js";

/** The way of a message, and what is left over at each step. */
const STEPS = [
  { name: "messages", label: "Accepted", says: "durable when it was answered" },
  { name: "buffered", label: "Buffered", says: "wait for their stretch to end" },
  { name: "celled", label: "In memcells", says: "in exactly one" },
  { name: "extracted", label: "Extracted", says: "memories were made of them" },
  { name: "indexed", label: "Indexed", says: "found by words" },
  { name: "embedded", label: "Embedded", says: "found by meaning" },
  { name: "skipped", label: "Skipped", says: "system messages, incognito, memory off" },
  { name: "forgotten", label: "Forgotten", says: "a tombstone is left" },
];

export function Coverage({ scope }) {
  const coverage = useWatched((signal) => get(apiPath("coverage"), scope, { signal }), [scope.user_id]);
  return html`<section class="card" aria-labelledby="coverage">
    <h2 id="coverage">Coverage</h2>
    ${coverage.error && html`<${Problem} error=${coverage.error} onRetry=${coverage.reload} />`}
    ${coverage.value && html`<${Counts} counts=${coverage.value} />`}
  </section>`;
}

function Counts({ counts }) {
  const lost = counts.missing + counts.doubled;
  return html`<p class="verdict ${lost ? "danger-text" : ""}">
      <strong>${lost ? `${count(counts.missing)} missing, ${count(counts.doubled)} doubled` : "0 missing"}</strong>${" "}
      ${lost ? "This must never be: run 'recollect verify', and keep the home as it is." : "Every accepted message is where it should be."}
    </p>
    <dl class="counts">
      ${STEPS.map(
        ({ name, label, says }) => html`<div key=${name}>
          <dt>${label}</dt>
          <dd><strong>${count(counts[name])}</strong><span class="muted">${says}</span></dd>
        </div>`,
      )}
    </dl>`;
}
