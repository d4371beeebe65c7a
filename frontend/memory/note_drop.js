// Bringing notes and exports of other services along: dropped anywhere on the page, or chosen with a button.
import { apiPath, post } from "../api.js";
import { go } from "../router.js";
import { useSession } from "../session.js";
import { ConfirmDialog } from "../ui/dialog.js";
import { useDrop } from "../ui/drop.js";
import { Icon } from "../ui/icons.js";
import { toast } from "../ui/toast.js";
import { createContext, html, useCallback, useContext, useRef, useState } from "../view.js";
import { EXPORT, useImport } from "./import_file.js";

const NOTE = /\.(md|markdown|txt)$/i;
const Importing = createContext({ bring: () => {}, brought: 0 });

/** `{bring(files), brought}`: a way to bring notes, and how many were brought so far. */
export const useImporting = () => useContext(Importing);

export function NoteDrop({ children }) {
  const { user } = useSession();
  const [brought, setBrought] = useState(0);
  const [twins, setTwins] = useState([]);

  const keep = useCallback(
    async (name, text, replace = false) => {
      const note = await post(apiPath("memory", "notes"), { user_id: user, name, text, replace });
      setBrought((number) => number + 1);
      toast(`${name} is in your vault`, { action: "Open", onAction: () => go("memory", ["notes", note.name]) });
    },
    [user],
  );
  const { importFile, shown } = useImport(user);
  const bring = useCallback(
    async (files) => {
      for (const file of files) {
        if (EXPORT.test(file.name)) {
          await importFile(file);
          setBrought((number) => number + 1);
          continue;
        }
        try {
          if (!NOTE.test(file.name)) throw new Error(`${file.name} is no Markdown or text file.`);
          const text = await textOf(file);
          await keep(file.name, text).catch((error) => {
            if (error.code !== "already_exists") throw error;
            setTwins((others) => [...others, { name: file.name, text }]);
          });
        } catch (error) {
          toast(error);
        }
      }
    },
    [keep, importFile],
  );
  const { zone, hint } = useDrop(bring, "Drop notes, or an export of another chat, to keep them");
  return html`<${Importing.Provider} value=${{ bring, brought }}>
    <div class="drop-zone" ...${zone}>
      ${children}
      ${hint}
      ${shown}
    </div>
    ${twins.slice(0, 1).map((twin) => html`<${ConfirmDialog} key=${twin} title="Replace the note?" confirm="Replace" onConfirm=${() => keep(twin.name, twin.text, true)} onClose=${() => setTwins((all) => all.filter((each) => each !== twin))}>
      <p>There is another note called <strong>${twin.name}</strong>.</p>
    <//>`)}
  <//>`;
}

/** As its byte order mark says, else UTF-8. What is neither is refused: guessed, it would be kept with wrong letters. */
async function textOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = bytes[0] * 256 + bytes[1];
  const encoding = { 0xfffe: "utf-16le", 0xfeff: "utf-16be" }[mark] ?? "utf-8";
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file.name} is no text in UTF-8 or UTF-16.`);
  }
}

export function BringButton() {
  const { bring } = useImporting();
  const field = useRef(null);
  const chosen = () => {
    bring([...field.current.files]);
    field.current.value = "";
  };
  return html`<button type="button" onClick=${() => field.current.click()}><${Icon} name="upload" />Bring notes</button>
    <input ref=${field} type="file" class="hidden-label" tabindex="-1" aria-label="Markdown notes" accept=".md,.markdown,.txt,text/markdown,.json,.jsonl,.zip" multiple onChange=${chosen} />`;
}
