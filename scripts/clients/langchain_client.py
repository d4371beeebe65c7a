"""LangChain's ChatOpenAI, streamed."""

import sys

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="recollect")
history: list[BaseMessage] = []
for text in sys.argv[1:]:
    history.append(HumanMessage(text))
    answer = "".join(str(chunk.content) for chunk in model.stream(history))
    print(answer)
    history.append(AIMessage(answer))
