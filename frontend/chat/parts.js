// What a message holds beside its text: pictures, and by their kind all else.
import { apiPath, getBlob } from "../api.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { useLoaded } from "../ui/pages.js";
import { html, useEffect, useState } from "../view.js";

const KEPT = "vault:images/";
/** As an incognito message holds it. Kinds of pictures alone: none of them can hold a script. */
const INLINE = /^data:image\/(png|jpe?g|gif|webp);base64,/;

const isText = (part) => part.type === "text";

/** A file or a result of a program: the content names it, too. */
const isSource = (part) => part.type === "file" || part.type === "context";

/** What a turn says in words, also where only its parts do. */
export function wordsOf({ content, parts }) {
  const words = (parts ?? []).filter(isText).map((part) => part.text).join("\n");
  return (parts ?? []).some(isSource) ? words : content || words;
}

export const hasImages = ({ parts }) => (parts ?? []).some((part) => part.type === "image_url");

/** The parts of a message whose text was edited: its pictures stay. Undefined where it is text alone. */
export function editedParts({ parts }, text) {
  const others = (parts ?? []).filter((part) => !isText(part));
  return others.length ? [{ type: "text", text }, ...others] : undefined;
}

const addressOf = ({ image_url: image }) => (typeof image === "string" ? image : image?.url) ?? "";

export function Parts({ threadId, parts }) {
  const others = (parts ?? []).filter((part) => !isText(part));
  return others.length > 0 && html`<div class="parts">${others.map((part, at) => html`<${Part} key=${at} threadId=${threadId} part=${part} />`)}</div>`;
}

function Part({ threadId, part }) {
  if (part.type !== "image_url") return html`<${Chip} text=${part.file?.filename ?? part.context?.title ?? part.type} />`;
  const address = addressOf(part);
  if (address.startsWith(KEPT)) return html`<${KeptPicture} threadId=${threadId} name=${address.slice(KEPT.length)} />`;
  if (INLINE.test(address)) return html`<${Picture} address=${address} />`;
  // Fetching it would tell another host that this was read.
  return html`<${Chip} text=${`image: ${address.slice(0, 200)}`} />`;
}

/** Fetched and not linked: an image element sends no key. */
function KeptPicture({ threadId, name }) {
  const { user } = useSession();
  const { value: blob, error } = useLoaded((signal) => getBlob(apiPath("threads", threadId, "images", name), { user_id: user }, { signal }), [threadId, name, user]);
  const [address, setAddress] = useState(null);
  useEffect(() => {
    if (!blob) return undefined;
    const made = URL.createObjectURL(blob);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (error) return html`<${Chip} text=${error.status === 404 ? "an image that is no longer there" : error.message} />`;
  return html`<${Picture} address=${address} />`;
}

/** Its place is there before it is, and stays the same height: nothing jumps. */
function Picture({ address }) {
  const [broken, setBroken] = useState(false);
  if (broken) return html`<${Chip} text="an image that can't be shown" />`;
  return html`<span class="picture">${address && html`<img src=${address} alt="Sent with this message" onError=${() => setBroken(true)} />`}</span>`;
}

const Chip = ({ text }) => html`<span class="chip"><${Icon} name="file" size=${14} />${text}</span>`;
