// The timeline: months in which something happened, with how much, the newest first. Each leads to its place in the list.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { useLoaded } from "../ui/pages.js";
import { Problem } from "../ui/states.js";
import { count } from "../ui/times.js";
import { html, useEffect, useRef } from "../view.js";
import { monthName, timeZone } from "./days.js";

/** `{months, error, reload}`; read again when `inputs` change. */
export function useMonths(kinds, inputs) {
  const { user } = useSession();
  const { value, error, reload } = useLoaded((signal) => get(apiPath("memory", "months"), { user_id: user, kind: kinds, time_zone: timeZone() }, { signal }), [user, kinds.join(), ...inputs]);
  return { months: value?.months ?? [], error, reload };
}

/** `shown`: the month that the list shows. One month alone needs no timeline. */
export function Months({ months, error, reload, shown, section, query }) {
  const rail = useRef(null);
  useEffect(() => rail.current?.querySelector("[aria-current]")?.scrollIntoView?.({ block: "nearest", inline: "nearest" }), [shown, months]);
  if (error) return html`<${Problem} error=${error} onRetry=${reload} />`;
  if (months.length < 2) return null;
  return html`<nav class="months" ref=${rail} aria-label="Months">
    <ol>
      ${months.map(
        ({ month, entries }, at) => html`<li key=${month}>
          ${month.slice(0, 4) !== months[at - 1]?.month.slice(0, 4) && html`<span class="months-year" aria-hidden="true">${month.slice(0, 4)}</span>`}
          <a href=${href("memory", [section], { ...query, day: "", month: at ? month : "" })} aria-current=${month === shown ? "true" : undefined}>
            <span>${monthName(month, { alone: true })}<span class="hidden-label"> ${month.slice(0, 4)}, </span></span>
            <span class="months-count">${count(entries)}</span>
          </a>
        </li>`,
      )}
    </ol>
  </nav>`;
}
