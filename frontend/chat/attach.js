// Images that go with a message: checked and read before it is sent.
import { Icon } from "../ui/icons.js";
import { toast } from "../ui/toast.js";
import { html, useRef } from "../view.js";

/** Those that the server keeps. */
const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Of a message. On their way they are a third larger, and the server takes 32 MB. */
const MOST_MB = 20;

/** Calls `onImage` with `{name, url, bytes}` for each file that can be sent, and says why others can't. */
export async function attach(files, held, onImage) {
  let bytes = held.reduce((sum, image) => sum + image.bytes, 0);
  for (const file of files) {
    try {
      if (!KINDS.includes(file.type)) throw new Error(`Only PNG, JPEG, GIF and WebP images can be sent, and ${file.name} is none of them.`);
      if (bytes + file.size > MOST_MB * 1e6) throw new Error(`The images of a message can have ${MOST_MB} MB in all, and ${file.name} is too large for that. Make it smaller.`);
      await checked(file);
      onImage({ name: file.name, url: await dataUrl(file), bytes: file.size });
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
  return [...(text ? [{ type: "text", text }] : []), ...images.map(({ url }) => ({ type: "image_url", image_url: { url } }))];
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
  return html`<button type="button" class="quiet icon-only round" aria-label="Attach an image" title="Attach an image" onClick=${() => field.current.click()}><${Icon} name="image" /></button>
    <input ref=${field} type="file" class="hidden-label" tabindex="-1" aria-label="Images" accept=${KINDS.join()} multiple onChange=${chosen} />`;
}

/** What goes with the message that is being written. */
export function AttachedImages({ images, onRemove }) {
  return html`<p class="hidden-label" role="status">${images.length > 0 && `Images to send: ${images.length}`}</p>
    ${images.length > 0 && html`<ul class="attached" role="list" aria-label="Images to send">
      ${images.map((image) => html`<li>
        <img src=${image.url} alt=${image.name} />
        <button type="button" class="icon-only round" aria-label=${`Remove ${image.name}`} title="Remove" onClick=${() => onRemove(image)}><${Icon} name="close" size=${14} /></button>
      </li>`)}
    </ul>`}`;
}
