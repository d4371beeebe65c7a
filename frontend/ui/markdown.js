// Markdown. What reads it is loaded with the first text that wants it; until then the text is shown as it is.
import { html, useEffect, useMemo, useState } from "../view.js";

let reader = null;

/** `live`: the text is still growing, so code in it is not coloured yet. */
export function Markdown({ text, live = false }) {
  const ready = useReader();
  const elements = useMemo(() => (ready ? reader.elementsOf(text, live) : null), [ready, text, live]);
  return html`<div class="markdown">${elements ?? html`<p class="verbatim">${text}</p>`}</div>`;
}

function useReader() {
  const [ready, setReady] = useState(reader !== null);
  useEffect(() => {
    if (ready) return;
    import("./markdown_elements.js").then((module) => {
      reader = module;
      setReady(true);
    }, () => {}); // Where it can't be loaded the text is there all the same.
  }, []);
  return ready;
}
