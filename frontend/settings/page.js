// Settings: the model, what is remembered and how it answers, and for an operator keys and users.
import { useSession } from "../session.js";
import { html } from "../view.js";
import { Access } from "./access.js";
import { Model } from "./model.js";
import { Preferences } from "./preferences.js";
import { Presets, usePresets } from "./presets.js";

export default function SettingsPage() {
  const { chooses } = useSession();
  const presets = usePresets();
  return html`<div class="column settings">
    <header><h1>Settings</h1></header>
    <${Preferences} presets=${presets} />
    <${Model} />
    <${Presets} presets=${presets} editable=${chooses} />
    ${chooses && html`<${Access} />`}
  </div>`;
}
