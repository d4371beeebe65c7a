"""Conversations in which an agent works with tools."""

import json

from tests.http_client import Json
from tests.remembering import MINUTE

DISK_TASK = "Free some space on the full disk of the server"


def tool_task(
    prefix: str, start: int, task: str = DISK_TASK, *, user: str = "bob", thanks: str = "Thanks, that works!"
) -> list[Json]:
    """Somebody asks, an agent calls two tools, and somebody says how it went."""

    def call(number: int, name: str, **arguments: str) -> Json:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": f"{prefix}-call{number}", "type": "function", "function": function}

    told: list[Json] = [
        {"role": "user", "content": task},
        {"role": "assistant", "content": "", "tool_calls": [call(1, "disk_usage", path="/var")]},
        {"role": "tool", "content": "98 % used", "tool_call_id": f"{prefix}-call1"},
        {"role": "assistant", "content": "", "tool_calls": [call(2, "delete_files", path="/var/log/old")]},
        {"role": "tool", "content": "deleted", "tool_call_id": f"{prefix}-call2"},
        {"role": "assistant", "content": "The disk has room again."},
        {"role": "user", "content": thanks},
    ]
    return [
        {
            "message_id": f"{prefix}{number}",
            "sender_id": user if each["role"] == "user" else each["role"],
            "timestamp": start + number * MINUTE,
            **each,
        }
        for number, each in enumerate(told)
    ]
