// What of a thread is here: one stretch up to its newest turns, or, where a link led far up, one around that turn and
// the newest ones beyond a gap. `gap`: `{after, before}`, the turns next to it on either side; null where there is none.
import { merged, placeOf } from "./turns.js";

/** A stretch from somewhere in a thread, with its newest turns. */
export function spanned(stretch, newest) {
  const [first, tail] = [stretch, newest].map(({ turns }) => turns[0].turn_id);
  return {
    turns: merged(stretch.turns, newest.turns),
    receipts: { ...stretch.receipts, ...newest.receipts },
    next: placeOf(first) < placeOf(tail) ? stretch.next : newest.next,
    gap: gapBetween(stretch.newer, tail),
  };
}

/** With the turns that come after the gap's beginning. */
export const withLater = ({ turns, receipts, gap }, page) => ({
  turns: merged(turns, page.turns),
  receipts: { ...receipts, ...page.receipts },
  gap: gap && gapBetween(page.newer, gap.before),
});

/** With the newest turns as they are now, none of which is gone. */
export function withNewest({ turns, receipts, next, gap }, newest) {
  const tail = newest.turns[0]?.turn_id;
  const reached = gap && tail && placeOf(tail) < placeOf(gap.before) ? gapBetween(gap.after, tail) : gap;
  return { turns: merged(turns, newest.turns), receipts: { ...receipts, ...newest.receipts }, next, gap: reached };
}

/** The newest turns alone. */
export const beyondGap = ({ turns, next, gap }) => (gap ? { turns: turns.filter(isAfter(gap)), next: gap.before, gap: null } : { turns, next, gap });

/** How to read again all that is here: so many of the newest, and so many around a turn, if any. */
export function wholeOf({ turns, gap }, fewest) {
  const [tail, above] = gap ? [turns.filter(isAfter(gap)), turns.filter((turn) => !isAfter(gap)(turn))] : [turns, []];
  const around = above.length ? { turnId: above[above.length >> 1].turn_id, most: Math.max(fewest, above.length) } : null;
  return { newest: Math.max(fewest, tail.length), around };
}

const isAfter = (gap) => (turn) => placeOf(turn.turn_id) > placeOf(gap.after);

/** `after`: null where the thread ends with that stretch. */
const gapBetween = (after, before) => (after !== null && placeOf(after) < placeOf(before) ? { after, before } : null);
