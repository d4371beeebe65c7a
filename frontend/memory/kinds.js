// The kinds of memories, as the API calls them and as people do.
export const KINDS = {
  episodes: { one: "Episode", many: "Episodes", type: "episode" },
  facts: { one: "Fact", many: "Facts", type: "fact" },
  foresight: { one: "Plan", many: "Plans", type: "foresight" },
  profile: { one: "Profile", many: "Profile", type: "profile" },
  cases: { one: "Case", many: "Cases", type: "case" },
};

/** A hit's type is the name of its kind. */
const TYPES = {
  turn: "Message",
  note: "Note",
  stretch: "Stretch",
};

/** What a person did with it: they wrote it, or changed it later. */
export const handName = ({ revision }) => (revision === 1 ? "written by hand" : "edited");

export const kindName = (kind) => KINDS[kind]?.one ?? kind;
export const typeName = (type) => TYPES[type] ?? kindName(type);
