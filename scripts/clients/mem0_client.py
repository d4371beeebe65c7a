"""mem0's platform client: what is said is added, and what was made of it is searched."""

import os
import sys
import time

from mem0 import MemoryClient

client = MemoryClient(
    api_key=os.environ["OPENAI_API_KEY"], host=os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
)


def found(query: str) -> str:
    """All that is found, in one line."""
    results = client.search(query, filters={}, threshold=0)["results"]
    return " | ".join(" ".join(memory["memory"].split()) for memory in results)


texts = sys.argv[1:]
for text in texts:
    if not text.endswith("?"):
        assert client.add(text)["status"] == "PENDING"
        until = time.monotonic() + 60
        while text not in found(text) and time.monotonic() < until:  # Memories are made in the background.
            time.sleep(0.1)
    print(found(" ".join(texts)))
if len(texts) == 1:
    newest = client.get_all(filters={}, page=1, page_size=1)["results"][0]
    assert client.get(newest["id"])["memory"] == newest["memory"]
    assert client.update(newest["id"], text="Marta lives in Porto.")["memory"] == "Marta lives in Porto."
    assert [each["event"] for each in client.history(newest["id"])] == ["ADD", "UPDATE"]
    client.delete(newest["id"])
    assert newest["id"] not in [each["id"] for each in client.get_all(filters={})["results"]]
