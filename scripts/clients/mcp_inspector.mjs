// The MCP inspector's command line, over HTTP and over stdio: what is said is remembered by one, and found by the other.
import { execFileSync } from "node:child_process";

const { OPENAI_API_KEY: key, OPENAI_BASE_URL: base, PYTHON: python, BACKEND: cwd } = process.env;
const address = base.replace(/\/v1$/, "/mcp");
const http = [address, "--transport", "http", "--header", `Authorization: Bearer ${key}`];
const stdio = [python, "-m", "recollect", "mcp", "--url", address, "-e", `RECOLLECT_API_KEY=${key}`, "--cwd", cwd];
const ask = (server, method, ...options) => {
  const all = ["mcp-inspector", "--cli", ...server, "--method", method, ...options];
  const answer = JSON.parse(execFileSync("npx", all).toString());
  if (answer.isError) throw new Error(JSON.stringify(answer.content));
  return answer;
};
const call = (server, tool, name, value) =>
  ask(server, "tools/call", "--tool-name", tool, "--tool-arg", `${name}=${value}`).structuredContent;
const expect = (holds, what) => {
  if (!holds) throw new Error(`the inspector did not get ${what}`);
};

const texts = process.argv.slice(2);
for (const text of texts) {
  if (!text.endsWith("?")) call(http, "remember", "text", text);
  const found = call(stdio, "search_memory", "query", texts.join(" "));
  console.log(found.memories.map((memory) => memory.text).join(" | "));
}
for (const server of [http, stdio]) {
  expect(ask(server, "tools/list", "--strict").tools.length === 15, "fifteen tools");
  expect(ask(server, "resources/list").resources.length >= 2, "the resources");
  expect(ask(server, "resources/read", "--uri", "recollect://profile").contents.length === 1, "the profile");
  const [{ name }] = ask(server, "prompts/list").prompts;
  const prompt = ask(server, "prompts/get", "--prompt-name", name, "--prompt-args", "topic=Marta");
  expect(prompt.messages[0].content.text.includes("Porto"), "what is remembered of Marta");
}
