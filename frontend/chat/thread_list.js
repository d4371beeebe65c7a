// The threads at the side: the last used first, pinned ones above; found by title, or by what was said in them.
import { apiPath, get, getBlob, patch, post } from "../api.js";
import { useShortcut } from "../keyboard.js";
import { currentRoute, go, href } from "../router.js";
import { useSession } from "../session.js";
import { LoadedDialog, TextDialog } from "../ui/dialog.js";
import { Icon } from "../ui/icons.js";
import { Menu } from "../ui/menu.js";
import { usePages } from "../ui/pages.js";
import { Loading, Problem } from "../ui/states.js";
import { saveAs } from "../ui/save.js";
import { shortTime } from "../ui/times.js";
import { toast } from "../ui/toast.js";
import { VirtualList } from "../ui/virtual_list.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../view.js";
import { onThreadChanged, threadChanged } from "./changes.js";
import { withGroups } from "./thread_groups.js";
import { threadName } from "./thread_name.js";

const ROW = 44;
const HEADING = 32;
const PAGE = 100;
const MOST_FOUND = 20;
const TYPING_MS = 200;

/** The lists there are: what each is asked for, and what it says where it is empty. */
const LISTS = {
  chats: { filter: { archived: false, one_shot: false }, nothing: "No chats yet." },
  api: { filter: { archived: false, one_shot: true }, nothing: "No single calls through the API.", label: "API", icon: "code" },
  archived: { filter: { archived: true }, nothing: "Nothing is archived.", label: "Archived", icon: "archive" },
};
const OTHERS = ["api", "archived"];

