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

export const kindName = (kind) => KINDS[kind]?.one ?? kind;
export const typeName = (type) => TYPES[type] ?? kindName(type);
