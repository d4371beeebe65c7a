// Formulas in Markdown, as TeX: `$…$`, `$$…$$`, `\(…\)`, `\[…\]`. What sets them is loaded with the first one.
import { Marked } from "../vendor/marked.js";
import { html, useEffect, useMemo, useState } from "../view.js";

const SIGN = /\$|\\[([]/g;
/** A text with more signs, and a longer formula, stay as they are: setting them would hold up the page. */
const MOST_SIGNS = 2000;
const LONGEST = 4000;
/** `trust`: links, images and HTML by TeX are refused, and so is the whole formula. Its sizes are in em. */
const SETTINGS = { throwOnError: true, strict: "ignore", trust: () => { throw new Error("not allowed"); }, maxSize: 20, maxExpand: 1000 };
const DISPLAY = { "$$": "$$", "\\[": "\\]" };
/** Money, not a formula: a figure and then words. */
const PRICE = /^[0-9][0-9.,]*\p{L}*\s+(?:\p{L}\s+)?\p{L}{2,}/u;

/** Whether a text is worth reading with `mathLexer`. */
export const mayHoldMath = (text) => (text.match(SIGN)?.length ?? MOST_SIGNS) < MOST_SIGNS;

/** As marked's own, with tokens of type `math`: `{raw, tex, display}`. */
export const mathLexer = (text) => reader.lexer(text);

const reader = new Marked({
  gfm: true,
  breaks: true,
  extensions: [
    { name: "math", level: "block", start: blockStart, tokenizer: blockMath },
    { name: "math", level: "inline", start: inlineStart, tokenizer: (source, before) => (/^[$\\]/.test(source) ? inlineMath(source, before.at(-1)?.raw.at(-1)) : undefined) },
  ],
  hooks: { emStrongMask: withoutMath },
});

/** Where a formula ends the paragraph that `source` begins with. */
function blockStart(source) {
  for (const { 0: found, index } of source.matchAll(/\n[ \t]*\n|(?<=\n) {0,3}(?:\$\$|\\\[)/g)) {
    if (found.startsWith("\n")) return undefined;
    if (blockMath(source.slice(index))) return index;
  }
  return undefined;
}

/** Text ends at the other signs by itself. */
function inlineStart(source) {
  const at = source.search(/[$\\[`*\n]/);
  return source.charAt(at) === "$" ? at : undefined;
}

/** In lines of its own. */
function blockMath(source) {
  const line = source.replace(/^ {0,3}/, "");
  const found = enclosed(line, line.slice(0, 2), DISPLAY[line.slice(0, 2)]);
  const rest = found && /^[ \t]*(?:\n+|$)/.exec(line.slice(found.raw.length));
  return rest ? { ...found, raw: source.slice(0, source.length - line.length + found.raw.length + rest[0].length), display: true } : undefined;
}

function inlineMath(source, before) {
  const wide = enclosed(source, "$$", "$$", /^\S(?:.*\S)?$/) ?? enclosed(source, "\\[", "\\]", /^\s.*\s$/s);
  if (wide) return { ...wide, display: true };
  const narrow = enclosed(source, "\\(", "\\)") ?? (/[A-Za-z0-9$]/.test(before ?? "") ? null : betweenDollars(source));
  return narrow ? { ...narrow, display: false } : undefined;
}

/** `$n$th` is a formula, `$5 and $10` are prices, `$HOME/$USER` are names. */
function betweenDollars(source) {
  const tex = /^\$((?:\\[^\n]|[^\\$`\n])+)\$(?![0-9$])/.exec(source)?.[1];
  if (tex === undefined || tex.length > LONGEST || /^\s|\s$/.test(tex) || PRICE.test(tex)) return null;
  const isName = /[A-Za-z]/.test(source.charAt(tex.length + 2)) && !/[\w)\]}']$/.test(tex);
  return isName ? null : { type: "math", raw: `$${tex}$`, tex };
}

function enclosed(source, open, close, shape = /\S/) {
  const end = close && source.startsWith(open) ? source.indexOf(close, open.length) : -1;
  if (end < 0 || end > LONGEST) return null;
  const tex = source.slice(open.length, end);
  // A blank line ends a paragraph; a backtick belongs to code.
  if (!tex.trim() || !shape.test(tex) || /`|\n[ \t]*\n/.test(tex)) return null;
  return { type: "math", raw: source.slice(0, end + close.length), tex };
}

/** Signs of emphasis within a formula are none. */
function withoutMath(source) {
  let masked = "";
  let at = 0;
  for (let sign = source.indexOf("$"); sign >= 0; sign = source.indexOf("$", at)) {
    const raw = inlineMath(source.slice(sign), source[sign - 1])?.raw;
    masked += source.slice(at, sign) + (raw ? `$${"a".repeat(raw.length - 2)}$` : "$");
    at = sign + (raw?.length ?? 1);
  }
  return masked + source.slice(at);
}

let katex = null;
let loading = null;

/** As it was written until it can be set, and where it can't be. */
export function Formula({ tex, raw, display }) {
  const ready = useKatex();
  const place = useMemo(() => (ready ? placed(tex, display) : null), [ready, tex, display]);
  if (!place) return html`<span class="verbatim">${raw.trimEnd()}</span>`;
  if (!display) return html`<span class="formula" ref=${place}></span>`;
  return html`<span class="formula wide" tabindex="0" role="group" aria-label="Formula" ref=${place}></span>`;
}

function useKatex() {
  const [ready, setReady] = useState(katex !== null);
  useEffect(() => {
    if (ready) return undefined;
    let wanted = true;
    loading ??= load();
    loading.then(() => wanted && setReady(true), () => (loading = null)); // It stays as it was written.
    return () => (wanted = false);
  }, []);
  return ready;
}

async function load() {
  const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("../vendor/katex/katex.css", import.meta.url) });
  const styled = new Promise((resolve, reject) => Object.assign(sheet, { onload: resolve, onerror: reject }));
  document.head.append(sheet);
  await Promise.all([styled, import("../vendor/katex/katex.js")]);
  katex = globalThis.katex;
}

/** A way to put the formula into an element; null for TeX that is wrong, too deep or not allowed. */
function placed(tex, displayMode) {
  try {
    const tree = katex.__renderToDomTree(tex, { ...SETTINGS, displayMode });
    withoutStyles(tree);
    const node = tree.toNode();
    return (element) => element?.replaceChildren(node);
  } catch {
    return null;
  }
}

/** Styles as attributes, of MathML that is heard and not seen: the content security policy refuses them. */
function withoutStyles(node) {
  delete node.attributes?.style;
  node.children?.forEach(withoutStyles);
}