export function ThreadList({ selected, onSelect, onOpen, onCount }) {
  const { user } = useSession();
  const [typed, setTyped] = useState("");
  const field = useRef(null);
  useShortcut("search", () => {
    onOpen();
    requestAnimationFrame(() => field.current.focus());
  });
  const words = useSettled(typed.trim(), TYPING_MS);
  const [shown, setShown] = useState("chats");
  const { filter, nothing } = LISTS[shown];
  const list = usePages((after, signal) => readPage(user, words, filter, after, signal), [user, words, filter]);
  useChanges(list, user, words, filter);
  useEffect(() => {
    if (!list.loading && !list.error && !words && shown === "chats") onCount(list.items.length);
  }, [list.loading, list.items.length, words, shown]);
  const items = useMemo(() => (words ? list.items : withGroups(list.items)), [words, list.items]);

  const row = useCallback((item) => item.heading ? html`<h2 class="thread-group">${item.heading}</h2>` : html`<${Row} item=${item} selected=${item.thread_id === selected} onSelect=${onSelect} />`, [selected, onSelect]);
  return html`<div class="threads">
    <div class="threads-head">
      <a class="button" href=${href("chat")} onClick=${onSelect}><${Icon} name="plus" />New chat</a>
      <label class="search-field">
        <span class="hidden-label">Search chats</span>
        <${Icon} name="search" size=${16} />
        <input ref=${field} type="search" placeholder="Search chats" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
      </label>
    </div>
    <div class="threads-body">
      ${list.error && !list.items.length
        ? html`<${Problem} error=${list.error} onRetry=${list.reload} />`
        : html`<${VirtualList} label="Chats" items=${items} keyOf=${keyOf} rowHeight=${heightOf} isHeading=${isHeading} row=${row} onEnd=${list.loadMore}>
            ${list.error && html`<${Problem} error=${list.error} onRetry=${list.more ? list.loadMore : list.reload} />`}
            ${list.loading && !list.items.length && html`<${Loading} />`}
            ${!list.loading && !list.items.length && html`<p class="nothing">${words ? "Nothing found." : nothing}</p>`}
          <//>`}
    </div>
    <div class="other-lists">
      ${OTHERS.map((name) => html`<button class="quiet small" aria-pressed=${shown === name} onClick=${() => setShown(shown === name ? "chats" : name)}><${Icon} name=${LISTS[name].icon} size=${16} />${LISTS[name].label}</button>`)}
    </div>
  </div>`;
}

/** A thread that changed takes its new place; the rest of the list stays where it is. */
function useChanges({ items, more, reload, setItems }, user, words, filter) {
  useEffect(
    () =>
      onThreadChanged(async ({ threadId }) => {
        if (words) return reload();
        try {
          const thread = await readThread(threadId, user);
          return setItems((before) => placed(before.filter((item) => item.thread_id !== threadId), thread && isListed(thread, filter) ? thread : null, more));
        } catch (error) {
          return toast(error);
        }
      }),
    [items, more, reload, user, words, filter],
  );
}

const isListed = (thread, filter) => Object.entries(filter).every(([name, value]) => thread[name] === value);

/** Null for one that is gone: it leaves the list. */
const readThread = (threadId, user) =>
  get(apiPath("threads", threadId), { user_id: user }).catch((error) => {
    if (error.status !== 404) throw error;
    return null;
  });

function placed(threads, thread, more) {
  if (!thread) return threads;
  const at = threads.findIndex((other) => standsBefore(thread, other));
  if (at < 0) return more ? threads : [...threads, thread];
  return threads.toSpliced(at, 0, thread);
}

/** As the server sorts: pinned ones first, then the last used. */
function standsBefore(one, other) {
  if (one.pinned !== other.pinned) return one.pinned;
  return one.updated !== other.updated ? one.updated > other.updated : one.thread_id > other.thread_id;
}

const keyOf = (item) => item.key ?? item.thread_id;
const isHeading = (item) => item.heading !== undefined;
const heightOf = (item) => (isHeading(item) ? HEADING : ROW);

/** Words find what is in any of the lists. */
async function readPage(user, words, filter, after, signal) {
  const query = { user_id: user, order: "recent", title: words, ...(words ? {} : filter), limit: PAGE, after };
  const { threads, next } = await get(apiPath("threads"), query, { signal });
  if (!words || next || after) return { items: threads, next };
  return { items: [...threads, ...(await saidIn(user, words, signal))], next: null };
}

/** What was said, as rows below the threads that are called so. */
async function saidIn(user, words, signal) {
  const body = { user_id: user, query: words, types: ["turn"], top_k: MOST_FOUND, relevant_only: true };
  const { hits, threads } = await post(apiPath("memory", "search"), body, { signal });
  const chats = new Map(threads.map((thread) => [thread.thread_id, thread]));
  return hits.map((hit) => ({ ...chats.get(hit.thread_id), key: hit.id, thread_id: hit.thread_id, said: hit.text, updated: hit.timestamp, turn: hit.id.split(":").at(-1) }));
}

function Row({ item, selected, onSelect }) {
  const address = item.said ? href("chat", [item.thread_id, item.turn]) : href("chat", [item.thread_id]);
  return html`<div class="thread-row ${selected && !item.said ? "selected" : ""}">
    <a href=${address} aria-current=${selected && !item.said ? "true" : undefined} onClick=${onSelect}>
      ${item.pinned && html`<${Icon} name="pin" size=${14} />`}
      ${item.said && html`<${Icon} name="chat" size=${14} />`}
      ${item.incognito && html`<${Icon} name="lock" size=${14} />`}
      <span class="thread-title" title=${item.said ? undefined : item.thread_id}>${item.said ?? threadName(item)}${item.said && html`<small>${item.one_shot ? "API" : threadName(item)}</small>`}</span>
      <time class="muted">${shortTime(item.updated)}</time>
    </a>
    ${!item.said && html`<${ThreadMenu} thread=${item} />`}
  </div>`;
}

/** Rename, pin, archive, export, delete: of a row, or of the thread that is open. */
export function ThreadMenu({ thread }) {
  const { user } = useSession();
  const [asking, setAsking] = useState(null);
  const path = apiPath("threads", thread.thread_id);
  const name = threadName(thread);
  const close = () => setAsking(null);
  const change = async (changes) => {
    await patch(path, { user_id: user, ...changes });
    threadChanged(thread.thread_id);
  };
  const archive = async (archived) => {
    await change({ archived });
    toast(archived ? "Archived." : "Back in the list.", { action: "Undo", onAction: () => change({ archived: !archived }).catch(toast) });
  };
  const download = async (format, ending) => saveAs(await getBlob(`${path}/export`, { user_id: user, format }), `${name}.${ending}`);
  const forgotten = () => {
    threadChanged(thread.thread_id);
    if (currentRoute().parts[0] === thread.thread_id) go("chat");
  };
  const items = [
    { label: "Rename", icon: "edit", onSelect: () => setAsking("rename") },
    { label: thread.pinned ? "Unpin" : "Pin", icon: "pin", onSelect: () => change({ pinned: !thread.pinned }).catch(toast) },
    { label: thread.archived ? "Unarchive" : "Archive", icon: "archive", onSelect: () => archive(!thread.archived).catch(toast) },
    { label: "Export as Markdown", icon: "file", onSelect: () => download("markdown", "md").catch(toast) },
    { label: "Export as JSON", icon: "file", onSelect: () => download("json", "json").catch(toast) },
    { label: "Delete", icon: "trash", danger: true, onSelect: () => setAsking("delete") },
  ];
  return html`<${Menu} label=${`Actions for ${name}`} items=${items} />
    ${asking === "rename" && html`<${TextDialog} title="Rename chat" label="Title" value=${thread.title ?? ""} onClose=${close} onSubmit=${(title) => change({ title })} />`}
    ${asking === "delete" && html`<${LoadedDialog} load=${() => import("./forget.js")} part="ForgetThreadDialog" threadId=${thread.thread_id} name=${name} onForgotten=${forgotten} onClose=${close} />`}`;
}

/** A value once it has stayed the same for a while. */
function useSettled(value, ms) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
