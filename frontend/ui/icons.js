// Icons as lines on a grid of 24, in the colour of the text beside them. They decorate: the words are elsewhere.
import { html } from "../view.js";

const PATHS = {
  chat: "M4 5.5h16v11H9.5L5.5 20v-3.5H4z",
  memory: "M6 3.5h11.5v17H6a2 2 0 0 1-2-2v-13a2 2 0 0 1 2-2zM4 17.5a2 2 0 0 1 2-1h11.5M8.5 7.5H14",
  prompt: "M4 5h16M4 10h10M4 15h16M4 20h7",
  health: "M3 12.5h4l2.5-7 4.5 13 2.5-6H21",
  settings: "M4 7.5h8M18 7.5h2M12 5v5h6V5zM4 16.5h2M12 16.5h8M6 14v5h6v-5z",
  plus: "M12 5v14M5 12h14",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.5 15.5 20 20",
  send: "M12 19.5V5M5.5 11.5 12 5l6.5 6.5",
  stop: "M6.5 6.5h11v11h-11z",
  more: "M4.7 12a.8.8 0 1 0 1.6 0 .8.8 0 1 0-1.6 0zM11.2 12a.8.8 0 1 0 1.6 0 .8.8 0 1 0-1.6 0zM17.7 12a.8.8 0 1 0 1.6 0 .8.8 0 1 0-1.6 0z",
  pin: "M9 4h6l-.8 6 3.3 3.5H6.5L9.8 10zM12 13.5V20",
  edit: "M4.5 19.5v-3.8L15.7 4.5l3.8 3.8L8.3 19.5zM13.5 6.7l3.8 3.8",
  trash: "M5 7h14M9.5 7V4.5h5V7M7 7l.8 12.5h8.4L17 7M10.5 10.5v6M13.5 10.5v6",
  copy: "M8.5 8.5h11v11h-11zM15.5 8.5v-4h-11v11h4",
  check: "M5 12.5 10 17.5 19.5 7",
  close: "M6 6l12 12M18 6 6 18",
  again: "M19 12a7 7 0 1 1-2.2-5.1M19.5 3.5v4.2h-4.2",
  undo: "M8 5 4 9l4 4M4 9h10.5a5 5 0 0 1 0 10H9",
  left: "M14.5 6 8.5 12l6 6",
  right: "M9.5 6l6 6-6 6",
  down: "M6 9.5l6 6 6-6",
  up: "M6 14.5l6-6 6 6",
  menu: "M4 6.5h16M4 12h16M4 17.5h16",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M18.7 5.3l-1.4 1.4M6.7 17.3l-1.4 1.4",
  moon: "M19.5 14.2A8 8 0 0 1 9.8 4.5a8 8 0 1 0 9.7 9.7z",
  user: "M12 4.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7zM5 20c.6-3.8 3.4-5.8 7-5.8s6.4 2 7 5.8",
  key: "M8 11.5a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM11 12.5l8-8M15.5 8l3 3",
  spark: "M12 3.5l2 6.5 6.5 2-6.5 2-2 6.5-2-6.5L3.5 12 10 10z",
  warning: "M12 4 21 19.5H3zM12 10v4.5M12 17.2h.01",
  info: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM12 11v5M12 8h.01",
  file: "M6 3.5h8l4 4v13H6zM14 3.5v4h4",
  link: "M10 14a3.5 3.5 0 0 0 5 0l3.5-3.5a3.5 3.5 0 0 0-5-5L12 7M14 10a3.5 3.5 0 0 0-5 0l-3.5 3.5a3.5 3.5 0 0 0 5 5L12 17",
  image: "M4 5h16v14H4zM4 16l4.5-4.5 4 4 2.5-2.5 5 5M15.5 9h.01",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  keyboard: "M3 6.5h18v11H3zM6.5 10h.01M10 10h.01M13.5 10h.01M17 10h.01M7.5 14h9",
  archive: "M4 4.5h16V9H4zM5.5 9v10.5h13V9M10 12.5h4",
  code: "M8.5 7 3.5 12l5 5M15.5 7l5 5-5 5",
  upload: "M12 16V5M7 9.5 12 4.5l5 5M4.5 16v3.5h15V16",
};

export function Icon({ name, size = 18 }) {
  return html`<svg class="icon" viewBox="0 0 24 24" width=${size} height=${size} aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}
