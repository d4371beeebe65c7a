// The profile as a page: what holds about a person, each line with a way to its sources.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { Empty, Loading, Problem } from "../ui/states.js";
import { fullTime, shortDay } from "../ui/times.js";
import { html } from "../view.js";

export function Profile() {
  const { user } = useSession();
  const page = useLoaded((signal) => get(apiPath("users", user, "profile"), {}, { signal }), [user]);
  if (page.error) return html`<${Problem} error=${page.error} onRetry=${page.reload} />`;
  if (!page.value) return html`<${Loading} />`;
  const { entries } = page.value;
  if (!entries.length) return html`<${Empty} icon="user" title="Nothing is known about ${user} yet">The profile is made of facts that hold; it grows with conversations.<//>`;
  return html`<div class="column profile">
    <h2>${user}</h2>
    <p class="muted">Made of the facts that hold. Each line leads to its sources; what you change in a line changes its fact.</p>
    ${byCategory(entries).map(
      ([title, lines]) => html`<section class="card" key=${title} aria-label=${title}>
        <h3>${title}</h3>
        <ul class="plain-list">${lines.map((line) => html`<li key=${line.id}><${Line} line=${line} /></li>`)}</ul>
      </section>`,
    )}
  </div>`;
}

function Line({ line }) {
  return html`<a class="profile-line" href=${href("memory", ["entries", line.id])}>
    <span>${line.text}</span>
    <span class="row-head">
      ${line.pinned && html`<span class="chip good"><${Icon} name="pin" size=${12} />pinned</span>`}
      ${line.edited && html`<span class="chip">edited</span>`}
      <time class="row-time" title=${fullTime(line.when)} datetime=${new Date(line.when).toISOString()}>${shortDay(line.when)}</time>
    </span>
  </a>`;
}

/** In the order in which the lines come. */
function byCategory(entries) {
  const groups = new Map();
  for (const entry of entries) {
    const title = heading(entry.properties.category ?? "other");
    groups.set(title, [...(groups.get(title) ?? []), entry]);
  }
  return [...groups];
}

const heading = (category) => category.charAt(0).toUpperCase() + category.slice(1);
