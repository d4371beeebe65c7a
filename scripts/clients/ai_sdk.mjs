// Vercel's AI SDK with its provider for OpenAI-compatible servers, streamed.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";

const recollect = createOpenAICompatible({
  name: "recollect",
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
});
const messages = [];
for (const text of process.argv.slice(2)) {
  messages.push({ role: "user", content: text });
  const { textStream } = streamText({ model: recollect("recollect"), messages });
  let answer = "";
  for await (const piece of textStream) answer += piece;
  console.log(answer);
  messages.push({ role: "assistant", content: answer });
}
