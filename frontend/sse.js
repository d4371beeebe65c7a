// Server-sent events out of a fetched body. EventSource can neither POST nor send a key.

/** Each event as `{id, event, data}`, data parsed from JSON. Ends with the body. */
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
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

function readEvent(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  if (fields.data === undefined) return null;
  return { id: fields.id ?? null, event: fields.event ?? "message", data: JSON.parse(fields.data) };
}
