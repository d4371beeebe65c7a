// What stands where something will be, is not, or could not be read.
import { html } from "../view.js";
import { Icon } from "./icons.js";
import { explained } from "./words.js";

export function Loading({ label = "Loading" }) {
  return html`<div class="state" role="status"><span class="spinner" aria-hidden="true"></span><span>${label}…</span></div>`;
}

export function Empty({ icon = "info", title, children }) {
  return html`<div class="state"><${Icon} name=${icon} size=${28} /><strong>${title}</strong>${children && html`<p>${children}</p>`}</div>`;
}

export function Problem({ error, onRetry }) {
  return html`<div class="state problem" role="alert">
    <${Icon} name="warning" size=${24} />
    <p>${explained(error)}</p>
    ${onRetry && html`<button onClick=${onRetry}><${Icon} name="again" />Try again</button>`}
  </div>`;
}
