"""A whole conversation as Markdown to read, as an export holds it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def markdown_of(thread: Mapping[str, Any]) -> str:
    """A conversation to read: who said what, and when, each text as it was written."""
    begin = (
        f"# {thread['title'] or thread['thread_id']}\n\nThread {thread['thread_id']} of {thread['user_id']}"
    )
    lines = [f"{begin}, {_messages(thread['turn_count'])} since {_time(thread['created'])}\n"]
    for turn in thread["turns"]:
        by = f" ({turn['model']})" if turn["model"] else ""
        ending = "" if turn["status"] == "complete" else f", {turn['status']}"
        images = [part["image_url"]["url"] for part in turn["parts"] or () if "image_url" in part]
        calls = [f"`{call['function']['name']}`" for call in turn["tool_calls"] or ()]
        body = [
            turn["content"],
            *(f"![image]({url})" for url in images),
            *(f"calls {call}" for call in calls),
        ]
        lines.append(f"## {turn['sender_id']}{by}, {_time(turn['timestamp'])}{ending}\n")
        lines += [f"{text}\n" for text in body if text]
    return "\n".join(lines)


def _messages(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
