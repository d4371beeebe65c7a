"""Adding messages from the command line: one from an argument, many from a file."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from recollect.entrypoints.cli.client import HomeClient
from recollect.errors import InvalidInput
from recollect.service.ports import Progress

STATUSES = ("accepted", "duplicate", "forgotten")
_BATCH = 100


def messages_of(text: str | None, file: Path | None, *, role: str, sender: str) -> list[dict[str, Any]]:
    if (text is None) == (file is None):
        raise InvalidInput("give either a message or --file, as in: recollect add 'Hello' --session t1")
    if file is not None:
        return _read_lines(file)
    content = sys.stdin.read() if text == "-" else text
    return [{"role": role, "sender_id": sender, "timestamp": time.time_ns() // 1_000_000, "content": content}]


async def add_all(
    client: HomeClient, session: str, user: str | None, messages: list[dict[str, Any]], progress: Progress
) -> list[dict[str, Any]]:
    """Add in batches, in order; returns a receipt per message."""
    receipts: list[dict[str, Any]] = []
    for start in range(0, len(messages), _BATCH):
        body = {"session_id": session, "user_id": user, "messages": messages[start : start + _BATCH]}
        answer = await client.call("POST", "/api/v1/memory/add", json=body)
        receipts += answer["receipts"]
        progress(len(receipts), len(messages))
    return receipts


def _read_lines(file: Path) -> list[dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from error
    messages = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                messages.append(json.loads(line))
            except ValueError as error:
                raise InvalidInput(f"{file}, line {number} is not valid JSON: {error}") from error
    return messages
