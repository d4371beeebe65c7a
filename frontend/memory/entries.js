// Memories: browsed by kind, month and day or searched at the left, one of them read at the right.
import { apiPath, get } from "../api.js";
import { go, href } from "../router.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { usePages } from "../ui/pages.js";
import { Empty, Loading, Problem } from "../ui/states.js";
import { count, shortTime } from "../ui/times.js";
import { VirtualList } from "../ui/virtual_list.js";
import { html, useCallback, useEffect, useMemo, useState } from "../view.js";
import { boundsOf, dayHeading, dayOf, endOf, monthName, withDays } from "./days.js";
import { EntryPage } from "./entry.js";
import { Hits } from "./hits.js";
import { handName, KINDS, kindName } from "./kinds.js";
import { Months, useMonths } from "./months.js";

const PAGE = 100;
const PAUSE_MS = 300;

/** `searchable`: search looks at them. It does at a user's, not at an agent's. */
export function Entries({ section, kinds, searchable = false, chosen, query }) {
  const { user } = useSession();
  const { day = "", month = "" } = query;
  const kind = kinds.includes(query.kind) ? query.kind : "";
  const q = searchable ? (query.q ?? "") : "";
  const wanted = kind ? [kind] : kinds;
  const list = usePages(
    async (after, signal) => {
      const asked = { user_id: user, kind: wanted, limit: PAGE, after, ...(day ? boundsOf(day) : endOf(month)) };
      const { entries, next } = await get(apiPath("memory", "entries"), asked, { signal });
      return { items: entries, next };
    },
    [user, section, wanted.join(), day, month],
  );
  const [removed, setRemoved] = useState(0);
  const narrow = useCallback((changes) => go("memory", [section], { ...query, ...changes }, { replace: true }), [section, query]);
  const changed = useCallback((entry) => list.setItems((items) => items.map((each) => (each.id === entry.id ? { ...each, ...entry } : each))), [list.setItems]);
  const forgotten = useCallback(
    (ids) => {
      list.setItems((items) => items.filter((each) => !ids.includes(each.id)));
      setRemoved((before) => before + 1);
      go("memory", [section], query, { replace: true });
    },
    [list.setItems, section, query],
  );
  return html`<div class="panes ${chosen ? "has-chosen" : ""}">
    <section class="pane-list" aria-label="Find a memory">
      <${Filters} kinds=${kinds} kind=${kind} day=${day} q=${q} searchable=${searchable} onChange=${narrow} />
      ${q
        ? html`<${Hits} q=${q} kind=${kind} day=${day} section=${section} query=${query} chosen=${chosen} />`
        : searchable
          ? html`<${Timeline} kinds=${wanted} removed=${removed} list=${list} section=${section} query=${query} chosen=${chosen} />`
          : html`<${List} list=${list} section=${section} query=${query} chosen=${chosen} />`}
    </section>
    <section class="pane-detail" aria-label="The chosen memory">
      ${chosen
        ? html`<a class="button quiet back" href=${href("memory", [section], query)}><${Icon} name="left" />Back to the list</a>
            <${EntryPage} key=${chosen} id=${chosen} section=${section} onChanged=${changed} onForgotten=${forgotten} />`
        : html`<${Empty} icon="memory" title="Choose a memory">It is shown here with the words it came from.<//>`}
    </section>
  </div>`;
}

function Filters({ kinds, kind, day, q, searchable, onChange }) {
  const [text, setText] = useState(q);
  useEffect(() => setText(q), [q]);
  useEffect(() => {
    if (text.trim() === q) return undefined;
    const timer = setTimeout(() => onChange({ q: text.trim() }), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<form class="filters" role="search" aria-label="Memories" onSubmit=${(event) => (event.preventDefault(), onChange({ q: text.trim() }))}>
    ${searchable &&
    html`<div class="search-field">
      <${Icon} name="search" />
      <input type="search" aria-label="Search memories" placeholder="Search by words and meaning" value=${text} maxlength="1000" onInput=${(event) => setText(event.target.value)} />
    </div>`}
    <div class="filter-row">
      ${kinds.length > 1 &&
      html`<div class="kinds" role="group" aria-label="Kind">
        ${["", ...kinds].map(
          (each) => html`<button type="button" class="small" aria-pressed=${each === kind} onClick=${() => onChange({ kind: each })}>${each ? KINDS[each].many : "All"}</button>`,
        )}
      </div>`}
      <input type="date" class="day" aria-label="Day" value=${day} onChange=${(event) => onChange({ day: event.target.value, month: "" })} />
    </div>
  </form>`;
}

