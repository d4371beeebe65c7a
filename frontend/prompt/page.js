import { Empty } from "../ui/states.js";
import { html } from "../view.js";

export default function Page() {
  return html`<${Empty} icon="prompt" title="Being built" />`;
}
