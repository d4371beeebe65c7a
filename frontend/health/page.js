import { Empty } from "../ui/states.js";
import { html } from "../view.js";

export default function Page() {
  return html`<${Empty} icon="health" title="Being built" />`;
}