/** A memory of one sentence is its own title. */
const saysMore = ({ title, text }) => text !== title;
const heightOf = (item) => (item.entry ? (saysMore(item.entry) ? 84 : 64) : item.month ? 42 : 38);
const keyOf = (item) => item.key;
const isHeading = (item) => !item.entry;

/** The list, with the months beside it; the one that stands at the top of the list is marked. */
function Timeline({ kinds, removed, list, section, query, chosen }) {
  const { months, error, reload } = useMonths(kinds, [removed]);
  const [top, setTop] = useState("");
  const counts = useMemo(() => new Map(months.map(({ month, entries }) => [month, entries])), [months]);
  const seen = useCallback((item) => setTop(item.month ?? dayOf(item.day ?? item.entry.when).slice(0, 7)), []);
  return html`<div class="timeline">
    <${Months} months=${months} error=${error} reload=${reload} shown=${top} section=${section} query=${query} />
    <${List} list=${list} counts=${counts} onTop=${seen} section=${section} query=${query} chosen=${chosen} />
  </div>`;
}

function List({ list, counts, onTop, section, query, chosen }) {
  const items = useMemo(() => withDays(list.items), [list.items]);
  const row = useCallback(
    (item) => {
      if (item.entry) return html`<${Row} entry=${item.entry} section=${section} query=${query} chosen=${item.entry.id === chosen} />`;
      if (item.day) return html`<h3 class="day-heading">${dayHeading(item.day)}</h3>`;
      return html`<h2 class="month-heading">${monthName(item.month)}${!query.day && counts?.has(item.month) && html`<span class="hidden-label">, </span><span class="months-count">${count(counts.get(item.month))}</span>`}</h2>`;
    },
    [section, query, chosen, counts],
  );
  if (!items.length && list.loading) return html`<${Loading} />`;
  if (list.error && !items.length) return html`<${Problem} error=${list.error} onRetry=${list.reload} />`;
  if (!items.length) return html`<${Nothing} section=${section} narrowed=${Boolean(query.kind || query.day || query.month)} />`;
  return html`<div class="pane-scroll">
    <${VirtualList} items=${items} keyOf=${keyOf} rowHeight=${heightOf} row=${row} isHeading=${isHeading} onTop=${onTop} onEnd=${list.loadMore} label="Memories">
      ${list.error && html`<${Problem} error=${list.error} onRetry=${list.loadMore} />`}
    <//>
  </div>`;
}

function Nothing({ section, narrowed }) {
  if (narrowed) return html`<${Empty} icon="search" title="None of that kind or time" />`;
  if (section === "cases") return html`<${Empty} icon="spark" title="No cases yet">A case is made of a conversation in which an agent used tools.<//>`;
  return html`<${Empty} icon="memory" title="Nothing is remembered yet">Memories are made of conversations, a while after they have paused.<//>`;
}

function Row({ entry, section, query, chosen }) {
  return html`<a class="memory-row" href=${href("memory", [section, entry.id], query)} aria-current=${chosen ? "true" : undefined}>
    <span class="row-head">
      <span class="chip">${kindName(entry.kind)}</span>
      ${entry.pinned && html`<span class="chip good"><${Icon} name="pin" size=${12} />pinned</span>`}
      ${entry.edited && html`<span class="chip">${handName(entry)}</span>`}
      ${entry.superseded_by && html`<span class="chip warning">superseded</span>`}
      <time class="row-time" datetime=${new Date(entry.when).toISOString()}>${shortTime(entry.when)}</time>
    </span>
    <strong>${entry.title}</strong>
    ${saysMore(entry) && html`<span class="row-text">${entry.text}</span>`}
  </a>`;
}
