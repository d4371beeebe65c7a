"""OpenAI's Agents SDK by its default model, with its session for conversations and a tool offered."""

import sys

from agents import Agent, OpenAIConversationsSession, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)


@function_tool
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


agent = Agent(name="Helper", model="recollect", tools=[add])
session = OpenAIConversationsSession()
for text in sys.argv[1:]:
    print(Runner.run_sync(agent, text, session=session).final_output)
