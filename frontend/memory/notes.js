// Notes: Markdown that a person brought along or put into the vault.
import { apiPath, get, remove } from "../api.js";
import { go, href } from "../router.js";
import { useSession } from "../session.js";
import { ConfirmDialog } from "../ui/dialog.js";
import { Icon } from "../ui/icons.js";
import { Markdown } from "../ui/markdown.js";
import { useLoaded } from "../ui/pages.js";
import { Empty, Loading, Problem } from "../ui/states.js";
import { fullTime, shortDay } from "../ui/times.js";
import { toast } from "../ui/toast.js";
import { VirtualList } from "../ui/virtual_list.js";
import { html, useCallback, useState } from "../view.js";
import { BringButton, useImporting } from "./note_drop.js";

const ROW = 56;
const keyOf = (note) => note.name;

export function Notes({ chosen }) {
  const { user } = useSession();
  const { brought } = useImporting();
  const list = useLoaded((signal) => get(apiPath("memory", "notes"), { user_id: user }, { signal }), [user, brought]);
  return html`<div class="panes ${chosen ? "has-chosen" : ""}">
    <section class="pane-list" aria-label="Notes">
      <div class="filters"><${BringButton} /><p class="muted small-text">Or drop Markdown files anywhere on this page: they become files in your vault and are found by search. An export of ChatGPT, Claude or Open WebUI becomes chats.</p></div>
      <${List} list=${list} chosen=${chosen} />
    </section>
    <section class="pane-detail" aria-label="The chosen note">
      ${chosen
        ? html`<a class="button quiet back" href=${href("memory", ["notes"])}><${Icon} name="left" />Back to the list</a><${Note} key=${`${chosen} ${brought}`} name=${chosen} onForgotten=${list.reload} />`
        : html`<${Empty} icon="file" title="Choose a note" />`}
    </section>
  </div>`;
}

function List({ list, chosen }) {
  const row = useCallback(
    (note) => html`<a class="memory-row note-row" href=${href("memory", ["notes", note.name])} aria-current=${note.name === chosen ? "true" : undefined}>
      <strong>${note.name}</strong>
      <time class="row-time" datetime=${new Date(note.modified).toISOString()}>${shortDay(note.modified)}</time>
    </a>`,
    [chosen],
  );
  if (list.error) return html`<${Problem} error=${list.error} onRetry=${list.reload} />`;
  if (!list.value) return html`<${Loading} />`;
  if (!list.value.notes.length) return html`<${Empty} icon="file" title="No notes yet" />`;
  return html`<div class="pane-scroll"><${VirtualList} items=${list.value.notes} keyOf=${keyOf} rowHeight=${ROW} row=${row} label="Notes" /></div>`;
}

function Note({ name, onForgotten }) {
  const { user } = useSession();
  const [forgetting, setForgetting] = useState(false);
  const note = useLoaded((signal) => get(apiPath("memory", "notes", name), { user_id: user }, { signal }), [user, name]);
  if (note.error) return html`<${Problem} error=${note.error} onRetry=${note.reload} />`;
  if (!note.value) return html`<${Loading} />`;
  return html`<article class="entry" aria-label=${name}>
    <p class="row-head"><span class="chip good">Note</span><time class="row-time" datetime=${new Date(note.value.modified).toISOString()}>${fullTime(note.value.modified)}</time></p>
    <h2>${name}</h2>
    <div class="entry-text"><${Markdown} text=${note.value.text} /></div>
    <div class="entry-actions"><button class="danger-text" onClick=${() => setForgetting(true)}><${Icon} name="trash" />Forget</button></div>
    <p class="muted small-text">${note.value.path}</p>
    ${forgetting && html`<${ForgetNoteDialog} name=${name} onForgotten=${onForgotten} onClose=${() => setForgetting(false)} />`}
  </article>`;
}

function ForgetNoteDialog({ name, onForgotten, onClose }) {
  const { user } = useSession();
  const forget = async () => {
    await remove(apiPath("memory", "notes", name), { user_id: user });
    toast(`${name} was forgotten.`);
    go("memory", ["notes"], {}, { replace: true });
    onForgotten();
  };
  return html`<${ConfirmDialog} title="Forget this note?" confirm="Forget for good" danger onConfirm=${forget} onClose=${onClose}>
    <p><strong>${name}</strong></p>
    <p>Its file goes from the vault, and with it what search and prompts hold of it. This can't be undone. No memory was made of it.</p>
  <//>`;
}
