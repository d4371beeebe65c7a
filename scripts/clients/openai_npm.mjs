// OpenAI's package for JavaScript, streamed.
import OpenAI from "openai";

const client = new OpenAI();
const history = [];
for (const text of process.argv.slice(2)) {
  history.push({ role: "user", content: text });
  const stream = await client.chat.completions.create({ model: "recollect", messages: history, stream: true });
  let answer = "";
  for await (const chunk of stream) answer += chunk.choices[0]?.delta?.content ?? "";
  console.log(answer);
  history.push({ role: "assistant", content: answer });
}
