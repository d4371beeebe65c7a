"""Answers as server-sent events: `meta`, `delta`, `reasoning`, `done`, `error`.

An event's id says how much of the answer has been sent: `t-13:0:42` is the answer t-13, no reasoning and 42
characters of its text. Whoever sends it back (`Last-Event-ID`, or `after`) gets what follows.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from recollect.context.llm import Delta
from recollect.entrypoints.http.chat_bodies import ChatAnswer
from recollect.errors import InvalidInput
from recollect.service.live_turns import LiveTurn, Offset

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_event_id = re.compile(r"(t-\d{1,18}):(\d{1,12}):(\d{1,12})")


def read_event_id(event_id: str) -> tuple[str, Offset]:
    """The turn, and how much of it is known."""
    found = _event_id.fullmatch(event_id)
    if found is None:
        raise InvalidInput("after: must be the id of an event, such as t-13:0:42", field="after")
    return found[1], Offset(int(found[2]), int(found[3]))


async def events(live: LiveTurn, after: Offset | None = None) -> AsyncIterator[bytes]:
    """All that is left to tell of an answer, up to its end."""
    reached = after or Offset()
    yield _event("meta", _state(live), live, reached)
    async for deltas in live.follow(reached):
        told, reached = _told(live, deltas, reached)
        yield told if deltas else b": still here\n\n"
    if live.error is not None:
        error = {"code": live.error.code, "message": live.error.message}
        yield _event("error", {**_state(live), "error": error}, live, reached)
    else:
        yield _event("done", ChatAnswer.of(live).model_dump(), live, reached)


def _told(live: LiveTurn, deltas: Sequence[Delta], reached: Offset) -> tuple[bytes, Offset]:
    """The events of pieces that came together, which go out together; and how much has been sent with them."""
    told = b""
    for delta in deltas:
        if delta.choice != 0:
            continue
        if delta.reasoning:
            reached = Offset(reached.reasoning + len(delta.reasoning), reached.text)
            told += _event("reasoning", {"text": delta.reasoning}, live, reached)
        if delta.text:
            reached = Offset(reached.reasoning, reached.text + len(delta.text))
            told += _event("delta", {"text": delta.text}, live, reached)
    return told, reached


def _state(live: LiveTurn) -> dict[str, Any]:
    answer = ChatAnswer.of(live).model_dump()
    return {name: answer[name] for name in ("thread_id", "user_turn", "assistant_turn")}


def _event(kind: str, data: dict[str, Any], live: LiveTurn, reached: Offset) -> bytes:
    event_id = f"{live.turn.turn_id}:{reached.reasoning}:{reached.text}"
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"id: {event_id}\nevent: {kind}\ndata: {text}\n\n".encode()
