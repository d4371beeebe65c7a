// What can be chosen for one chat. Loaded when somebody opens it.
import { apiPath, get } from "../api.js";
import { PresetSelect, usePresets } from "../settings/presets.js";
import { Switch } from "../settings/preferences.js";
import { Dialog } from "../ui/dialog.js";
import { useLoaded } from "../ui/pages.js";
import { html } from "../view.js";

/** `isBegun`: the chat has a message, so it can't become temporary any more. */
export function OptionsDialog({ choices, preset, temporary, isBegun, onChange, onPreset, onClose }) {
  return html`<${Dialog} title="Settings of this chat" onClose=${onClose}>
    <div class="dialog-text">
      <${ModelSelect} choices=${choices} onChange=${onChange} />
      <${ChatPreset} value=${preset} onChange=${onPreset} />
      <${Switch} label="Use memory in this chat" hint="Off: nothing is recalled for its messages, and they are not remembered." checked=${choices.memory !== false} onChange=${(on) => onChange({ memory: on ? undefined : false })} />
      <${Switch} label="Temporary chat" hint="Nothing of it is remembered or found, and it is forgotten after a day without a message. Choose it before the first message." checked=${temporary} disabled=${isBegun} onChange=${(on) => onChange({ temporary: on ? true : undefined })} />
    </div>
    <footer><button class="primary" onClick=${onClose}>Done</button></footer>
  <//>`;
}

function ChatPreset(properties) {
  const presets = usePresets();
  return html`<${PresetSelect} presets=${presets} label="Preset" ...${properties} />`;
}

function ModelSelect({ choices, onChange }) {
  const { value, loading } = useLoaded((signal) => get(apiPath("backends"), {}, { signal }), []);
  const offered = (value?.backends ?? []).flatMap(({ name, models }) => models.map((model) => ({ backend: name, model })));
  const chosen = choices.model ? { backend: choices.backend, model: choices.model } : null;
  const all = chosen && !offered.some((each) => textOf(each) === textOf(chosen)) ? [...offered, chosen] : offered;
  const choose = (event) => {
    const found = all.find((each) => textOf(each) === event.target.value);
    onChange({ backend: found?.backend, model: found?.model });
  };
  return html`<label class="field">
    <span>Model</span>
    <select value=${chosen ? textOf(chosen) : ""} disabled=${loading} onChange=${choose}>
      <option value="">The usual one</option>
      ${all.map((each) => html`<option key=${textOf(each)} value=${textOf(each)}>${each.model}${value?.backends.length > 1 ? `, ${each.backend}` : ""}</option>`)}
    </select>
  </label>`;
}

const textOf = ({ backend, model }) => `${backend}/${model}`;
