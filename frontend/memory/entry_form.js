// Correcting a memory. What a person writes wins over all that was said before.
import { html, useState } from "../view.js";
import { toast } from "../ui/toast.js";

const LONGEST = 20_000;

/** `onSave(changes)` may fail: what was typed stays. */
export function EntryForm({ entry, onSave, onReload, onClose }) {
  const alike = entry.title === entry.text;
  const [title, setTitle] = useState(entry.title);
  const [text, setText] = useState(entry.text);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const save = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await onSave(changes());
      toast("Saved. It holds until something that is said later replaces it.");
      onClose();
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  /** A memory of one sentence is its own title. */
  const changes = () => ({ title: alike ? text.trim().split("\n")[0] : title.trim(), text });
  return html`<form class="entry-form" aria-label="Edit the memory" onSubmit=${save}>
    ${!alike && html`<label class="field"><span>Title</span><input value=${title} maxlength="1000" required onInput=${(event) => setTitle(event.target.value)} /></label>`}
    <label class="field">
      <span>Text</span>
      <textarea rows=${alike ? 3 : 10} maxlength=${LONGEST} required autofocus value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
    </label>
    ${problem && html`<p class="problem" role="alert">${problem.message}</p>`}
    <div class="entry-actions">
      <button class="primary" disabled=${busy || !text.trim()}>Save</button>
      <button type="button" onClick=${onClose}>Cancel</button>
      ${problem?.code === "conflict" && html`<button type="button" onClick=${() => (onClose(), onReload())}>Read it again</button>`}
    </div>
  </form>`;
}
