// The models' servers: what each is, its slots, and what is wrong with it.
import { apiPath, get } from "../api.js";
import { Problem } from "../ui/states.js";
import { count } from "../ui/times.js";
import { sentence } from "../ui/words.js";
import { html } from "../view.js";
import { useWatched } from "./watched.js";

const MOST_MODELS = 8;
const ENGINES = { other: "OpenAI-compatible", lmstudio: "LM Studio", openai: "OpenAI", anthropic: "Anthropic", openrouter: "OpenRouter", vllm: "vLLM", sglang: "SGLang", ollama: "Ollama" };

export function Backends() {
  const backends = useWatched((signal) => get(apiPath("backends"), {}, { signal }), []);
  return html`<section class="card" aria-labelledby="backends">
    <h2 id="backends">Models</h2>
    ${backends.error && html`<${Problem} error=${backends.error} onRetry=${backends.reload} />`}
    ${(backends.value?.backends ?? []).map((backend) => html`<${Backend} key=${backend.name} backend=${backend} />`)}
  </section>`;
}

function Backend({ backend }) {
  const { name, kind, local, models, context_tokens: context, slots, pinned_slots: pinned, label, problem } = backend;
  const rows = [
    ["Engine", kind && `${ENGINES[kind] ?? kind}${local ? ", on this network" : ", elsewhere"}`],
    ["Models", models.slice(0, MOST_MODELS).join(", ") + (models.length > MOST_MODELS ? `, and ${count(models.length - MOST_MODELS)} more` : "")],
    ["Context", context && `${count(context)} tokens a conversation`],
    ["Slots", slots && `${pinned} of ${slots} hold a conversation`],
  ].filter(([, value]) => value);
  return html`<article class="backend" aria-label=${name}>
    <h3>${name} <span class="chip ${problem ? "warning" : "good"}">${problem ? "in trouble" : "answers"}</span></h3>
    ${problem && html`<p class="problem">${sentence(problem)}</p>`}
    ${label && html`<p class="muted">${label}</p>`}
    <dl class="details">${rows.map(([title, value]) => html`<div key=${title}><dt>${title}</dt><dd>${value}</dd></div>`)}</dl>
  </article>`;
}
