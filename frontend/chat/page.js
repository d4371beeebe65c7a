// The chat page: threads at the side, one of them open.
import { go } from "../router.js";
import { html, useCallback, useEffect, useRef, useState } from "../view.js";
import { Conversation } from "./conversation.js";
import { ThreadList } from "./thread_list.js";

/** Where the list of chats is a drawer: as in pages.css. */
const NARROW = "(max-width: 860px)";

export default function Page({ route }) {
  const [threadId, focusTurn] = route.parts;
  const [fresh, setFresh] = useState(newThreadId);
  const [threads, setThreads] = useState(null);
  const [drawer, setDrawer] = useState(false);
  // Back at the empty chat after one was opened: that id is taken.
  const before = useRef(threadId);
  useEffect(() => {
    if (threadId === undefined && before.current !== undefined) setFresh(newThreadId());
    before.current = threadId;
  }, [threadId]);
  const opened = useCallback(() => {
    if (threadId === undefined) go("chat", [fresh], {}, { replace: true });
  }, [threadId, fresh]);
  /** Its first message was never taken: what was written is in the empty chat again. */
  const unsent = useCallback((id) => id === before.current && go("chat", [], {}, { replace: true }), []);
  const closeDrawer = useCallback(() => setDrawer(false), []);
  const openDrawer = useCallback(() => matchMedia(NARROW).matches && setDrawer(true), []);
  const shown = threadId ?? fresh;

  return html`<div class="chat ${drawer ? "drawer-open" : ""}">
    <aside class="side" aria-label="Chats"><${ThreadList} selected=${threadId} onSelect=${closeDrawer} onOpen=${openDrawer} onCount=${setThreads} /></aside>
    ${drawer && html`<button class="drawer-cover" aria-label="Close the list of chats" onClick=${closeDrawer}></button>`}
    <${Conversation}
      key=${`${shown} ${focusTurn ?? ""}`}
      threadId=${shown}
      isNew=${shown === fresh}
      focusTurn=${focusTurn}
      isFirst=${threads === 0}
      onOpened=${opened}
      onUnsent=${unsent}
      onMenu=${() => setDrawer(true)}
    />
  </div>`;
}

function newThreadId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return `t_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
