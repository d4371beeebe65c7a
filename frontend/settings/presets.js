// Presets: what the model is told before a chat. Everybody in the space uses them; its operator writes them.
import { apiPath, get, put, remove } from "../api.js";
import { ConfirmDialog, Dialog } from "../ui/dialog.js";
import { useLoaded } from "../ui/pages.js";
import { Problem } from "../ui/states.js";
import { explained } from "../ui/words.js";
import { html, useState } from "../view.js";

const FIELDS = [
  { name: "persona", label: "Who the model is to be" },
  { name: "model", label: "Model, if another" },
  { name: "backend", label: "Backend, if another" },
  { name: "temperature", label: "Temperature, 0 to 2", number: true },
  { name: "max_tokens", label: "Most tokens of an answer", number: true },
  { name: "sources", label: "Sources that it takes, if not all: files, images, links, results" },
];

export const usePresets = () => useLoaded(async (signal) => (await get(apiPath("presets"), { limit: 1000 }, { signal })).presets, []);

/** `presets` as `usePresets` gives them. */
export function PresetSelect({ presets, label, value, onChange }) {
  const names = (presets.value ?? []).map(({ name }) => name);
  const shown = value && !names.includes(value) ? [...names, value] : names;
  return html`<label class="field">
    <span>${label}</span>
    <select value=${value ?? ""} onChange=${(event) => onChange(event.target.value || null)}>
      <option value="">The usual one</option>
      ${shown.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
  </label>`;
}

export function Presets({ presets, editable }) {
  const [open, setOpen] = useState(null);
  const [leaving, setLeaving] = useState(null);
  const changed = () => (setOpen(null), setLeaving(null), presets.reload());
  return html`<section class="card" aria-labelledby="presets">
    <div class="card-head"><h2 id="presets">Presets</h2>${editable && html`<button class="small" onClick=${() => setOpen({})}>New preset</button>`}</div>
    <p class="muted">What the model is told before a chat begins, and how it is asked.</p>
    ${presets.error && html`<${Problem} error=${presets.error} onRetry=${presets.reload} />`}
    <ul class="plain-list" aria-label="Presets">
      ${(presets.value ?? []).map((preset) => html`<li key=${preset.name} class="setting-row">
        <span><strong>${preset.name}</strong> <span class="muted instructions">${preset.instructions}</span></span>
        ${editable && html`<span class="row-actions">
          <button class="small" aria-label=${`Edit the preset ${preset.name}`} onClick=${() => setOpen(preset)}>Edit</button>
          <button class="small" aria-label=${`Delete the preset ${preset.name}`} onClick=${() => setLeaving(preset.name)}>Delete</button>
        </span>`}
      </li>`)}
    </ul>
    ${open && html`<${PresetDialog} preset=${open} onSaved=${changed} onClose=${() => setOpen(null)} />`}
    ${leaving && html`<${ConfirmDialog} title="Delete the preset?" confirm="Delete" danger onConfirm=${() => remove(apiPath("presets", leaving)).then(changed)} onClose=${() => setLeaving(null)}>
      <p>Chats that use “${leaving}” go on with the usual one.</p>
    <//>`}
  </section>`;
}

function PresetDialog({ preset, onSaved, onClose }) {
  const [values, setValues] = useState({ ...preset });
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const set = (name) => (event) => setValues((before) => ({ ...before, [name]: event.target.value }));
  const save = async (event) => {
    event.preventDefault();
    setBusy(true);
    const given = FIELDS.map(({ name, number }) => [name, typed(values[name], number)]).filter(([, value]) => value !== null);
    try {
      await put(apiPath("presets", values.name.trim()), { instructions: values.instructions, ...Object.fromEntries(given) });
      onSaved();
    } catch (error) {
      setProblem(explained(error));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${preset.name ? `The preset ${preset.name}` : "New preset"} onClose=${onClose}>
    <form onSubmit=${save}>
      ${!preset.name && html`<label class="field"><span>Name</span><input value=${values.name ?? ""} maxlength="512" required autofocus onInput=${set("name")} /></label>`}
      <label class="field"><span>What the model is told</span><textarea rows="6" required value=${values.instructions ?? ""} onInput=${set("instructions")}></textarea></label>
      ${FIELDS.map(({ name, label }) => html`<label class="field" key=${name}><span>${label}</span><input value=${values[name] ?? ""} onInput=${set(name)} /></label>`)}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <footer>
        <button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary" disabled=${busy || !values.name?.trim() || !values.instructions?.trim()}>Save</button>
      </footer>
    </form>
  <//>`;
}

/** What was typed, null where nothing was. What is no number is sent as it is: the server says so. */
function typed(value, number) {
  const text = String(value ?? "").trim();
  if (!text) return null;
  return number && !Number.isNaN(Number(text)) ? Number(text) : text;
}
