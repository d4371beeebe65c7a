// What one chat does differently: its model, its preset, whether it uses memory, and whether it is temporary.
import { apiPath, get, patch, post } from "../api.js";
import { keep, kept } from "../kept.js";
import { PresetSelect, usePresets } from "../settings/presets.js";
import { Switch } from "../settings/preferences.js";
import { Dialog } from "../ui/dialog.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { toast } from "../ui/toast.js";
import { html, useState } from "../view.js";
import { threadChanged } from "./changes.js";

const nameOf = (threadId) => `chat ${threadId}`;

function choicesOf(threadId) {
  try {
    return JSON.parse(kept(nameOf(threadId))) ?? {};
  } catch {
    return {};
  }
}

/** For the body of every message of the chat. Opens a temporary chat before its first message. */
export async function bodyFor(threadId, user) {
  const { temporary, ...body } = choicesOf(threadId);
  if (temporary) {
    await post(apiPath("threads"), { thread_id: threadId, user_id: user, incognito: true }).catch(unlessThere);
    keepChoices(threadId, body);
  }
  return body;
}

function unlessThere(error) {
  if (error.status !== 409) throw error;
}

function keepChoices(threadId, choices) {
  const told = Object.entries(choices).filter(([, value]) => value !== undefined && value !== null);
  keep(nameOf(threadId), told.length ? JSON.stringify(Object.fromEntries(told)) : null);
}

/** The button above the messages, and what is unusual about this chat. `thread` is null before the first message. */
export function ChatOptions({ threadId, thread, user }) {
  const [open, setOpen] = useState(false);
  const [choices, setChoices] = useState(() => choicesOf(threadId));
  const change = (changes) => {
    const next = { ...choicesOf(threadId), ...changes };
    keepChoices(threadId, next);
    setChoices(next);
  };
  const choosePreset = async (preset) => {
    if (!thread) return change({ preset });
    change({ preset: undefined });
    return patch(apiPath("threads", threadId), { user_id: user, preset }).then(() => threadChanged(threadId), toast);
  };
  const temporary = thread ? thread.incognito : Boolean(choices.temporary);
  return html`<span class="chat-options">
    ${temporary && html`<span class="chip"><${Icon} name="lock" size=${12} />temporary</span>`}
    ${choices.memory === false && html`<span class="chip warning">memory off</span>`}
    ${choices.model && html`<span class="chip">${choices.model}</span>`}
    <button class="quiet icon-only" aria-label="Settings of this chat" title="Settings of this chat" onClick=${() => setOpen(true)}><${Icon} name="settings" /></button>
    ${open && html`<${Dialog} title="Settings of this chat" onClose=${() => setOpen(false)}>
      <div class="dialog-text">
        <${ModelSelect} choices=${choices} onChange=${change} />
        <${ChatPreset} value=${thread ? thread.preset : choices.preset} onChange=${choosePreset} />
        <${Switch} label="Use memory in this chat" hint="Off: nothing is recalled for its messages, and they are not remembered." checked=${choices.memory !== false} onChange=${(on) => change({ memory: on ? undefined : false })} />
        <${Switch} label="Temporary chat" hint="Nothing of it is remembered or found, and it is forgotten after a day without a message. Choose it before the first message." checked=${temporary} disabled=${Boolean(thread)} onChange=${(on) => change({ temporary: on ? true : undefined })} />
      </div>
      <footer><button class="primary" onClick=${() => setOpen(false)}>Done</button></footer>
    <//>`}
  </span>`;
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
