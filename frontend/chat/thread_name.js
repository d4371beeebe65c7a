// What a thread is called where it is shown.
const MADE = /^t_[0-9a-f]{16}$/;

/** Its title; before it has one, the id that somebody gave it. */
export const threadName = ({ title, thread_id: id }) => title || (MADE.test(id) ? "New chat" : id);
