"""OpenAI's Agents SDK, by its chat-completions model, with a tool offered."""

import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


model = OpenAIChatCompletionsModel(model="recollect", openai_client=AsyncOpenAI())
agent = Agent(name="Helper", model=model, tools=[add])
history = []
for text in sys.argv[1:]:
    result = Runner.run_sync(agent, [*history, {"role": "user", "content": text}])
    print(result.final_output)
    history = result.to_input_list()
