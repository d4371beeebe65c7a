// Where the reader of a conversation is, kept while turns come above, below and at the end.
import { toast } from "../ui/toast.js";
import { useEffect, useLayoutEffect, useRef } from "../view.js";

const NEAR = 120;
/** More turns are read when the reader is so near to the first or the last that is here. */
const SOON = 480;

/** Stays at the end while the answer grows; once the reader scrolled away, what is in sight stays where it is. Begins at `focusTurn`. */
export function useScrolling(talk, focusTurn) {
  const element = useRef(null);
  const atEnd = useRef(focusTurn === undefined);
  const held = useRef(null);
  const focused = useRef(focusTurn === undefined);

  const settle = () => {
    const view = element.current;
    if (view === null) return; // The chat was left, and its last change of size is told only now.
    if (atEnd.current) {
      view.scrollTop = view.scrollHeight;
      held.current = null;
    } else if (held.current?.message.isConnected) {
      putBack(view, held.current);
      held.current = heldAt(view, held.current.message);
    } else {
      held.current = firstInSight(view);
    }
  };
  useLayoutEffect(settle);
  // What grows by itself: Markdown and pictures that come late, a window that is made narrower.
  useLayoutEffect(() => {
    const observer = new ResizeObserver(settle);
    observer.observe(element.current);
    observer.observe(element.current.firstElementChild);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (focused.current || talk.loading || talk.error) return;
    focused.current = true;
    const target = document.getElementById(`turn-${focusTurn}`);
    if (!target) {
      atEnd.current = true;
      settle();
      toast("That message is not here any more.");
      return;
    }
    target.scrollIntoView({ block: "center" });
    held.current = heldAt(element.current, target);
  });
  useEffect(() => {
    if (!talk.pending.length) return;
    atEnd.current = true;
    settle();
  }, [talk.pending]);

  const readOn = () => {
    const view = element.current;
    if (view === null || talk.loading || talk.error) return;
    if (talk.next !== null && view.scrollTop < SOON) talk.readEarlier();
    else if (talk.later && belowOf(view) < SOON) talk.readLater();
  };
  // Where so little is shown that nobody can scroll: a tall screen, or a branch of few turns.
  useEffect(readOn);
  const onScroll = () => {
    const view = element.current;
    if (view === null) return; // The chat was left while it scrolled.
    atEnd.current = !talk.later && belowOf(view) < NEAR;
    if (view.scrollTop !== held.current?.scrollTop) held.current = firstInSight(view);
    readOn();
  };
  return { element, onScroll };
}

const belowOf = (view) => view.scrollHeight - view.scrollTop - view.clientHeight;
const topIn = (view, message) => message.getBoundingClientRect().top - view.getBoundingClientRect().top;

/** A message, and where it stands in all that can be scrolled. */
const heldAt = (view, message) => ({ message, place: topIn(view, message) + view.scrollTop, scrollTop: view.scrollTop });

/** What moved the message moves the view along; where the reader scrolled meanwhile, from there. */
function putBack(view, { message, place }) {
  view.scrollTop += topIn(view, message) + view.scrollTop - place;
}

/** The first message that is at least partly in sight, by halving. */
function firstInSight(view) {
  const messages = view.querySelectorAll(".message");
  if (!messages.length) return null;
  let low = 0;
  let high = messages.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (topIn(view, messages[middle]) + messages[middle].offsetHeight > 0) high = middle;
    else low = middle + 1;
  }
  return heldAt(view, messages[low]);
}
