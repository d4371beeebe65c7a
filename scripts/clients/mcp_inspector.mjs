// The MCP inspector's command line: what is said is remembered with one tool, and found with another.
import { execFileSync } from "node:child_process";

const address = process.env.OPENAI_BASE_URL.replace(/\/v1$/, "/mcp");
const call = (tool, name, value) => {
  const options = ["--cli", address, "--transport", "http", "--method", "tools/call", "--tool-name", tool];
  const key = ["--header", `Authorization: Bearer ${process.env.OPENAI_API_KEY}`];
  const printed = execFileSync("npx", ["mcp-inspector", ...options, "--tool-arg", `${name}=${value}`, ...key]);
  const answer = JSON.parse(printed.toString());
  if (answer.isError) throw new Error(JSON.stringify(answer.content));
  return answer.structuredContent;
};
const texts = process.argv.slice(2);
for (const text of texts) {
  if (!text.endsWith("?")) call("remember", "text", text);
  const found = call("search_memory", "query", texts.join(" "));
  console.log(found.memories.map((memory) => memory.text).join(" | "));
}
