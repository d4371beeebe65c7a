// What is written and not sent yet, with its images: a reload of this tab doesn't lose it. It goes with the tab.
import { useLayoutEffect, useState } from "../view.js";

/** What this browser doesn't keep, for being too large or at all, lasts as long as the page. */
const held = new Map();

/** `[text, setText, images, setImages]` of a user's chat; `threadId` is null for one that hasn't begun. */
export function useDraft(user, threadId) {
  return [...useHeld(nameOf(user, threadId, "text"), ""), ...useHeld(nameOf(user, threadId, "images"), [])];
}

function useHeld(name, nothing) {
  const [value, setValue] = useState(() => read(name) ?? nothing);
  // At once, not after the next frame: a reload may come before that.
  useLayoutEffect(() => write(name, value), [name, value]);
  return [value, setValue];
}

/** After what else is being written there. */
export function keepDraft(user, threadId, message) {
  const [text, images] = ["text", "images"].map((kind) => nameOf(user, threadId, kind));
  const both = joined([{ text: read(text) ?? "", images: read(images) ?? [] }, message]);
  write(text, both.text);
  write(images, both.images);
}

/** Messages `{text, images}` as one. */
export const joined = (messages) => ({ text: messages.map(({ text }) => text).filter(Boolean).join("\n\n"), images: messages.flatMap(({ images }) => images) });

/** A message on its way, until the server has it: a reload may come before that. */
export const keepUnsent = (user, threadId, message) => write(nameOf(user, threadId, "unsent"), [...unsent(user, threadId), message]);

/** It has arrived, or is a draft again. */
export function dropUnsent(user, threadId, { text }) {
  const kept = unsent(user, threadId);
  const at = kept.findIndex((each) => each.text === text);
  write(nameOf(user, threadId, "unsent"), kept.filter((_, place) => place !== at));
}

/** The messages that a reload kept from being sent, once. */
export function takeUnsent(user, threadId) {
  const kept = unsent(user, threadId);
  write(nameOf(user, threadId, "unsent"), []);
  return kept;
}

const unsent = (user, threadId) => read(nameOf(user, threadId, "unsent")) ?? [];

const nameOf = (user, threadId, kind) => `recollect.draft ${JSON.stringify([user, threadId, kind])}`;

function read(name) {
  try {
    return held.get(name) ?? JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null; // A browser that keeps nothing has no drafts.
  }
}

function write(name, value) {
  held.delete(name);
  try {
    sessionStorage.removeItem(name);
    if (value.length) sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    held.set(name, value);
  }
}
