// One turn as it is shown.
import { href } from "../router.js";
import { CopyButton } from "../ui/code_block.js";
import { LoadedDialog } from "../ui/dialog.js";
import { Icon } from "../ui/icons.js";
import { Markdown } from "../ui/markdown.js";
import { fullTime, shortTime } from "../ui/times.js";
import { explained } from "../ui/words.js";
import { html, useEffect, useRef, useState } from "../view.js";
import { Meter } from "./meter.js";
import { Parts, wordsOf } from "./parts.js";
import { isOpen } from "./turns.js";
import { UsedMemories, UsedSources } from "./used_memories.js";

const SPEAKERS = { user: "You", assistant: "Assistant", system: "System", tool: "Tool" };

/** `versions`: ids of the turns that follow the same one. `actions`: what can be done with it here. `pictured`: the model was shown images. */
export function Message({ turn, threadId, receipt, problem, versions, actions, busy, pictured, marked }) {
  const [editing, setEditing] = useState(false);
  const speaker = SPEAKERS[turn.role] ?? turn.role;
  return html`<article class="message ${turn.role} ${marked ? "marked" : ""}" id=${`turn-${turn.turn_id}`} aria-label=${`${speaker}, ${fullTime(turn.timestamp)}`}>
    ${turn.role !== "user" && html`<header><span class="speaker">${speaker}</span>${turn.model && html`<span class="muted">${turn.model}</span>`}</header>`}
    ${turn.reasoning && html`<${Reasoning} text=${turn.reasoning} open=${turn.status === "streaming" && !turn.content} />`}
    ${editing
      ? html`<${Editor} text=${wordsOf(turn)} onCancel=${() => setEditing(false)} onSave=${(text) => { setEditing(false); actions.edit(turn, text); }} />`
      : html`<${Words} turn=${turn} />`}
    <${Parts} threadId=${threadId} parts=${turn.parts} />
    ${turn.tool_calls?.length > 0 && html`<${ToolCalls} calls=${turn.tool_calls} />`}
    <${Outcome} turn=${turn} problem=${problem ?? (receipt?.error && { message: receipt.error, code: receipt.code })} pictured=${pictured} />
    ${!isOpen(turn) && !editing && html`<${Foot} ...${{ turn, threadId, receipt, versions, actions, busy }} onEdit=${() => setEditing(true)} />`}
  </article>`;
}

function Words({ turn }) {
  const words = wordsOf(turn);
  if (turn.role === "assistant" && isOpen(turn) && !words) return html`<p class="thinking"><span class="hidden-label">The answer is on its way</span><i></i><i></i><i></i></p>`;
  if (turn.role === "user") return html`<div class="bubble">${words && html`<p class="verbatim">${words}</p>`}</div>`;
  if (turn.role === "assistant") return html`<${Markdown} text=${words} live=${turn.status === "streaming"} />`;
  return html`<p class="verbatim aside">${words}</p>`;
}

function Reasoning({ text, open }) {
  return html`<details class="reasoning" open=${open}><summary>Thoughts</summary><p class="verbatim">${text}</p></details>`;
}

function ToolCalls({ calls }) {
  return html`<ul class="tool-calls">${calls.map((call) => html`<li><code>${call.function?.name ?? call.type}</code> <code class="muted">${call.function?.arguments ?? ""}</code></li>`)}</ul>`;
}

function Outcome({ turn, problem, pictured }) {
  if (turn.status === "failed") return html`<p class="outcome danger" role="alert"><${Icon} name="warning" size=${16} />${problem ? explained(problem, pictured) : "No answer came. Ask again."}</p>`;
  if (turn.status === "partial") return html`<p class="outcome"><${Icon} name="info" size=${16} />${problem ? explained({ ...problem, message: `It ends here: ${problem.message}` }) : "It ends here."}</p>`;
  return null;
}

function Foot({ turn, threadId, receipt, versions, actions, busy, onEdit }) {
  const [shown, setShown] = useState(false);
  const [forgetting, setForgetting] = useState(false);
  const memories = receipt?.recall?.memories ?? [];
  return html`<footer>
      <${Versions} turn=${turn} versions=${versions} onShow=${actions.show} />
      ${wordsOf(turn) && html`<${CopyButton} text=${wordsOf(turn)} label="Copy text" />`}
      ${turn.role === "user" && html`<button class="quiet icon-only" aria-label="Edit message" title="Edit" disabled=${busy} onClick=${onEdit}><${Icon} name="edit" size=${16} /></button>`}
      ${turn.role === "assistant" && html`<button class="quiet icon-only" aria-label="Answer again" title="Answer again" disabled=${busy} onClick=${() => actions.again(turn)}><${Icon} name="again" size=${16} /></button>`}
      ${turn.role === "assistant" && receipt && html`<a class="button quiet icon-only" aria-label="What was sent" title="What was sent" href=${href("prompt", [threadId, turn.turn_id])}><${Icon} name="prompt" size=${16} /></a>`}
      <button class="quiet icon-only" aria-label="Forget message" title="Forget" disabled=${busy} onClick=${() => setForgetting(true)}><${Icon} name="trash" size=${16} /></button>
      ${memories.length > 0 && html`<button class="small memories-button" aria-expanded=${shown} onClick=${() => setShown(!shown)}>
        <${Icon} name="memory" size=${14} />${memories.length === 1 ? "1 memory used" : `${memories.length} memories used`}
      </button>`}
      ${receipt && html`<${Meter} receipt=${receipt} />`}
      ${turn.role === "user" && html`<time class="muted" datetime=${new Date(turn.timestamp).toISOString()} title=${fullTime(turn.timestamp)}>${shortTime(turn.timestamp)}</time>`}
    </footer>
    ${forgetting && html`<${LoadedDialog} load=${() => import("./forget.js")} part="ForgetMessageDialog" threadId=${threadId} turn=${turn} onForgotten=${actions.forgotten} onClose=${() => setForgetting(false)} />`}
    <${UsedSources} sources=${receipt?.sources ?? []} />
    ${shown && html`<${UsedMemories} memories=${memories} />`}`;
}

function Versions({ turn, versions, onShow }) {
  if (versions.length < 2) return null;
  const at = versions.indexOf(turn.turn_id);
  const to = (index, label, icon) => html`<button class="quiet icon-only small" aria-label=${label} title=${label} disabled=${!(index in versions)} onClick=${() => onShow(versions[index])}>
    <${Icon} name=${icon} size=${16} />
  </button>`;
  return html`<span class="versions" role="group" aria-label="Versions">
    ${to(at - 1, "Version before", "left")}<span>${at + 1} / ${versions.length}</span>${to(at + 1, "Version after", "right")}
  </span>`;
}

function Editor({ text, onCancel, onSave }) {
  const [words, setWords] = useState(text);
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  const keyed = (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      onCancel();
    }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (words.trim()) onSave(words);
    }
  };
  return html`<div class="editor">
    <textarea ref=${field} aria-label="Edit message" rows=${Math.min(12, words.split("\n").length + 1)} value=${words} onInput=${(event) => setWords(event.target.value)} onKeyDown=${keyed}></textarea>
    <div class="row">
      <span class="muted small-text">What was said before stays as another version.</span>
      <button onClick=${onCancel}>Cancel</button>
      <button class="primary" disabled=${!words.trim()} onClick=${() => onSave(words)}>Send</button>
    </div>
  </div>`;
}
