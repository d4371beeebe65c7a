// What one chat does differently: its model, its preset, whether it uses memory, and whether it is temporary.
import { apiPath, patch, post } from "../api.js";
import { keep, kept } from "../kept.js";
import { LoadedDialog } from "../ui/dialog.js";
import { Icon } from "../ui/icons.js";
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
  const [isOpen, setOpen] = useState(false);
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
    ${isOpen && html`<${LoadedDialog} load=${() => import("./options_dialog.js")} part="OptionsDialog" choices=${choices} preset=${thread ? thread.preset : choices.preset} temporary=${temporary} isBegun=${Boolean(thread)} onChange=${change} onPreset=${choosePreset} onClose=${() => setOpen(false)} />`}
  </span>`;
}
