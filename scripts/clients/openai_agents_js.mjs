// OpenAI's Agents SDK for JavaScript by its default model, with its session for conversations.
import { Agent, OpenAIConversationsSession, run, setTracingDisabled } from "@openai/agents";

setTracingDisabled(true);
const agent = new Agent({ name: "Helper", model: "recollect" });
const session = new OpenAIConversationsSession();
for (const text of process.argv.slice(2)) console.log((await run(agent, text, { session })).finalOutput);
