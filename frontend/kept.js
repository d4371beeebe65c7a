// What this browser keeps for its user. Where it keeps nothing (a private window may), it lasts as long as the page.
const PREFIX = "recollect.";
const here = new Map();

export function kept(name) {
  if (here.has(name)) return here.get(name);
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** null: no longer. */
export function keep(name, value) {
  here.set(name, value);
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // It is in `here` all the same.
  }
}
