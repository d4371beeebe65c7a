// Days and months as the browser's zone has them.
export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
const monthAndYear = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric" });
const monthAlone = new Intl.DateTimeFormat(undefined, { month: "long" });
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

/** Year and month of "2026-05"; nothing for what is no month. */
const partsOf = (month) => /^(\d{4})-(\d\d)$/.exec(month ?? "")?.slice(1).map(Number) ?? [];

/** "May 2026", and "May", of "2026-05". */
export const monthName = (month, { alone = false } = {}) => {
  const [year, number] = partsOf(month);
  return (alone ? monthAlone : monthAndYear).format(new Date(year, number - 1));
};

/** All until the end of "2026-05": the list begins with that month. */
export function endOf(month) {
  const [year, number] = partsOf(month);
  return year ? { until: +new Date(year, number) } : {};
}

/** Entries with a heading before each month and each day: `{month}`, `{day}` and `{entry}` in turn. */
export function withDays(entries) {
  const items = [];
  let last = "";
  for (const entry of entries) {
    const day = dayOf(entry.when);
    const month = day.slice(0, 7);
    if (month !== last.slice(0, 7)) items.push({ key: `month ${month}`, month });
    if (day !== last) items.push({ key: `day ${day}`, day: entry.when });
    items.push({ key: entry.id, entry });
    last = day;
  }
  return items;
}
