// Images and files that go with a message: checked and read before it is sent.
import { Icon } from "../ui/icons.js";
import { toast } from "../ui/toast.js";
import { html, useRef } from "../view.js";

/** Those that the server keeps. */
const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Files whose text the server reads; what it can't read it refuses. A browser may not know the type of one. */
const isDocument = ({ type }) => !type || type.startsWith("text/") || ["application/pdf", "application/json", "application/xml", "application/yaml"].includes(type);
/** Of a message. On their way they are a third larger, and the server takes 32 MB. */
const MOST_MB = 20;

/** Calls `onImage` with `{name, url, bytes, isFile}` for each file that can be sent, and says why others can't. */
export async function attach(files, held, onImage) {
  let bytes = held.reduce((sum, image) => sum + image.bytes, 0);
  for (const file of files) {
    try {
      const isFile = !KINDS.includes(file.type);
      if (isFile && !isDocument(file)) throw new Error(`Only PNG, JPEG, GIF and WebP images and text, Markdown and PDF files can be sent, and ${file.name} is none of them.`);
      if (bytes + file.size > MOST_MB * 1e6) throw new Error(`The files of a message can have ${MOST_MB} MB in all, and ${file.name} is too large for that. Make it smaller.`);
      if (!isFile) await checked(file);
      onImage({ name: file.name, url: await dataUrl(file), bytes: file.size, isFile });
      bytes += file.size;
    } catch (error) {
      toast(error);
    }
  }
}

async function checked(file) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`There is no image in ${file.name} that this browser can read.`);
  });
  bitmap.close();
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`This browser can't read ${file.name}.`));
    reader.readAsDataURL(file);
  });
}

/** A message as the API takes it; undefined where it is text alone. */
export function partsOf(text, images) {
  if (!images.length) return undefined;
  const parts = images.map(({ name, url, isFile }) => (isFile ? { type: "file", file: { filename: name, file_data: url } } : { type: "image_url", image_url: { url } }));
  return [...(text ? [{ type: "text", text }] : []), ...parts];
}

/** What was pasted, where it is images and no words: programs that copy text may add a picture of it. */
export function pastedImages({ clipboardData: pasted }) {
  return pasted.types.includes("text/plain") ? [] : [...pasted.files];
}

export function AttachButton({ onFiles }) {
  const field = useRef(null);
  const chosen = () => {
    onFiles([...field.current.files]);
    field.current.value = "";
  };
  return html`<button type="button" class="quiet icon-only round" aria-label="Attach files" title="Attach images, text, Markdown or PDF" onClick=${() => field.current.click()}><${Icon} name="image" /></button>
    <input ref=${field} type="file" class="hidden-label" tabindex="-1" aria-label="Files" accept=${[...KINDS, "text/*", "application/pdf", ".md", ".json"].join()} multiple onChange=${chosen} />`;
}

/** What goes with the message that is being written. */
export function AttachedImages({ images, onRemove }) {
  return html`<p class="hidden-label" role="status">${images.length > 0 && `Files to send: ${images.length}`}</p>
    ${images.length > 0 && html`<ul class="attached" role="list" aria-label="Files to send">
      ${images.map((image) => html`<li>
        ${image.isFile ? html`<span class="chip"><${Icon} name="file" size=${14} />${image.name}</span>` : html`<img src=${image.url} alt=${image.name} />`}
        <button type="button" class="icon-only round" aria-label=${`Remove ${image.name}`} title="Remove" onClick=${() => onRemove(image)}><${Icon} name="close" size=${14} /></button>
      </li>`)}
    </ul>`}`;
}
