// One prompt: what it cost, its blocks, how memory came into it, and the request itself.
import { Meter } from "../chat/meter.js";
import { UsedMemories } from "../chat/used_memories.js";
import { CopyButton } from "../ui/code_block.js";
import { Icon } from "../ui/icons.js";
import { count, duration } from "../ui/times.js";
import { html, useState } from "../view.js";
import { blocksOf, leftOut, textOf } from "./blocks.js";

const TITLES = {
  instructions: "Instructions",
  summary: "Summary",
  history: "History",
  context: "Context",
  words: "Words",
  "context and words": "Context and words",
};
const NOTES = {
  instructions: "The preset, the persona and the policy. The same bytes for as long as they are the same.",
  summary: "Of what left the window. Fixed for the whole epoch.",
  history: "Exactly as it was sent before.",
  context: "What this turn adds beside the words: the clock and recalled memories. Kept with the turn, and sent again unchanged.",
  words: "What the user said, unchanged.",
  "context and words": "Clock, recalled memories and the user's words in one message: this model's template wants it so.",
};

export function SentPrompt({ prompt, earlier }) {
  const blocks = blocksOf(prompt, earlier);
  return html`<div class="sent-prompt">
    <${Changes} prompt=${prompt} earlier=${earlier} blocks=${blocks} />
    ${groups(blocks).map(({ kind, members }) => html`<${Block} key=${`${kind} ${members[0].index}`} kind=${kind} members=${members} />`)}
    <${Memory} detail=${prompt.detail} />
    <${Request} request=${prompt.request} />
  </div>`;
}

/** Neighbours of one kind belong together. */
function groups(blocks) {
  const found = [];
  for (const block of blocks) {
    if (found.at(-1)?.kind === block.kind) found.at(-1).members.push(block);
    else found.push({ kind: block.kind, members: [block] });
  }
  return found;
}

function Changes({ prompt, earlier, blocks }) {
  const fresh = blocks.filter((block) => block.state === "new" || block.state === "changed").length;
  const gone = leftOut(prompt, earlier);
  const grew = earlier && prompt.first_difference === null;
  return html`<section class="card changes" aria-label="What changed">
    <p>
      ${!earlier && "The first prompt of this chat."}
      ${earlier && grew && fresh === 0 && html`<${Icon} name="check" size=${16} /> The same bytes as the one before.`}
      ${earlier && grew && fresh > 0 && html`<${Icon} name="check" size=${16} /> It only grew: ${messages(fresh)} at its end ${fresh === 1 ? "is" : "are"} new, all before was sent in the same bytes.`}
      ${earlier && !grew && html`<${Icon} name="warning" size=${16} /> It differs from the one before at byte ${count(prompt.first_difference)}: ${prompt.cause ?? "the cause is not known"}.`}
      ${gone > 0 && ` ${messages(gone)} of the prompt before ${gone === 1 ? "is" : "are"} no longer in it.`}
    </p>
    <div class="chips">
      <span class="chip">Epoch ${prompt.epoch}</span>
      ${prompt.detail.model && html`<span class="chip">${prompt.detail.model}</span>`}
      ${prompt.detail.error && html`<span class="chip danger">${prompt.detail.error}</span>`}
      <${Meter} receipt=${prompt.detail} />
    </div>
  </section>`;
}

const messages = (number) => `${count(number)} ${number === 1 ? "message" : "messages"}`;

function Block({ kind, members }) {
  const characters = members.reduce((sum, { message }) => sum + textOf(message).length, 0);
  return html`<section class="block block-${kind.replaceAll(" ", "-")}" aria-label=${TITLES[kind]}>
    <header>
      <h2>${TITLES[kind]}</h2>
      <span class="muted small-text">${members.length > 1 ? `${messages(members.length)}, ` : ""}${count(characters)} characters</span>
      <p class="muted small-text">${NOTES[kind]}</p>
    </header>
    ${members.map((member) => html`<${Sent} key=${member.index} block=${member} closed=${kind === "history" && member.state === "same"} />`)}
  </section>`;
}

function Sent({ block, closed }) {
  const [open, setOpen] = useState(!closed);
  const text = textOf(block.message);
  return html`<details class="sent ${block.state}" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>
      <span class="role">${block.message.role}</span>
      <${Mark} state=${block.state} />
      ${!open && html`<span class="preview">${text.slice(0, 160)}</span>`}
    </summary>
    ${open && html`<pre class="verbatim" tabindex="0">${text}</pre>`}
    ${open && block.before && html`<details class="before"><summary>What stood here before</summary><pre class="verbatim" tabindex="0">${textOf(block.before)}</pre></details>`}
  </details>`;
}

function Mark({ state }) {
  if (state === "new") return html`<span class="chip good">new</span>`;
  if (state === "changed") return html`<span class="chip warning">changed</span>`;
  if (state === "same") return html`<span class="chip">as before</span>`;
  return null;
}

const COMPLETED = { model: " (completed by the model)", exchange: " (with the last exchange)" };

function Memory({ detail }) {
  const { recall, rewriter } = detail;
  if (!recall) return null;
  const passed = Object.entries(recall.passed_over ?? {});
  return html`<section class="block" aria-label="Memory">
    <header>
      <h2>Memory</h2>
      <p class="muted small-text">How the recalled memories were found.</p>
    </header>
    <dl class="facts">
      ${rewriter?.query && html`<dt>Searched for</dt><dd>${rewriter.query}${COMPLETED[rewriter.by] ?? ""}</dd>`}
      ${typeof recall.ms === "number" && html`<dt>Took</dt><dd>${duration(recall.ms)}</dd>`}
      ${recall.left_out && html`<dt>Not searched</dt><dd>${recall.left_out}</dd>`}
      ${passed.length > 0 && html`<dt>Passed over</dt><dd>${passed.map(([why, number]) => `${number} ${why}`).join(", ")}</dd>`}
      ${(recall.degraded ?? []).length > 0 && html`<dt>Could not use</dt><dd>${recall.degraded.join("; ")}</dd>`}
    </dl>
    ${recall.memories?.length ? html`<${UsedMemories} memories=${recall.memories} />` : html`<p class="muted small-text">No memory was quoted.</p>`}
  </section>`;
}

function Request({ request }) {
  const [open, setOpen] = useState(false);
  if (!request) return html`<p class="muted">It never left: nothing was sent.</p>`;
  const text = open ? JSON.stringify(request, null, 2) : "";
  return html`<details class="card request" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>The request as it left</summary>
    ${open && html`<div class="copy"><${CopyButton} text=${text} label="Copy request" /></div><pre class="verbatim" tabindex="0">${text}</pre>`}
  </details>`;
}
