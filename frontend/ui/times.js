// Times as people say them, in the zone of the browser. The API speaks UTC milliseconds.
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayAndYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

/** "14:03" today, "8 May" this year, "8 May 2023" before. */
export function shortTime(ms, now = Date.now()) {
  const then = new Date(ms);
  const today = new Date(now);
  if (then.toDateString() === today.toDateString()) return clock.format(then);
  return shortDay(ms, now);
}

/** "8 May", with the year where it isn't this one. */
export function shortDay(ms, now = Date.now()) {
  const then = new Date(ms);
  return (then.getFullYear() === new Date(now).getFullYear() ? day : dayAndYear).format(then);
}

/** For a tooltip: everything. */
export const fullTime = (ms) => whole.format(new Date(ms));

/** "140 ms", "2.4 s", "3 min", "5 h", "2 d". */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** "1,234" as the reader's language writes it. */
export const count = (number) => new Intl.NumberFormat().format(number);
