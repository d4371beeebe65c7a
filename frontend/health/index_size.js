// The index: disposable, and never larger than it should be.
import { apiPath, get } from "../api.js";
import { Problem } from "../ui/states.js";
import { count } from "../ui/times.js";
import { html } from "../view.js";
import { useWatched } from "./watched.js";

export function IndexSize() {
  const index = useWatched((signal) => get(apiPath("index"), {}, { signal }), []);
  return html`<section class="card" aria-labelledby="index">
    <h2 id="index">Index</h2>
    ${index.error && html`<${Problem} error=${index.error} onRetry=${index.reload} />`}
    ${index.value && html`<dl class="details">${rowsOf(index.value).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`}
  </section>`;
}

const rowsOf = ({ bytes, files, memory_bytes: memory, waiting_words: words, waiting_meaning: meaning, model, rebuilding }) => [
  ["On disk", `${size(bytes)} in ${count(files)} files`],
  ["In memory", size(memory)],
  ["Threads to be indexed", words || meaning ? `${count(words)} by words, ${count(meaning)} by meaning` : "none"],
  ["Embedding model", model ?? "none: search goes by words alone"],
  ...(rebuilding ? [["Being made again", `${count(rebuilding.embedded)} of about ${count(rebuilding.texts)} texts`]] : []),
];

function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, bytes ? Math.floor(Math.log10(bytes) / 3) : 0);
  return step ? `${(bytes / 1000 ** step).toFixed(1)} ${units[step]}` : `${bytes} bytes`;
}
