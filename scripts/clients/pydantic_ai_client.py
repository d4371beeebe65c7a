"""pydantic-ai's agent with its OpenAI chat model."""

import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
agent = Agent(OpenAIChatModel("recollect", provider=provider))
history = None
for text in sys.argv[1:]:
    result = agent.run_sync(text, message_history=history)
    print(result.output)
    history = result.all_messages()
