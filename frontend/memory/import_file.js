// Importing what another service exported: how far it is, and what came of it.
import { ApiError, apiPath, lines } from "../api.js";
import { Dialog } from "../ui/dialog.js";
import { toast } from "../ui/toast.js";
import { html, useCallback, useState } from "../view.js";

export const EXPORT = /\.(json|jsonl|zip)$/i;
const TAKEN = ["conversations", "messages", "notes", "entities", "relations"];

/** `{importFile, shown}`: resolves when the import is over; what to draw meanwhile, and after it. */
export function useImport(user) {
  const [progress, setProgress] = useState(null);
  const [reports, setReports] = useState([]);
  const importFile = useCallback(
    async (file) => {
      const { name } = file;
      setProgress({ name });
      try {
        const report = await imported(user, name, file, (done, total) => setProgress({ name, done, total }));
        setReports((before) => [...before, { name, report }]);
      } catch (error) {
        toast(error);
      } finally {
        setProgress(null);
      }
    },
    [user],
  );
  const close = () => setReports(([, ...others]) => others);
  const [first] = reports;
  const shown = html`${progress && html`<${Progress} ...${progress} />`}
    ${first && html`<${Report} key=${reports.length} ...${first} onClose=${close} />`}`;
  return { importFile, shown };
}

async function imported(user, name, file, onProgress) {
  for await (const told of lines(apiPath("imports"), { query: { user_id: user, name }, file })) {
    if (told.error) throw new ApiError(200, told.error);
    if (told.result) return told.result;
    onProgress(told.done, told.total);
  }
  throw new Error(`The import of ${name} broke off. Drop the file again: it goes on where it was.`);
}

function Progress({ name, done = 0, total = 1 }) {
  return html`<p class="import-progress" role="status">
    <span>Importing ${name}</span>
    <progress value=${done} max=${total || 1} aria-label="Imported"></progress>
  </p>`;
}

function Report({ name, report, onClose }) {
  const taken = TAKEN.filter((what) => report[what]);
  const counts = (counted) => Object.entries(counted).filter(([, number]) => number);
  return html`<${Dialog} title=${`${name} is imported`} onClose=${onClose}>
    <div class="dialog-text">
      <p>${report.formats.join(", ")}: ${taken.map((what) => `${report[what]} ${what}`).join(", ") || "nothing new"}.</p>
      <ul>
        ${counts(report.already).map(([what, number]) => html`<li key=${what}>${number} ${what} were there already.</li>`)}
        ${counts(report.left_out).map(([why, number]) => html`<li key=${why}>Left out: ${number} ${why}.</li>`)}
      </ul>
      ${report.messages > 0 && html`<p class="muted">Memories are made of them in the background.</p>`}
    </div>
    <footer><button class="primary" onClick=${onClose}>Done</button></footer>
  <//>`;
}
