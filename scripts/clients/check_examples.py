"""Checks of the adapters in `examples/`, each in the environment of its framework: `check_examples.py langchain_history`."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


def refuses(call: Callable[[], Any]) -> None:
    """What Recollect can't do is said in words."""
    try:
        call()
    except NotImplementedError as error:
        if " " in str(error):
            return
    raise AssertionError("it was not refused in words")


def langchain_history() -> None:
    from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_history import RecollectHistory

    call = {"name": "add", "args": {"a": 1, "b": 1}, "id": "c1", "type": "tool_call"}
    said = [
        SystemMessage("Be short."),
        HumanMessage("What is 1 + 1?", name="ann"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("2", tool_call_id="c1"),
        AIMessage("It is 2."),
    ]
    history = RecollectHistory("a/b ü")
    for _ in range(2):  # Cleared, it begins again.
        history.clear()
        assert history.messages == []
        history.add_messages(said)
        assert history.messages == said, history.messages
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    for unknown in (HumanMessage([image]), ChatMessage("No.", role="critic")):
        refuses(lambda unknown=unknown: history.add_messages([*said, unknown]))
    history.add_messages([])
    assert asyncio.run(history.aget_messages()) == said
    assert RecollectHistory("another").messages == []


if __name__ == "__main__":
    {check.__name__: check for check in (langchain_history,)}[sys.argv[1]]()
