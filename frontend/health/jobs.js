// Work that waits, runs, or has failed for good and waits for a person.
import { apiPath, get, post } from "../api.js";
import { isMade } from "../chat/thread_name.js";
import { href } from "../router.js";
import { useSession } from "../session.js";
import { Icon } from "../ui/icons.js";
import { Problem } from "../ui/states.js";
import { duration, fullTime } from "../ui/times.js";
import { toast } from "../ui/toast.js";
import { html, useState } from "../view.js";
import { useWatched } from "./watched.js";

const MOST = 50;
const STATES = { "": "All", queued: "Waiting", running: "Running", dead: "Failed" };

export function Jobs({ scope }) {
  const [state, setState] = useState("");
  const jobs = useWatched((signal) => get(apiPath("jobs"), { ...scope, state, limit: MOST }, { signal }), [scope.user_id, state]);
  const retry = async (ids) => {
    try {
      for (const id of ids) await post(`${apiPath("jobs", id, "retry")}${scope.user_id ? `?${new URLSearchParams(scope)}` : ""}`);
      toast(ids.length === 1 ? "Tried again" : `${ids.length} jobs are tried again`);
    } catch (error) {
      toast(error);
    }
    jobs.reload();
  };
  const found = jobs.value?.jobs ?? [];
  const dead = found.filter((job) => job.state === "dead").map((job) => job.job_id);
  return html`<section class="card" aria-labelledby="jobs">
    <div class="card-head">
      <h2 id="jobs">Jobs</h2>
      <div class="kinds" role="group" aria-label="State of jobs">
        ${Object.entries(STATES).map(([each, label]) => html`<button key=${each} class="small" aria-pressed=${each === state} onClick=${() => setState(each)}>${label}</button>`)}
      </div>
      ${dead.length > 1 && html`<button class="small" onClick=${() => retry(dead)}><${Icon} name="again" size=${14} />Retry all that failed</button>`}
    </div>
    ${jobs.error && html`<${Problem} error=${jobs.error} onRetry=${jobs.reload} />`}
    ${jobs.value && (found.length ? html`<${Table} jobs=${found} more=${jobs.value.next !== undefined} onRetry=${retry} />` : html`<p class="muted">${state ? "None." : "Nothing waits."}</p>`)}
  </section>`;
}

/** A person opens their own chats; of another's they see that there is one. */
function Chat({ job }) {
  const { user } = useSession();
  const name = isMade(job.thread_id) ? "a chat" : job.thread_id;
  return job.user_id === user ? html`<a href=${href("chat", [job.thread_id])}>${name}</a>` : html`<span title=${job.thread_id}>${name}</span>`;
}

function Table({ jobs, more, onRetry }) {
  const now = Date.now();
  return html`<div class="table" tabindex="0" role="region" aria-labelledby="jobs">
      <table>
        <thead><tr><th>Job</th><th>State</th><th>Since</th><th>What happened</th><th><span class="hidden-label">Retry</span></th></tr></thead>
        <tbody>
          ${jobs.map(
            (job) => html`<tr key=${job.job_id}>
              <td>${job.kind}${job.thread_id && html`<br /><span class="muted small-text job-thread">${job.user_id ? `${job.user_id}: ` : ""}<${Chat} job=${job} /></span>`}</td>
              <td><span class="chip ${job.state === "dead" ? "danger" : job.error ? "warning" : ""}">${STATES[job.state] ?? job.state}</span></td>
              <td title=${fullTime(job.created)}>${duration(Math.max(0, now - job.created))}</td>
              <td>${job.error ?? ""}${job.attempts ? ` (${job.attempts} ${job.attempts === 1 ? "failure" : "failures"})` : ""}</td>
              <td>${job.state === "dead" && html`<button class="small" aria-label=${`Retry job ${job.job_id}`} onClick=${() => onRetry([job.job_id])}><${Icon} name="again" size=${14} />Retry</button>`}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${more && html`<p class="muted small-text">These are the oldest ${MOST}; there are more.</p>`}`;
}
