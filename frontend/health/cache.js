// How much of each prompt the model's cache held, answer by answer, as a plot.
import { apiPath, get } from "../api.js";
import { href } from "../router.js";
import { Problem } from "../ui/states.js";
import { count, fullTime, shortTime } from "../ui/times.js";
import { html } from "../view.js";
import { useWatched } from "./watched.js";

const ANSWERS = 200;
const WIDTH = 640;
const HEIGHT = 180;
const LEFT = 44;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 26;
const GRID = [0, 25, 50, 75, 100];

export function Cache({ scope }) {
  const cache = useWatched((signal) => get(apiPath("cache"), { ...scope, limit: ANSWERS }, { signal }), [scope.user_id]);
  return html`<section class="card" aria-labelledby="cache">
    <h2 id="cache">Cache hit rate</h2>
    ${cache.error && html`<${Problem} error=${cache.error} onRetry=${cache.reload} />`}
    ${cache.value && html`<${Rates} answers=${cache.value.answers} />`}
  </section>`;
}

function Rates({ answers }) {
  const told = answers.filter(({ cached_tokens: cached, evaluated_tokens: evaluated }) => cached !== null && evaluated !== null && cached + evaluated > 0);
  if (!told.length) {
    return html`<p class="muted">${answers.length ? "The model's server doesn't tell how much of a prompt its cache held." : "Nothing was answered yet."}</p>`;
  }
  const cached = sum(told, "cached_tokens");
  const all = cached + sum(told, "evaluated_tokens");
  const points = told.map((answer) => ({ answer, rate: (100 * answer.cached_tokens) / (answer.cached_tokens + answer.evaluated_tokens) }));
  const summary = `${Math.round((100 * cached) / all)} % of ${count(all)} prompt tokens were cached, over the last ${count(told.length)} answers`;
  return html`<p>${summary}.</p>
    <${Plot} points=${points} label=${summary} />
    <${Misses} points=${points} />`;
}

function Plot({ points, label }) {
  const x = (index) => LEFT + ((WIDTH - LEFT - RIGHT) * (points.length === 1 ? 0.5 : index / (points.length - 1)));
  const y = (rate) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - rate / 100);
  const line = points.map(({ rate }, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(rate).toFixed(1)}`).join("");
  const ends = points.length > 1 ? [0, points.length - 1] : [0];
  return html`<svg class="plot" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${`Plot: ${label}`}>
    ${GRID.map(
      (rate) => html`<g key=${rate}>
        <line class="plot-grid" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${y(rate)} y2=${y(rate)} />
        <text x=${LEFT - 8} y=${y(rate) + 4} text-anchor="end">${rate} %</text>
      </g>`,
    )}
    <path class="plot-line" d=${line} />
    ${points.map(
      ({ answer, rate }, index) => html`<circle key=${index} class=${answer.cause ? "plot-miss" : "plot-point"} cx=${x(index)} cy=${y(rate)} r=${points.length > 60 ? 2 : 3.5}>
        <title>${`${Math.round(rate)} %, ${fullTime(answer.at)}${answer.cause ? `: ${answer.cause}` : ""}`}</title>
      </circle>`,
    )}
    ${ends.map((index) => html`<text key=${`end ${index}`} x=${x(index)} y=${HEIGHT - 6} text-anchor=${index ? "end" : points.length === 1 ? "middle" : "start"}>${shortTime(points[index].answer.at)}</text>`)}
  </svg>`;
}

/** Why the cache missed, the newest first. */
function Misses({ points }) {
  const missed = points.filter(({ answer }) => answer.cause).slice(-5).reverse();
  if (!missed.length) return null;
  return html`<h3>Why it missed</h3>
    <ul class="plain-list">
      ${missed.map(
        ({ answer, rate }) => html`<li key=${`${answer.user_id} ${answer.thread_id} ${answer.turn_id}`}>
          <a href=${href("prompt", [answer.thread_id, answer.turn_id])}>${shortTime(answer.at)}, ${Math.round(rate)} % cached</a>: ${answer.cause}
        </li>`,
      )}
    </ul>`;
}

const sum = (answers, field) => answers.reduce((total, answer) => total + answer[field], 0);
