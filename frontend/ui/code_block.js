// A block of code: its language, a button to copy it, and colours once the highlighter has been loaded.
import { h, html, useEffect, useState } from "../view.js";
import { Icon } from "./icons.js";
import { toast } from "./toast.js";

/** Beyond this colouring would hold up the page. */
const LONGEST = 30_000;

export function CodeBlock({ code, language, live }) {
  const name = language.trim().split(/\s/)[0].toLowerCase();
  const tree = useColours(code, name, live);
  return html`<figure class="code">
    <figcaption>
      <span>${name || "code"}</span>
      <${CopyButton} text=${code} label="Copy code" />
    </figcaption>
    <pre tabindex="0"><code>${tree ? tree.map(coloured) : code}</code></pre>
  </figure>`;
}

export function CopyButton({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      toast("This browser doesn't let the page copy. Select the text instead.", { kind: "danger" });
    }
  };
  return html`<button type="button" class="quiet icon-only" aria-label=${copied ? "Copied" : label} title=${copied ? "Copied" : label} onClick=${copy}>
    <${Icon} name=${copied ? "check" : "copy"} size=${16} />
  </button>`;
}

function useColours(code, name, live) {
  const [tree, setTree] = useState(null);
  useEffect(() => {
    setTree(null);
    if (live || !name || code.length > LONGEST) return undefined;
    let wanted = true;
    import("./highlighting.js")
      .then(({ highlight }) => highlight(code, name))
      .then((found) => wanted && setTree(found))
      .catch(() => wanted && setTree(null)); // without colours it is still the code
    return () => (wanted = false);
  }, [code, name, live]);
  return tree;
}

const coloured = (node) => (typeof node === "string" ? node : h("span", { class: node.class }, node.children.map(coloured)));
