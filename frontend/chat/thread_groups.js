// The days and months under which chats are listed.
const month = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric" });
const DAY_MS = 86_400_000;

/** Threads as they are sorted, with a heading before each group. */
export function withGroups(threads, now = Date.now()) {
  const items = [];
  let last = null;
  for (const thread of threads) {
    const heading = groupOf(thread, now);
    if (heading !== last) items.push({ key: `group ${heading}`, heading });
    items.push(thread);
    last = heading;
  }
  return items;
}

function groupOf({ pinned, updated }, now) {
  if (pinned) return "Pinned";
  const today = new Date(now).setHours(0, 0, 0, 0);
  if (updated >= today) return "Today";
  // The middle of the day before: a day may have 23 or 25 hours.
  if (updated >= new Date(today - DAY_MS / 2).setHours(0, 0, 0, 0)) return "Yesterday";
  if (updated >= new Date(today - 6.5 * DAY_MS).setHours(0, 0, 0, 0)) return "The last seven days";
  return month.format(new Date(updated));
}
