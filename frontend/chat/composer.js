// Where a message is written. Enter sends, Shift+Enter begins a line.
import { useShortcut } from "../keyboard.js";
import { Icon } from "../ui/icons.js";
import { html, useEffect, useLayoutEffect, useRef } from "../view.js";

const TALLEST = 220;

export function Composer({ text, onText, onSend, onStop, busy, placeholder = "Write a message" }) {
  const field = useRef(null);
  useLayoutEffect(() => {
    field.current.style.height = "auto";
    field.current.style.height = `${Math.min(TALLEST, field.current.scrollHeight)}px`;
  }, [text]);
  // Where focus would bring up a keyboard on the screen, it is left to the reader.
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current.focus();
  }, []);
  useShortcut("write", () => field.current.focus());
  useShortcut("stop", () => busy && onStop());
  const keyed = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (text.trim()) onSend();
  };
  const submitted = (event) => {
    event.preventDefault();
    if (text.trim()) onSend();
  };
  return html`<form class="composer" onSubmit=${submitted}>
    <textarea ref=${field} rows="1" aria-label="Message" placeholder=${placeholder} value=${text} onInput=${(event) => onText(event.target.value)} onKeyDown=${keyed}></textarea>
    ${busy && html`<button key="stop" type="button" class="icon-only round" aria-label="Stop" title="Stop" onClick=${onStop}><${Icon} name="stop" /></button>`}
    ${(!busy || text.trim()) && html`<button key="send" class="primary icon-only round" aria-label="Send" title="Send" disabled=${!text.trim()}><${Icon} name="send" /></button>`}
  </form>`;
}
