// Writing a memory by hand. It is the owner's word: it wins over what was said before.
import { apiPath, post } from "../api.js";
import { useSession } from "../session.js";
import { Dialog } from "../ui/dialog.js";
import { Icon } from "../ui/icons.js";
import { toast } from "../ui/toast.js";
import { explained } from "../ui/words.js";
import { html, useState } from "../view.js";

const LONGEST = 20_000;

/** `onAdded(entry)` */
export function AddMemory({ onAdded }) {
  const [open, setOpen] = useState(false);
  return html`<button class="small" onClick=${() => setOpen(true)}><${Icon} name="plus" size=${14} />Add a memory</button>
    ${open && html`<${AddDialog} onAdded=${onAdded} onClose=${() => setOpen(false)} />`}`;
}

function AddDialog({ onAdded, onClose }) {
  const { user } = useSession();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const add = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const entry = await post(apiPath("memory", "entries"), { user_id: user, text: text.trim() });
      onClose();
      toast("Added. It holds until something that is said later replaces it.");
      onAdded(entry);
    } catch (error) {
      setProblem(explained(error));
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Add a memory" onClose=${onClose}>
    <form onSubmit=${add}>
      <label class="field">
        <span>What should be remembered</span>
        <textarea rows="4" maxlength=${LONGEST} required autofocus placeholder="I am allergic to walnuts." value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
      </label>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <footer>
        <button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary" disabled=${busy || !text.trim()}>Add</button>
      </footer>
    </form>
  <//>`;
}
