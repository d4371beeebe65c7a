// A button with a list of things to do, on the browser's own popover: on top of everything, closed by Escape or a click outside.
import { html, useLayoutEffect, useRef, useState } from "../view.js";
import { Icon } from "./icons.js";

const GAP = 4;

/** `items`: `{label, icon, danger, onSelect}`, or `{label, icon, href}`. `children` is what the button shows. */
export function Menu({ label, items, children, buttonClass = "quiet icon-only" }) {
  const [open, setOpen] = useState(false);
  const button = useRef(null);
  const list = useRef(null);

  // There is no list until it is wanted: a page may hold very many of these buttons.
  useLayoutEffect(() => {
    if (!open) return;
    list.current.showPopover();
    const from = button.current.getBoundingClientRect();
    const { style, offsetWidth, offsetHeight } = list.current;
    const below = from.bottom + GAP + offsetHeight <= innerHeight;
    style.left = `${Math.max(GAP, Math.min(from.right - offsetWidth, innerWidth - offsetWidth - GAP))}px`;
    style.top = `${below ? from.bottom + GAP : Math.max(GAP, from.top - GAP - offsetHeight)}px`;
    list.current.querySelector("[role=menuitem]")?.focus();
  }, [open]);
  const toggled = (event) => {
    if (event.newState !== "closed") return;
    if (list.current?.contains(document.activeElement)) button.current.focus();
    setOpen(false);
  };
  const move = (event) => {
    const entries = [...list.current.querySelectorAll("[role=menuitem]")];
    const at = entries.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    entries.at(to % entries.length).focus();
  };
  const select = (item) => {
    button.current.focus();
    setOpen(false);
    item.onSelect?.();
  };
  return html`<button ref=${button} type="button" class=${buttonClass} aria-haspopup="menu" aria-expanded=${open} aria-label=${label} title=${label} onClick=${() => setOpen(!open)}>
      ${children ?? html`<${Icon} name="more" />`}
    </button>
    ${open && html`<div ref=${list} class="menu" popover="auto" role="menu" aria-label=${label} onToggle=${toggled} onKeyDown=${move}>
      ${items.filter(Boolean).map((item) =>
        item.href
          ? html`<a role="menuitem" tabindex="-1" href=${item.href} onClick=${() => select(item)}><${Icon} name=${item.icon} />${item.label}</a>`
          : html`<button type="button" role="menuitem" tabindex="-1" class=${item.danger ? "danger-text" : ""} onClick=${() => select(item)}>
              <${Icon} name=${item.icon} />${item.label}
            </button>`,
      )}
    </div>`}`;
}
