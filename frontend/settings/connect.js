// Connecting a model: its address, key and name. The server tries it before it takes it.
import { apiPath, put } from "../api.js";
import { toast } from "../ui/toast.js";
import { explained } from "../ui/words.js";
import { html, useId, useState } from "../view.js";

const FIELDS = [
  { name: "base_url", label: "Address of the model server", type: "url", placeholder: "http://127.0.0.1:11434", required: true },
  { name: "api_key", label: "API key, if it needs one", type: "password" },
  { name: "model", label: "Model, if not the first it lists", type: "text" },
];

/** `onConnected` is called when the model has answered and is in force. */
export function ConnectForm({ onConnected }) {
  const [values, setValues] = useState({});
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  const connect = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const given = FIELDS.map(({ name }) => [name, values[name]?.trim()]).filter(([, value]) => value);
      const { model } = await put(apiPath("model"), Object.fromEntries(given));
      toast(`Connected: ${model ?? "the model"} has answered.`);
      setValues({});
      onConnected();
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
  };
  return html`<form class="connect" aria-label="Connect a model" novalidate onSubmit=${connect}>
    ${FIELDS.map(({ name, label, ...rest }) => {
      const wrong = problem?.field === name;
      return html`<label class="field" key=${name}>
        <span>${label}</span>
        <input ...${rest} value=${values[name] ?? ""} maxlength="512" autocomplete="off" spellcheck=${false} aria-invalid=${wrong ? "true" : undefined} aria-describedby=${wrong ? id : undefined} onInput=${(event) => setValues((before) => ({ ...before, [name]: event.target.value }))} />
      </label>`;
    })}
    ${problem && html`<p class="problem" role="alert" id=${id}>${explained({ code: problem.code, message: problem.message.replace(/^(base_url|api_key|model): /, "") })}</p>`}
    <button class="primary" disabled=${busy || !values.base_url?.trim()}>${busy ? "Testing…" : "Test and connect"}</button>
    <p class="muted small-text">It is asked one short question. Then it is written to <code>recollect.toml</code> in the home, which only you can read.</p>
  </form>`;
}
