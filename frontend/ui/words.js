// Texts of the API, as sentences of a page.

/** Begins with a capital and ends with a full stop. */
export function sentence(text) {
  const whole = `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}`;
  return /[.!?…:]$/.test(whole) ? whole : `${whole}.`;
}
