// What stands around every page: the way between them, and who one is.
import { keep, kept } from "./kept.js";
import { Shortcuts, showShortcuts } from "./keyboard.js";
import { go, href } from "./router.js";
import { chooseUser, keepKey, useSession } from "./session.js";
import { TextDialog } from "./ui/dialog.js";
import { Icon } from "./ui/icons.js";
import { Menu } from "./ui/menu.js";
import { html, useEffect, useState } from "./view.js";

const PLACES = [
  { page: "chat", label: "Chat" },
  { page: "memory", label: "Memory" },
  { page: "prompt", label: "Prompt" },
  { page: "health", label: "Health" },
  { page: "settings", label: "Settings" },
];

export function Shell({ page, onSessionChanged, children }) {
  const title = PLACES.find((place) => place.page === page).label;
  useEffect(() => {
    document.title = `${title} · Recollect`;
  }, [title]);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <div class="shell">
      <nav class="rail" aria-label="Pages">
        <img class="brand" src="web/icon.svg" alt="Recollect" width="32" height="32" />
        ${PLACES.map(
          (place) => html`<a href=${href(place.page)} aria-current=${place.page === page ? "page" : undefined}>
            <${Icon} name=${place.page} size=${20} /><span>${place.label}</span>
          </a>`,
        )}
        <${Account} onSessionChanged=${onSessionChanged} />
      </nav>
      <main id="main" tabindex="-1" class="page page-${page}">${children}</main>
      <${Shortcuts} />
    </div>`;
}

/** The address belongs to the router, so the jump is made by hand. */
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Account({ onSessionChanged }) {
  const { user, chooses } = useSession();
  const [choosing, setChoosing] = useState(false);
  const [theme, setTheme] = useTheme();
  const choose = (name) => {
    chooseUser(name);
    go("chat");
    onSessionChanged();
  };
  const leave = () => {
    keepKey(null);
    go("chat");
    onSessionChanged();
  };
  const items = [
    { label: theme === "dark" ? "Light theme" : "Dark theme", icon: theme === "dark" ? "sun" : "moon", onSelect: () => setTheme(theme === "dark" ? "light" : "dark") },
    kept("theme") && { label: "Theme of the system", icon: "undo", onSelect: () => setTheme(null) },
    chooses && { label: "Another user", icon: "user", onSelect: () => setChoosing(true) },
    { label: "Keyboard shortcuts", icon: "keyboard", onSelect: showShortcuts },
    kept("key") && { label: "Forget the key here", icon: "key", onSelect: leave },
  ];
  return html`<div class="account">
    <${Menu} label=${`Account of ${user}, and theme`} buttonClass="quiet avatar" items=${items}><span class="initials" data-initials=${user.slice(0, 2)}></span><//>
    ${choosing && html`<${TextDialog} title="Another user" label="User id" value=${user} submit="Switch" maxLength="512" onSubmit=${choose} onClose=${() => setChoosing(false)} />`}
  </div>`;
}

/** The theme in force, and a way to choose one; null is the system's. */
function useTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const [chosen, setChosen] = useState(kept("theme"));
  const [dark, setDark] = useState(system.matches);
  useEffect(() => {
    const changed = () => setDark(system.matches);
    system.addEventListener("change", changed);
    return () => system.removeEventListener("change", changed);
  }, []);
  const choose = (theme) => {
    keep("theme", theme);
    setChosen(theme);
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  return [chosen ?? (dark ? "dark" : "light"), choose];
}
