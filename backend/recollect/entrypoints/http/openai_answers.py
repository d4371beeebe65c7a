"""Answers in OpenAI's protocol: whole, in chunks, and the list of models."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field

from recollect.context.llm import Delta
from recollect.entrypoints.http.openai_errors import error_chunk
from recollect.errors import ModelUnavailable, RecollectError
from recollect.memory.identity import thread_key
from recollect.memory.model import JsonObject
from recollect.service.live_turns import LiveTurn
from recollect.service.model_choice import OfferedModel

THREAD_HEADER = "X-Recollect-Thread"
TURN_HEADER = "X-Recollect-Turn"
LABEL_HEADER = "X-Recollect-Label"


class Completion(BaseModel):
    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
    system_fingerprint: str | None = Field(None, description="What people should know of the model.")


class ModelAnswer(BaseModel):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str

    @classmethod
    def of(cls, model: OfferedModel) -> "ModelAnswer":
        return cls(id=model.name, owned_by=model.backend)


class ModelsAnswer(BaseModel):
    object: str = "list"
    data: list[ModelAnswer]

    @classmethod
    def of(cls, models: Sequence[OfferedModel]) -> "ModelsAnswer":
        return cls(data=[ModelAnswer.of(model) for model in models])


def headers_of(live: LiveTurn) -> dict[str, str]:
    """Ids are percent-encoded: a header holds ASCII, and a thread may be called anything."""
    label = live.receipt.get("label")
    return {
        THREAD_HEADER: quote(live.accepted.thread.thread_id, safe=""),
        TURN_HEADER: quote(live.turn.turn_id, safe=""),
        **({LABEL_HEADER: str(label)} if label else {}),
    }


def what_went_wrong(live: LiveTurn) -> RecollectError | None:
    """Of an answer that has ended: its error, or what stopped it before its end. None: it is whole."""
    if live.error is not None or live.turn.status == "complete":
        return live.error
    why = live.receipt.get("error") or "there is no answer"
    return ModelUnavailable(f"the answer broke off: {why}" if live.turn.status == "partial" else str(why))


def completion(live: LiveTurn, asked_model: str) -> JsonObject:
    """An answer that has ended."""
    choices = [
        {
            "index": index,
            "message": _message(live, index),
            "logprobs": None,
            "finish_reason": _reason(live, index),
        }
        for index in range(len(live.choices))
    ]
    model = live.turn.model or asked_model
    return {**_head(live, model, "chat.completion"), "choices": choices, "usage": _usage(live)}


async def chunks(
    live: LiveTurn, pieces: AsyncGenerator[list[Delta]], asked_model: str, *, include_usage: bool
) -> AsyncIterator[bytes]:
    """An answer as it comes; ends with `[DONE]`, or with an error where it broke off. What came together goes together."""
    head = _head(live, asked_model, "chat.completion.chunk")
    # All chunks are alike but for one choice: the rest is written once.
    before = b"data: " + _written(head).removesuffix(b"}") + b',"choices":['
    after = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"

    def chunk(index: int, delta: JsonObject, reason: str | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return before + _written(choice) + after

    places = range(len(live.choices))
    unsent = b"".join(chunk(index, {"role": "assistant", "content": ""}) for index in places)
    async with aclosing(pieces):
        async for come in pieces:
            unsent += b"".join(chunk(piece.choice, _delta(piece)) for piece in come) or b": still here\n\n"
            yield unsent
            unsent = b""
    if (error := what_went_wrong(live)) is not None:
        yield unsent + _event(error_chunk(error))
        return
    unsent += b"".join(chunk(index, {}, _reason(live, index)) for index in places)
    if include_usage:
        unsent += _event({**head, "choices": [], "usage": _usage(live)})
    yield unsent + b"data: [DONE]\n\n"


def _head(live: LiveTurn, model: str, kind: str) -> JsonObject:
    """Turn ids are a thread's own: with its key they are unique."""
    thread = live.accepted.thread
    answer = live.accepted.answer
    key = thread_key(thread.space, thread.thread_id)[:12]
    created = answer.timestamp // 1000
    head = {"id": f"chatcmpl-{key}-{answer.turn_id}", "object": kind, "created": created, "model": model}
    label = live.receipt.get("label")
    return {**head, "system_fingerprint": label} if label else head


def _message(live: LiveTurn, index: int) -> JsonObject:
    answer = live.choices[index].answer
    calls = list(answer.tool_calls)
    message: JsonObject = {
        "role": "assistant",
        "content": answer.content if answer.content or not calls else None,
        "refusal": None,
    }
    if calls:
        message["tool_calls"] = calls
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    return message


def _delta(piece: Delta) -> JsonObject:
    delta: JsonObject = {}
    if piece.reasoning:
        delta["reasoning_content"] = piece.reasoning
    if piece.text:
        delta["content"] = piece.text
    if piece.tool_calls:
        delta["tool_calls"] = list(piece.tool_calls)
    return delta


def _reason(live: LiveTurn, index: int) -> str:
    if live.finished is not None and index in live.finished.reasons:
        return live.finished.reasons[index]
    told = live.receipt.get("finish_reason") if index == 0 else None
    return str(told) if told else "tool_calls" if live.choices[index].calls else "stop"


def _usage(live: LiveTurn) -> JsonObject | None:
    """As the backend told; None where it told nothing."""
    told = live.receipt.get("usage") or {}
    prompt, written = told.get("prompt_tokens"), told.get("completion_tokens")
    if prompt is None and written is None:
        return None
    return {
        "prompt_tokens": prompt or 0,
        "completion_tokens": written or 0,
        "total_tokens": (prompt or 0) + (written or 0),
        "prompt_tokens_details": {"cached_tokens": told.get("cached_tokens") or 0},
    }


def _event(data: JsonObject) -> bytes:
    return b"data: " + _written(data) + b"\n\n"


def _written(data: JsonObject) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
