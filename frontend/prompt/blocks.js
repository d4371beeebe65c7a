// A prompt in its blocks, and what changed since the one before.

/** How a summary begins, and where it stands; the same words elsewhere are somebody's own. */
const SUMMARY = "[Summary] Earlier in this conversation";
const SUMMARY_PLACE = 1;

/** `{index, kind, message, state, before}`: `state` is `same`, `changed` or `new`; `before` is what stood there, if it changed. */
export function blocksOf(prompt, earlier) {
  const { messages } = prompt;
  const words = messages.findLastIndex((message) => message.role === "user");
  const shared = earlier ? commonLength(earlier.messages, messages) : 0;
  return messages.map((message, index) => {
    const before = earlier?.messages[index];
    const changed = index >= shared && before && before.role === message.role && kindOf(earlier.messages, index) === kindOf(messages, index, words);
    return {
      index,
      message,
      kind: kindOf(messages, index, words),
      state: !earlier ? "first" : index < shared ? "same" : changed ? "changed" : "new",
      before: changed ? before : null,
    };
  });
}

/** How many messages of the prompt before are not in this one any more. */
export function leftOut(prompt, earlier) {
  if (!earlier) return 0;
  const kept = new Set(prompt.messages.map((message) => JSON.stringify(message)));
  return earlier.messages.filter((message) => !kept.has(JSON.stringify(message))).length;
}

function commonLength(one, other) {
  let length = 0;
  while (length < one.length && length < other.length && JSON.stringify(one[length]) === JSON.stringify(other[length])) length++;
  return length;
}

function kindOf(messages, index, words = messages.findLastIndex((message) => message.role === "user")) {
  const { role } = messages[index];
  const text = textOf(messages[index]);
  if (role === "system") return "instructions";
  if (role === "user" && index === SUMMARY_PLACE && index < words && text.startsWith(SUMMARY)) return "summary";
  const hasBlock = words > 0 && isBlock(messages[words - 1]);
  // Where the block is a message of its own, words that begin like one are words.
  if (index === words) return isBlock(messages[index]) && !hasBlock ? "context and words" : "words";
  if (index === words - 1 && hasBlock) return "context";
  return "history";
}

const isBlock = (message) => message.role === "user" && textOf(message).startsWith("[Context]");

/** A message's content as text; what is no text is shown as it was sent. */
export function textOf(message) {
  if (typeof message.content === "string") return message.content;
  const parts = Array.isArray(message.content) ? message.content : [];
  const said = parts.map((part) => (part.type === "text" ? part.text : JSON.stringify(part))).join("\n");
  return message.tool_calls ? [said, JSON.stringify(message.tool_calls, null, 2)].filter(Boolean).join("\n") : said;
}
