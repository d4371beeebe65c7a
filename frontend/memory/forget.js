// Forgetting a memory, with what will go along said before.
import { apiPath, get, remove } from "../api.js";
import { useSession } from "../session.js";
import { ConfirmDialog } from "../ui/dialog.js";
import { useLoaded } from "../ui/pages.js";
import { Loading, Problem } from "../ui/states.js";
import { toast } from "../ui/toast.js";
import { html } from "../view.js";
import { NamedEntries } from "./named_entries.js";

export function ForgetDialog({ entry, onForgotten, onClose }) {
  const { user } = useSession();
  const path = apiPath("memory", "entries", entry.id);
  const preview = useLoaded((signal) => get(`${path}/deletion`, { user_id: user }, { signal }), [entry.id, user]);
  const forget = async () => {
    const { went_along: along } = await remove(path, { user_id: user });
    toast("Forgotten");
    onForgotten([entry.id, ...along.map((each) => each.id)]);
  };
  return html`<${ConfirmDialog} title="Forget this memory?" confirm="Forget for good" danger onConfirm=${forget} onClose=${onClose}>
    <p><strong>${entry.title}</strong></p>
    <p>It is gone from memory, search, prompts and the vault, with its history. It is never made again, and can't be brought back. The messages it came from stay.</p>
    ${preview.error && html`<${Problem} error=${preview.error} onRetry=${preview.reload} />`}
    ${preview.loading && html`<${Loading} label="Looking what goes along" />`}
    ${preview.value && html`<${Along} deletion=${preview.value} />`}
  <//>`;
}

function Along({ deletion }) {
  const { goes_along: goes, changes } = deletion;
  if (!goes.length && !changes.length) return html`<p>Nothing else goes along.</p>`;
  return html`${goes.length > 0 && html`<${NamedEntries} label="Goes along, because it was made of this alone:" entries=${goes} />`}
  ${changes.length > 0 && html`<${NamedEntries} label="Stays, and no longer names it; what it had superseded holds again:" entries=${changes} />`}`;
}
