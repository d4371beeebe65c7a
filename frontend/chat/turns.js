// A thread as a tree. A turn follows the one that its `parent_id` names, else the one that stands before it.

/** Where a thread begins: what a second first message follows. */
export const BEGINNING = "t-0";

export const placeOf = (turnId) => Number(turnId.slice(2));

/** Turns in their order, each once; a newer version takes the place of an older one. */
export function merged(turns, more) {
  const byId = new Map(turns.map((turn) => [turn.turn_id, turn]));
  for (const turn of more) byId.set(turn.turn_id, turn);
  return [...byId.values()].sort((one, other) => placeOf(one.turn_id) - placeOf(other.turn_id));
}

/**
 * `parents`: of each turn the id of the one before it; `children`: of each turn those that follow it, oldest first.
 * `isWhole`: the thread begins with these turns; else others stand before them, and before those beyond a gap.
 */
export function treeOf(turns, isWhole, gap = null) {
  const parents = new Map();
  const children = new Map();
  let before = isWhole || !turns.length ? BEGINNING : unseenBefore(turns[0].turn_id);
  for (const { turn_id: id, parent_id: parent } of turns) {
    if (id === gap?.before) before = unseenBefore(id);
    const follows = parent ?? before;
    parents.set(id, follows);
    if (!children.has(follows)) children.set(follows, []);
    children.get(follows).push(id);
    before = id;
  }
  return { parents, children };
}

const unseenBefore = (turnId) => `t-${placeOf(turnId) - 1}`;

/** The turns from the beginning (or from where they are loaded) to a leaf. */
export function pathTo(turns, tree, leaf) {
  const byId = new Map(turns.map((turn) => [turn.turn_id, turn]));
  const path = [];
  for (let id = leaf; byId.has(id); id = tree.parents.get(id)) path.unshift(byId.get(id));
  return path;
}

/** Where a branch that holds this turn ends: along the newest children. */
export function leafBelow(tree, turnId) {
  let leaf = turnId;
  while (tree.children.has(leaf)) leaf = tree.children.get(leaf).at(-1);
  return leaf;
}

/** The versions of a turn: all that follow the same one. */
export const versionsOf = (tree, turnId) => tree.children.get(tree.parents.get(turnId)) ?? [turnId];

export const isOpen = (turn) => turn.status === "queued" || turn.status === "streaming";
