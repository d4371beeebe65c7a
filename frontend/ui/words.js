// Texts of the API, as sentences of a page.

/** Begins with a capital and ends with a full stop. */
export function sentence(text) {
  const whole = `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}`;
  return /[.!?…:]$/.test(whole) ? whole : `${whole}.`;
}

const ADVICE = {
  key_required: "Enter a key that is in force.",
  refused: "Ask whoever runs this server.",
  too_large: "Send it in smaller pieces.",
  conflict: "Reload the page, then try again.",
  unavailable: "Try again in a moment.",
  unknown_model: "Choose one of these for the chat.",
  model_unavailable: "See Health for what the model's server says, then ask again.",
  backend_down: "Start the model's server, then ask again. Health says which one it is.",
  rate_limited: "Wait a moment, then ask again.",
  over_quota: "Try again later, or ask whoever runs this server for more.",
  disk_quota_used: "Delete chats or notes that you don't need.",
  too_much_queued: "Wait a moment, then try again.",
  model_too_slow: "Ask again, or choose a smaller model.",
  stream_broken: "Ask again.",
  model_refused: "See Health for what the model's server says.",
  index_unavailable: "Try again in a few minutes.",
  storage_unavailable: "Free some space on the server's disk, then try again.",
  internal: "Try again. If it comes back, report it with what the log says.",
};

/** What a model's server may answer that takes no images. None says so in a way that others share. */
const OF_IMAGES = ["model_refused", "model_unavailable", "invalid_request", "invalid_prompt", "invalid_type", "invalid_value", "unsupported_value"];
const IMAGE_ADVICE = "This chat holds an image, and the model may not be able to see images: choose one that can in the settings of this chat, above, and ask again.";

/** What went wrong, in a sentence, and what to do about it. `pictured`: the model was shown images. */
export function explained({ message, code, id }, pictured = false) {
  const told = sentence(`${message}${id ? ` (in the log: ${id})` : ""}`);
  if (pictured && OF_IMAGES.includes(code)) return `${told} ${IMAGE_ADVICE}`;
  return ADVICE[code] ? `${told} ${ADVICE[code]}` : told;
}
