// What a thread is called where it is shown.
import { shortDay } from "../ui/times.js";

const MADE = /^t_[0-9a-f]{16}$/;

/** Its title; before it has one, when it began. An id says nothing to a person. */
export const threadName = ({ title, thread_id: id, created }) => title || (MADE.test(id) ? "New chat" : `Chat of ${shortDay(created)}`);
