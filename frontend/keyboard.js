// Shortcuts of the keyboard, and the list of them. What a shortcut does is said by the part of the page that can do it.
import { go } from "./router.js";
import { Dialog } from "./ui/dialog.js";
import { html, useEffect, useRef, useState } from "./view.js";

const MAC = /Mac|iP(hone|ad)/.test(navigator.platform);
const COMMAND = MAC ? "⌘" : "Ctrl";
const SHORTCUTS = [
  { name: "new", keys: [COMMAND, "Shift", "O"], label: "New chat" },
  { name: "search", keys: [COMMAND, "K"], label: "Search chats" },
  { name: "write", keys: ["Shift", "Esc"], label: "Write a message" },
  { name: "stop", keys: ["Esc"], label: "Stop the answer" },
  { name: "help", keys: ["?"], label: "These shortcuts (while you write: " + COMMAND + " and /)" },
];
const TYPED_IN = "input, textarea, select, [contenteditable]";
const LAYERS = "dialog[open], :popover-open";
const handlers = new Map();
let wanted = null;

/** `act` is done while this is shown; where it wasn't yet, as soon as it is. */
export function useShortcut(name, act) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const run = () => latest.current();
    handlers.set(name, run);
    if (wanted === name) {
      wanted = null;
      run();
    }
    return () => handlers.get(name) === run && handlers.delete(name);
  }, [name]);
}

/** Opens the list, as `?` does. */
export const showShortcuts = () => handlers.get("help")?.();

export function Shortcuts() {
  const [shown, setShown] = useState(false);
  useShortcut("help", () => setShown(true));
  useEffect(() => {
    const pressed = (event) => {
      const name = nameOf(event);
      if (!name || event.defaultPrevented || event.isComposing || document.querySelector(LAYERS)) return;
      if (name !== "stop") event.preventDefault();
      act(name);
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  return shown && html`<${Dialog} title="Keyboard shortcuts" onClose=${() => setShown(false)}>
    <dl class="shortcuts">
      ${SHORTCUTS.map(({ keys, label }) => html`<div><dt>${label}</dt><dd>${keys.map((key) => html`<kbd>${key}</kbd>`)}</dd></div>`)}
    </dl>
    <p class="muted small-text">Enter sends a message, Shift and Enter begin a line. In lists and menus the arrow keys, Home and End move.</p>
  <//>`;
}

function nameOf(event) {
  const command = MAC ? event.metaKey : event.ctrlKey;
  if (event.key === "Escape") return event.shiftKey ? "write" : "stop";
  if (command && event.shiftKey && event.code === "KeyO") return "new";
  if (command && !event.shiftKey && event.code === "KeyK") return "search";
  if (command ? event.key === "/" : event.key === "?" && !event.target.closest?.(TYPED_IN)) return "help";
  return null;
}

function act(name) {
  if (name === "new") {
    go("chat");
    act("write");
  } else if (handlers.has(name)) {
    handlers.get(name)();
  } else if (name !== "stop") {
    wanted = name;
    setTimeout(() => (wanted = null), 2000);
    go("chat");
  }
}
