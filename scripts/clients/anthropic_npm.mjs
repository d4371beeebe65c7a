// Anthropic's package for JavaScript: messages, streamed, with the whole history.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic();
const messages = [];
for (const text of process.argv.slice(2)) {
  messages.push({ role: "user", content: text });
  const answer = await client.messages.stream({ model: "recollect", max_tokens: 500, messages }).finalMessage();
  messages.push({ role: "assistant", content: answer.content });
  console.log(answer.content[0].text.replaceAll("\n", " "));
}
