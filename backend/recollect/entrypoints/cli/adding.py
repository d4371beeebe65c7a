"""Adding messages from the command line: one from an argument, many from a file."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.entrypoints.cli.client import HomeClient
from recollect.errors import InvalidInput
from recollect.service.ports import Progress

STATUSES = ("accepted", "duplicate", "forgotten")
_BATCH = 100
_BATCH_BYTES = 1_000_000


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
    for batch in _batches(messages):
        body = {"session_id": session, "user_id": user, "messages": batch}
        answer = await client.call("POST", "/api/v1/memory/add", json=body)
        receipts += answer["receipts"]
        progress(len(receipts), len(messages))
    return receipts


def _batches(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """At most a hundred messages and about a megabyte at a time."""
    batch: list[dict[str, Any]] = []
    size = 0
    for message in messages:
        length = len(json.dumps(message))
        if batch and (len(batch) == _BATCH or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _read_lines(file: Path) -> list[dict[str, Any]]:
    """Every line is checked before the first is sent, so that a bad one stores nothing."""
    from pydantic import ValidationError

    from recollect.entrypoints.http.bodies import Message

    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from error
    messages = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                message = json.loads(line)
                Message.model_validate(message)
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"]) or "message"
                raise InvalidInput(f"{file}, line {number}, {field}: {first['msg']}") from error
            except ValueError as error:
                raise InvalidInput(f"{file}, line {number} is not valid JSON: {error}") from error
            messages.append(message)
    return messages
