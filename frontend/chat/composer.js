// Where a message is written, and images are put beside it. Enter sends, Shift+Enter begins a line.
import { useShortcut } from "../keyboard.js";
import { Icon } from "../ui/icons.js";
import { html, useEffect, useLayoutEffect } from "../view.js";
import { AttachButton, AttachedImages, pastedImages } from "./attach.js";

const TALLEST = 220;

/** `field`: a reference to where the message is written. `onFiles`: files to send with the message, whatever they are. */
export function Composer({ field, text, onText, images, onFiles, onRemove, onSend, onStop, busy, placeholder = "Write a message" }) {
  const isEmpty = !text.trim() && !images.length;
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
    if (!isEmpty) onSend();
  };
  const submitted = (event) => {
    event.preventDefault();
    if (!isEmpty) onSend();
  };
  const pasted = (event) => {
    const files = pastedImages(event);
    if (!files.length) return;
    event.preventDefault();
    onFiles(files);
  };
  const removed = (image) => {
    onRemove(image);
    field.current.focus();
  };
  return html`<form class="composer" onSubmit=${submitted}>
    <${AttachedImages} images=${images} onRemove=${removed} />
    <${AttachButton} onFiles=${onFiles} />
    <textarea ref=${field} rows="1" aria-label="Message" placeholder=${placeholder} value=${text} onInput=${(event) => onText(event.target.value)} onKeyDown=${keyed} onPaste=${pasted}></textarea>
    ${busy && html`<button key="stop" type="button" class="icon-only round" aria-label="Stop" title="Stop" onClick=${onStop}><${Icon} name="stop" /></button>`}
    ${(!busy || !isEmpty) && html`<button key="send" class="primary icon-only round" aria-label="Send" title="Send" disabled=${isEmpty}><${Icon} name="send" /></button>`}
  </form>`;
}
