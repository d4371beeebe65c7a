// Where the server wants a key before it shows anything.
import { readSession, keepKey } from "./session.js";
import { html, useState } from "./view.js";

const UNKNOWN = "The server doesn't know this key, or it was revoked.";
/** What a header can carry. No key holds anything else. */
const SENDABLE = /^[!-~]+$/;

export function KeyEntry({ onEntered }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const enter = async (event) => {
    event.preventDefault();
    if (!SENDABLE.test(key.trim())) {
      setProblem(UNKNOWN);
      return;
    }
    setBusy(true);
    keepKey(key.trim());
    try {
      await readSession();
      onEntered();
    } catch (error) {
      keepKey(null);
      setProblem(error.status === 401 ? UNKNOWN : error.message);
      setBusy(false);
    }
  };
  return html`<main class="alone">
    <form class="card key-entry" onSubmit=${enter}>
      <img src="web/icon.svg" alt="" width="40" height="40" />
      <h1>This server wants a key</h1>
      <p>Whoever runs it makes one with <code>recollect keys create</code>. It is kept in this browser, and sent to this server alone.</p>
      <label class="field">
        <span>API key</span>
        <input type="password" value=${key} placeholder="rk_…" autocomplete="off" autofocus onInput=${(event) => setKey(event.target.value)} />
      </label>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <button class="primary" disabled=${busy || !key.trim()}>Continue</button>
    </form>
  </main>`;
}
