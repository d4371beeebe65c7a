// Files that are dragged onto a part of the page.
import { Icon } from "./icons.js";
import { html, useState } from "../view.js";

/** `{zone, hint}`: attributes of the element that takes the files, and what to draw in it. */
export function useDrop(onFiles, invitation) {
  const [over, setOver] = useState(false);
  const dragged = (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    setOver(event.type === "dragover");
  };
  const left = (event) => {
    if (!event.currentTarget.contains(event.relatedTarget)) setOver(false);
  };
  const dropped = (event) => {
    event.preventDefault();
    setOver(false);
    onFiles([...event.dataTransfer.files]);
  };
  return {
    zone: { onDragEnter: dragged, onDragOver: dragged, onDragLeave: left, onDrop: dropped },
    hint: over && html`<div class="drop-hint"><${Icon} name="upload" size=${28} /><strong>${invitation}</strong></div>`,
  };
}
