// Forgetting a message or a whole chat, with what will go along said before.
import { apiPath, get, remove } from "../api.js";
import { NamedEntries } from "../memory/named_entries.js";
import { useSession } from "../session.js";
import { ConfirmDialog } from "../ui/dialog.js";
import { useLoaded } from "../ui/pages.js";
import { Loading, Problem } from "../ui/states.js";
import { count } from "../ui/times.js";
import { toast } from "../ui/toast.js";
import { html, useState } from "../view.js";
import { wordsOf } from "./parts.js";

const LONGEST_QUOTE = 300;
const CHOICES = [
  ["made", "go too; those that I edited stay"],
  ["all", "go too, also those that I edited"],
  ["none", "stay"],
];

export function ForgetMessageDialog({ threadId, turn, onForgotten, onClose }) {
  const { user } = useSession();
  const isSaid = turn.role === "user";
  const [answers, setAnswers] = useState(isSaid);
  const path = apiPath("threads", threadId, "turns", turn.turn_id);
  const forget = async () => {
    const { turn_ids: gone } = await remove(path, { user_id: user, answers });
    toast(forgotten(gone.length));
    onForgotten();
  };
  return html`<${ConfirmDialog} title="Forget this message?" confirm="Forget for good" danger onConfirm=${forget} onClose=${onClose}>
    <blockquote class="verbatim">${wordsOf(turn).slice(0, LONGEST_QUOTE)}</blockquote>
    ${isSaid && html`<label class="check"><input type="checkbox" checked=${answers} onChange=${(event) => setAnswers(event.target.checked)} />With the answers to it</label>`}
    <${GoesAlong} path=${`${path}/deletion`} query=${{ user_id: user, answers }} />
  <//>`;
}

export function ForgetThreadDialog({ threadId, name, onForgotten, onClose }) {
  const { user } = useSession();
  const [memories, setMemories] = useState("made");
  const path = apiPath("threads", threadId);
  const forget = async () => {
    const { forgotten: number } = await remove(path, { user_id: user, memories });
    toast(forgotten(number));
    onForgotten();
  };
  return html`<${ConfirmDialog} title="Delete this chat?" confirm="Delete" danger onClose=${onClose} onConfirm=${forget}>
    <p><strong>${name}</strong></p>
    <fieldset class="choices">
      <legend>Memories made from it</legend>
      ${CHOICES.map(([value, label]) => html`<label class="check"><input type="radio" name="memories" value=${value} checked=${memories === value} onChange=${() => setMemories(value)} />${label}</label>`)}
    </fieldset>
    <${GoesAlong} path=${`${path}/deletion`} query=${{ user_id: user, memories }} />
  <//>`;
}

function GoesAlong({ path, query }) {
  const preview = useLoaded((signal) => get(path, query, { signal }), [path, ...Object.values(query)]);
  if (preview.error) return html`<${Problem} error=${preview.error} onRetry=${preview.reload} />`;
  if (!preview.value) return html`<${Loading} label="Looking what goes along" />`;
  const { turns, entries, goes_along: named } = preview.value;
  return html`<p>${messages(turns)} ${turns === 1 ? "goes" : "go"} from the chat, the vault, search and every prompt. This can't be undone.</p>
    ${entries === 0 && html`<p>No memory goes along.</p>`}
    ${entries > 0 && html`<${NamedEntries} label="Goes along, because it came from there; what else supports it is read again:" entries=${named} />`}
    ${entries > named.length && html`<p>And ${count(entries - named.length)} more.</p>`}`;
}

const messages = (number) => `${count(number)} ${number === 1 ? "message" : "messages"}`;
const forgotten = (number) => `${messages(number)} ${number === 1 ? "was" : "were"} forgotten.`;
