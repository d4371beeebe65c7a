// What a turn cost: tokens from the cache, tokens evaluated, the time to the first one, and why the cache missed.
import { count, duration } from "../ui/times.js";
import { html, useState } from "../view.js";

export function Meter({ receipt }) {
  const [open, setOpen] = useState(false);
  const { cached_tokens: cached, evaluated_tokens: evaluated, prompt_tokens: prompt, time_to_first_token_ms: first } = receipt;
  const parts = [];
  if (typeof cached === "number") parts.push(["cached", count(cached)]);
  if (typeof evaluated === "number") parts.push(["evaluated", count(evaluated)]);
  else if (typeof prompt === "number") parts.push(["tokens sent", count(prompt)]);
  if (typeof first === "number") parts.push(["to the first token", duration(first)]);
  const missed = whyMissed(receipt);
  if (!parts.length && !missed) return null;
  return html`<details class="meter" onToggle=${(event) => setOpen(event.target.open)}>
    <summary class=${missed && !begins(receipt) ? "missed" : ""}>Cost</summary>
    ${open && typeof cached === "number" && typeof evaluated === "number" && html`<${Share} cached=${cached} evaluated=${evaluated} />`}
    ${open && parts.map(([label, value]) => html`<span><b>${value}</b> ${label}</span>`)}
    ${open && missed && html`<span class=${begins(receipt) ? "" : "missed"}>${missed}</span>`}
  </details>`;
}

function Share({ cached, evaluated }) {
  const whole = cached + evaluated;
  if (!whole) return null;
  const percent = Math.round((100 * cached) / whole);
  return html`<span class="share" role="img" aria-label=${`${percent} % of the prompt came from the cache`} title=${`${percent} % from the cache`}>
    <span style=${{ width: `${percent}%` }}></span>
  </span>`;
}

/** In words, where there is something to say; null where the cache held what it could. */
function whyMissed({ misses, cause, epoch_reason: reason, first_difference: differs, cached_tokens: cached }) {
  if (misses) return `Cache missed: ${misses}`;
  if (cause) return `Cache missed: ${cause}`;
  if (cached !== 0) return null;
  if (begins({ epoch_reason: reason, first_difference: differs })) return "Nothing cached yet: the conversation begins";
  return "Cache missed: the prompt only grew, but the model's server had let go of it";
}

/** The first prompt of a thread: there is nothing that a cache could hold. */
const begins = ({ epoch_reason: reason, first_difference: differs }) => reason === "the conversation begins" && differs === null;
