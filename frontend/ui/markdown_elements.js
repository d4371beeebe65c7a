// Markdown as elements. Tokens become Preact nodes, so no text ever becomes HTML: tags in it are shown as they were written.
import { lexer } from "../vendor/marked.js";
import { Fragment, h, html } from "../view.js";
import { CodeBlock } from "./code_block.js";

const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": "\u00a0" };

/** `live`: the text is still growing, so code in it is not coloured yet. */
export const elementsOf = (text, live) => blocks(lexer(text, { gfm: true, breaks: true }), live);

const blocks = (tokens, live) => tokens.map((token) => block(token, live));
const inline = (tokens) => (tokens ?? []).map(span);

function block(token, live) {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      // The page has headings of its own above these.
      return h(`h${Math.min(6, token.depth + 2)}`, null, inline(token.tokens));
    case "paragraph":
      return h("p", null, inline(token.tokens));
    case "text":
      return token.tokens ? inline(token.tokens) : plain(token.text);
    case "code":
      return h(CodeBlock, { code: token.text, language: token.lang ?? "", live });
    case "blockquote":
      return h("blockquote", null, blocks(token.tokens, live));
    case "list":
      return list(token, live);
    case "table":
      return table(token);
    case "hr":
      return h("hr");
    default:
      return h("p", { class: "verbatim" }, token.raw.replace(/\n+$/, ""));
  }
}

function span(token) {
  switch (token.type) {
    case "strong":
      return h("strong", null, inline(token.tokens));
    case "em":
      return h("em", null, inline(token.tokens));
    case "del":
      return h("del", null, inline(token.tokens));
    case "codespan":
      return h("code", null, token.text);
    case "br":
      return h("br");
    case "escape":
      return token.text;
    case "link":
      return link(token.href, inline(token.tokens), token.title);
    case "image":
      // Fetching it would tell another host that this was read.
      return link(token.href, `Image: ${token.text || token.href}`, token.title);
    case "text":
      return token.tokens ? inline(token.tokens) : plain(token.text);
    default:
      return token.raw;
  }
}

function list(token, live) {
  const items = token.items.map((item) =>
    h("li", item.task ? { class: "task" } : null, [
      item.task && h("input", { type: "checkbox", checked: item.checked, disabled: true, "aria-label": item.checked ? "done" : "to do" }),
      h(Fragment, null, blocks(item.tokens.filter((each) => each.type !== "checkbox"), live)),
    ]),
  );
  return h(token.ordered ? "ol" : "ul", token.ordered && token.start !== 1 ? { start: token.start } : null, items);
}

function table(token) {
  const cells = (row, tag) => row.map((cell, at) => h(tag, token.align[at] ? { class: `align-${token.align[at]}` } : null, inline(cell.tokens)));
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
