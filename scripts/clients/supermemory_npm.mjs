// supermemory's npm package: what is said is added as documents, and what was made of them is searched.
import Supermemory from "supermemory";

const client = new Supermemory({ apiKey: process.env.OPENAI_API_KEY, baseURL: process.env.OPENAI_BASE_URL.replace(/\/v1$/, "") });
const found = async (q) => {
  const { results } = await client.search.memories({ q, threshold: 0 });
  return results.map((each) => (each.memory ?? each.chunk).replace(/\s+/g, " ")).join(" | ");
};
const texts = process.argv.slice(2);
for (const text of texts) {
  if (!text.endsWith("?")) {
    await client.add({ content: text });
    for (let tries = 0; tries < 300 && !(await found(text)).includes(text); tries++) {
      await new Promise((resolve) => setTimeout(resolve, 200)); // Memories are made in the background.
    }
  }
  console.log(await found(texts.join(" ")));
}
if (texts.length === 1) {
  const { memories } = await client.documents.list({ includeContent: true });
  const document = await client.documents.get(memories[0].id);
  if (document.content !== memories[0].content) throw new Error("the document is another");
  const { profile } = await client.profile({ containerTag: "porto" });
  if (!Array.isArray(profile.static)) throw new Error("there is no profile");
}
