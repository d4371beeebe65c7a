// Short messages at the edge of the page, read out by screen readers.
import { html, useEffect, useState } from "../view.js";
import { Icon } from "./icons.js";
import { explained } from "./words.js";

const SECONDS = 6;
const shown = new Set();
let redraw = () => {};
let made = 0;

/** `toast("Saved")`, `toast("Deleted", {action: "Undo", onAction})`, `toast(error)`. */
export function toast(message, { kind, action, onAction } = {}) {
  const failed = message instanceof Error;
  const one = { id: ++made, text: failed ? explained(message) : message, kind: kind ?? (failed ? "danger" : "plain"), action, onAction };
  shown.add(one);
  setTimeout(() => dismiss(one), (failed ? 2 : 1) * SECONDS * 1000);
  redraw();
}

function dismiss(one) {
  shown.delete(one);
  redraw();
}

export function Toasts() {
  const [, again] = useState(0);
  useEffect(() => {
    redraw = () => again((number) => number + 1);
    redraw();
    return () => (redraw = () => {});
  }, []);
  const act = (one) => {
    dismiss(one);
    one.onAction();
  };
  return html`<div class="toasts" role="status" aria-live="polite">
    ${[...shown].map(
      (one) => html`<div class="toast ${one.kind}" key=${one.id}>
        <span>${one.text}</span>
        ${one.action && html`<button class="quiet" onClick=${() => act(one)}>${one.action}</button>`}
        <button class="quiet icon-only" aria-label="Dismiss" onClick=${() => dismiss(one)}><${Icon} name="close" size=${16} /></button>
      </div>`,
    )}
  </div>`;
}
