// Dialogs on the browser's own <dialog>: it traps focus and closes on Escape.
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../view.js";
import { Icon } from "./icons.js";
import { toast } from "./toast.js";
import { explained } from "./words.js";

/** Shown for as long as it is rendered. Without `onClose` it can't be closed. */
export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef(null);
  const label = useId();
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      // The browser gives focus back to what is there when it closes by itself; this one is taken out of the page.
      const goesTo = before?.isConnected && before !== document.body ? before : document.getElementById("main");
      goesTo?.focus();
    };
  }, []);
  const cancelled = (event) => {
    event.preventDefault();
    onClose?.();
  };
  const pressed = useRef(null);
  const clicked = (event) => {
    // A text that is selected with the mouse may end outside.
    if (event.target === element.current && pressed.current === element.current) onClose?.();
  };
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby=${label} onCancel=${cancelled} onPointerDown=${(event) => (pressed.current = event.target)} onClick=${clicked}>
    <div class="dialog-body">
      <header>
        <h2 id=${label}>${title}</h2>
        ${onClose && html`<button class="quiet icon-only" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>`}
      </header>
      ${children}
    </div>
  </dialog>`;
}

/** A dialog whose script comes when it is wanted: `load` imports it, `part` is its name there. The rest is for the dialog. */
export function LoadedDialog({ load, part, ...rest }) {
  const [Loaded, setLoaded] = useState(null);
  useEffect(() => {
    load().then((script) => setLoaded(() => script[part]), () => {
      toast(new Error("This can't be loaded. Is the server running?"));
      rest.onClose();
    });
  }, []);
  return Loaded && html`<${Loaded} ...${rest} />`;
}

/** Asks before something is done; `onConfirm` may take its time, and its failure is shown. */
export function ConfirmDialog({ title, confirm, danger = false, onConfirm, onClose, children }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const act = async () => {
    setBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      setProblem(explained(error));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <div class="dialog-text">${children}</div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <footer>
      <button onClick=${onClose}>Cancel</button>
      <button class=${danger ? "danger" : "primary"} disabled=${busy} onClick=${act}>${confirm}</button>
    </footer>
  <//>`;
}

/** Asks for one line of text. `onSubmit` as `onConfirm` above. */
export function TextDialog({ title, label, value = "", submit = "Save", onSubmit, onClose, maxLength = 1000 }) {
  const [text, setText] = useState(value);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const act = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onSubmit(text.trim());
      onClose();
    } catch (error) {
      setProblem(explained(error));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${act}>
      <label class="field">
        <span>${label}</span>
        <input value=${text} maxlength=${maxLength} autofocus onInput=${(event) => setText(event.target.value)} />
      </label>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <footer>
        <button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary" disabled=${busy || !text.trim()}>${submit}</button>
      </footer>
    </form>
  <//>`;
}
