// What is remembered of a user's chats, and how chats that choose nothing else begin.
import { apiPath, get, patch } from "../api.js";
import { useSession } from "../session.js";
import { useLoaded } from "../ui/pages.js";
import { Problem } from "../ui/states.js";
import { toast } from "../ui/toast.js";
import { html } from "../view.js";
import { PresetSelect } from "./presets.js";

export function Preferences({ presets }) {
  const { user } = useSession();
  const path = apiPath("users", user, "preferences");
  const { value, error, reload, setValue } = useLoaded((signal) => get(path, {}, { signal }), [user]);
  const change = (changes) => patch(path, changes).then(setValue, (problem) => (toast(problem), reload()));
  return html`<section class="card" aria-labelledby="preferences">
    <h2 id="preferences">Chats of ${user}</h2>
    ${error && html`<${Problem} error=${error} onRetry=${reload} />`}
    ${value && html`
      <${Switch} label="Remember what I say" hint="Off: messages are kept in their chat, and no memories are made of them. Nothing that is remembered already is lost." checked=${value.auto_memory} onChange=${(auto_memory) => change({ auto_memory })} />
      <${Switch} label="Learn skills from what agents do" checked=${value.auto_skills} onChange=${(auto_skills) => change({ auto_skills })} />
      <${PresetSelect} presets=${presets} label="Preset of new chats" value=${value.preset} onChange=${(preset) => change({ preset })} />`}
  </section>`;
}

export function Switch({ label, hint, checked, disabled = false, onChange }) {
  return html`<label class="switch">
    <input type="checkbox" checked=${checked} disabled=${disabled} onChange=${(event) => onChange(event.target.checked)} />
    <span>${label}${hint && html`<small class="muted">${hint}</small>`}</span>
  </label>`;
}
