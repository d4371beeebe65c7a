// Server-sent events out of a fetched body. EventSource can neither POST nor send a key.

/** The server says every 15 seconds that it is still there. */
const SILENCE_MS = 45_000;

/** Each event as `{id, event, data}`, data parsed from JSON. Ends with the body. */
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await withinReason(reader.read());
      if (done) return;
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = readEvent(block);
        if (event) yield event;
      }
    }
  } finally {
    // Whoever stops listening early also stops the transfer.
    await reader.cancel().catch(() => {});
  }
}

function withinReason(reading) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("nothing was heard for too long")), SILENCE_MS);
  });
  return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
}

function readEvent(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  if (fields.data === undefined) return null;
  return { id: fields.id ?? null, event: fields.event ?? "message", data: JSON.parse(fields.data) };
}
