// Markdown as elements. Tokens become Preact nodes, so no text ever becomes HTML: tags in it are shown as they were written.
import { lexer } from "../vendor/marked.js";
import { Fragment, h, html } from "../view.js";
import { CodeBlock } from "./code_block.js";
import { Formula, mathLexer, mayHoldMath } from "./math.js";

const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": "\u00a0" };

/** Beyond these a text stays as it is: reading it as Markdown would hold up the page, or be too deep for it. */
const LONGEST = 100_000;
const MOST_PAIRS = 10_000_000;
const DEEPEST = 30;
const TOO_DEEP = /(?:>[ \t]?){100}|(?:[-*+][ \t]+){100}|[*_~]{200}/;
const FENCED = /^(```|~~~).*\n[\s\S]*?^\1/gm;

/** Null for what is better shown as it was written. `live`: the text is still growing, so code in it is not coloured yet. */
export function elementsOf(text, live) {
  if (text.length > LONGEST || TOO_DEEP.test(text) || pairsIn(text) > MOST_PAIRS) return null;
  try {
    return blocks(mayHoldMath(text) ? mathLexer(text) : lexer(text, { gfm: true, breaks: true }), live, 0);
  } catch (error) {
    if (error instanceof RangeError) return null; // Too deep in a way that was not foreseen.
    throw error;
  }
}

/** Each sign that may open emphasis is held against each that may close it, within a paragraph. */
function pairsIn(text) {
  const paragraphs = text.replace(FENCED, "").split(/\n\s*\n/);
  return paragraphs.reduce((pairs, paragraph) => pairs + (paragraph.match(/[*_~]/g)?.length ?? 0) ** 2, 0);
}

const blocks = (tokens, live, depth) => (depth > DEEPEST ? asWritten(tokens) : tokens.map((token) => block(token, live, depth + 1)));
const inline = (tokens, depth) => (depth > DEEPEST ? asWritten(tokens) : (tokens ?? []).map((token) => span(token, depth + 1)));
const asWritten = (tokens) => (tokens ?? []).map((token) => token.raw).join("");

function block(token, live, depth) {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      // The page has headings of its own above these.
      return h(`h${Math.min(6, token.depth + 2)}`, null, inline(token.tokens, depth));
    case "paragraph":
      return h("p", null, inline(token.tokens, depth));
    case "text":
      return token.tokens ? inline(token.tokens, depth) : plain(token.text);
    case "code":
      return h(CodeBlock, { code: token.text, language: token.lang ?? "", live });
    case "blockquote":
      return h("blockquote", null, blocks(token.tokens, live, depth));
    case "list":
      return list(token, live, depth);
    case "table":
      return table(token, depth);
    case "hr":
      return h("hr");
    case "math":
      return h("p", null, h(Formula, token));
    default:
      return h("p", { class: "verbatim" }, token.raw.replace(/\n+$/, ""));
  }
}

function span(token, depth) {
  switch (token.type) {
    case "strong":
      return h("strong", null, inline(token.tokens, depth));
    case "em":
      return h("em", null, inline(token.tokens, depth));
    case "del":
      return h("del", null, inline(token.tokens, depth));
    case "codespan":
      return h("code", null, token.text);
    case "br":
      return h("br");
    case "math":
      return h(Formula, token);
    case "escape":
      return token.text;
    case "link":
      return link(token.href, inline(token.tokens, depth), token.title);
    case "image":
      // Fetching it would tell another host that this was read.
      return link(token.href, `Image: ${token.text || token.href}`, token.title);
    case "text":
      return token.tokens ? inline(token.tokens, depth) : plain(token.text);
    default:
      return token.raw;
  }
}

function list(token, live, depth) {
  const items = token.items.map((item) =>
    h("li", item.task ? { class: "task" } : null, [
      item.task && h("input", { type: "checkbox", checked: item.checked, disabled: true, "aria-label": item.checked ? "done" : "to do" }),
      h(Fragment, null, blocks(item.tokens.filter((each) => each.type !== "checkbox"), live, depth)),
    ]),
  );
  return h(token.ordered ? "ol" : "ul", token.ordered && token.start !== 1 ? { start: token.start } : null, items);
}

function table(token, depth) {
  const cells = (row, tag) => row.map((cell, at) => h(tag, token.align[at] ? { class: `align-${token.align[at]}` } : null, inline(cell.tokens, depth)));
  return html`<div class="table" tabindex="0" role="region" aria-label="Table">
    <table>
      <thead><tr>${cells(token.header, "th")}</tr></thead>
      <tbody>${token.rows.map((row) => html`<tr>${cells(row, "td")}</tr>`)}</tbody>
    </table>
  </div>`;
}

function link(address, content, title) {
  if (!/^(https?:|mailto:)/i.test(address)) return h(Fragment, null, content, ` (${address})`);
  return h("a", { href: address, title: title || undefined, target: "_blank", rel: "noopener noreferrer nofollow" }, content);
}

const plain = (text) => text.replace(/&(?:amp|lt|gt|quot|#39|nbsp);/g, (entity) => ENTITIES[entity]);
