// Vercel's AI SDK with its provider for OpenAI, whose default is responses; it names earlier items by their ids.
import { createOpenAI } from "@ai-sdk/openai";
import { streamText } from "ai";

const openai = createOpenAI();
const messages = [];
for (const text of process.argv.slice(2)) {
  messages.push({ role: "user", content: text });
  const result = streamText({ model: openai("recollect"), messages });
  console.log(await result.text);
  messages.push(...(await result.response).messages);
}
