"""litellm, by its provider `openai`."""

import sys

import litellm

history = []
for text in sys.argv[1:]:
    history.append({"role": "user", "content": text})
    answer = litellm.completion(model="openai/recollect", messages=history).choices[0].message.content
    print(answer)
    history.append({"role": "assistant", "content": answer})
