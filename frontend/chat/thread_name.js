// What a thread is called where it is shown.
import { shortDay } from "../ui/times.js";

const MADE = /^t_[0-9a-f]{16}$/;

/** Made up by the server: such an id says nothing to a person. */
export const isMade = (id) => MADE.test(id);

/** Its title; before it has one, when it began. */
export const threadName = ({ title, thread_id: id, created, incognito }) => title || (incognito ? "Temporary chat" : isMade(id) ? "New chat" : `Chat of ${shortDay(created)}`);
