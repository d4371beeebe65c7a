// Webhooks and their last deliveries: what arrived, what is tried again, and what failed for good.
import { apiPath, get } from "../api.js";
import { fullTime } from "../ui/times.js";
import { html } from "../view.js";
import { useWatched } from "./watched.js";

const SHOWN = 20;
const STATES = { queued: "Waiting", running: "Running", dead: "Failed", delivered: "Delivered" };

/** Nothing, where there is no webhook, or none that this key may see. */
export function Webhooks({ scope }) {
  const found = useWatched((signal) => get(apiPath("webhooks"), scope, { signal }), [scope.user_id]);
  const webhooks = found.value?.webhooks ?? [];
  if (!webhooks.length) return null;
  return html`<section class="card" aria-labelledby="webhooks">
    <h2 id="webhooks">Webhooks</h2>
    ${webhooks.slice(0, SHOWN).map((webhook) => html`<${Webhook} key=${webhook.webhook_id} webhook=${webhook} scope=${scope} />`)}
    ${webhooks.length > SHOWN && html`<p class="muted small-text">These are the oldest ${SHOWN} of ${webhooks.length}.</p>`}
  </section>`;
}

function Webhook({ webhook, scope }) {
  const path = apiPath("webhooks", webhook.webhook_id, "deliveries");
  const log = useWatched((signal) => get(path, { ...scope, limit: SHOWN }, { signal }), [path, scope.user_id]);
  const deliveries = log.value?.deliveries ?? [];
  return html`<div>
    <h3>${webhook.url}</h3>
    <p class="muted small-text">${webhook.user_id ?? "Everybody"}: ${webhook.events.join(", ")}</p>
    ${log.value && !deliveries.length && html`<p class="muted">Nothing was to be delivered yet.</p>`}
    ${deliveries.length > 0 &&
    html`<div class="table" tabindex="0" role="region" aria-label=${`Deliveries to ${webhook.url}`}>
      <table>
        <thead><tr><th>Event</th><th>State</th><th>When</th><th>Tries</th><th>What happened</th></tr></thead>
        <tbody>
          ${deliveries.map(
            (each) => html`<tr key=${each.delivery_id}>
              <td title=${each.delivery_id}>${each.event}</td>
              <td><span class="chip ${each.state === "dead" ? "danger" : each.error ? "warning" : ""}">${STATES[each.state]}</span></td>
              <td>${fullTime(each.at)}</td>
              <td>${each.tries}</td>
              <td>${each.error ?? ""}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`}
  </div>`;
}
