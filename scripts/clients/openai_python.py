"""OpenAI's Python package, streamed."""

import sys

from openai import OpenAI

client = OpenAI()
history = []
for text in sys.argv[1:]:
    history.append({"role": "user", "content": text})
    stream = client.chat.completions.create(model="recollect", messages=history, stream=True)
    answer = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    print(answer)
    history.append({"role": "assistant", "content": answer})
