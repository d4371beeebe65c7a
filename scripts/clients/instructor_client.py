"""instructor around OpenAI's package; without a response model it passes the completion through."""

import sys

import instructor
from openai import OpenAI

client = instructor.from_openai(OpenAI())
history = []
for text in sys.argv[1:]:
    history.append({"role": "user", "content": text})
    answer = client.chat.completions.create(response_model=None, model="recollect", messages=history)
    said = answer.choices[0].message.content
    print(said)
    history.append({"role": "assistant", "content": said})
