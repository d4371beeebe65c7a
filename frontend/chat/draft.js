// What is typed and not sent yet: a reload of this tab doesn't lose it. It goes with the tab.
import { useLayoutEffect, useState } from "../view.js";

/** `[text, setText]` of a user's chat; `threadId` is null for one that hasn't begun. */
export function useDraft(user, threadId) {
  const name = nameOf(user, threadId);
  const [text, setText] = useState(() => read(name));
  // At once, not after the next frame: a reload may come before that.
  useLayoutEffect(() => write(name, text), [name, text]);
  return [text, setText];
}

/** Unless something else is being typed there. */
export function keepDraft(user, threadId, text) {
  const name = nameOf(user, threadId);
  if (!read(name)) write(name, text);
}

const nameOf = (user, threadId) => `recollect.draft ${JSON.stringify([user, threadId])}`;

function read(name) {
  try {
    return sessionStorage.getItem(name) ?? "";
  } catch {
    return ""; // A browser that keeps nothing has no drafts.
  }
}

function write(name, text) {
  try {
    if (text) sessionStorage.setItem(name, text);
    else sessionStorage.removeItem(name);
  } catch {
    // It lasts as long as the page, then.
  }
}
