// Days as the browser's zone has them.
const heading = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });

/** "Friday, 8 May 2026" */
export const dayHeading = (ms) => heading.format(new Date(ms));

/** "2026-05-08", as a date field has it. */
export function dayOf(ms) {
  const day = new Date(ms);
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** The first millisecond of "2026-05-08", and the first after it; nothing for what is no day. */
export function boundsOf(day) {
  const [, year, month, date] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day ?? "") ?? [];
  if (!year) return {};
  return { since: +new Date(+year, +month - 1, +date), until: +new Date(+year, +month - 1, +date + 1) };
}

/** Entries with a heading before each day: `{day}` and `{entry}` in turn. */
export function withDays(entries) {
  const items = [];
  let last = null;
  for (const entry of entries) {
    const day = dayOf(entry.when);
    if (day !== last) items.push({ key: `day ${day}`, day: entry.when });
    items.push({ key: entry.id, entry });
    last = day;
  }
  return items;
}
