"""An answer as one of Anthropic's messages: as one object, and as the events of a stream."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from recollect.domain.identity import thread_key
from recollect.domain.llm import Delta, signed_thoughts
from recollect.domain.model import JsonObject
from recollect.entrypoints.http.doors.anthropic_blocks import blocks_of, tool_use
from recollect.entrypoints.http.errors import anthropic_body, body_of, status_of
from recollect.entrypoints.http.openai_schemas import finish_reason, what_went_wrong, written
from recollect.service.chat.stream import LiveTurn
from recollect.service.models.choice import OWN_CHOICE

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_OWN_REASONS = ("pause_turn", "model_context_window_exceeded")
"""Anthropic's own, as its servers tell them."""


def message_of(live: LiveTurn, model: str | None) -> JsonObject:
    """An answer that has ended."""
    return {
        **_head(live, live.turn.model or model),
        "content": blocks_of(live.choices[0].answer),
        "stop_reason": _stop_reason(live),
        "usage": _usage(live),
    }


def _head(live: LiveTurn, model: str | None) -> JsonObject:
    """Turn ids are a thread's own: with its key they are unique."""
    key = thread_key(live.accepted.thread.ref)[:12]
    return {
        "id": f"msg_{key}_{live.accepted.answer.turn_id}",
        "type": "message",
        "role": "assistant",
        "model": model or OWN_CHOICE,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _counted(0, 0, 0),
    }


def _stop_reason(live: LiveTurn) -> str:
    reason = finish_reason(live, 0)
    return reason if reason in _OWN_REASONS else _STOP_REASONS.get(reason, "end_turn")


def _usage(live: LiveTurn) -> JsonObject:
    """As the backend told; 0 for what it did not tell. Input is what the model had not read before."""
    told = live.receipt.get("usage") or {}
    cached = told.get("cached_tokens") or 0
    prompt = max(0, (told.get("prompt_tokens") or 0) - cached)
    return _counted(prompt, told.get("completion_tokens") or 0, cached)


def _counted(prompt: int, answered: int, cached: int) -> JsonObject:
    return {
        "input_tokens": prompt,
        "output_tokens": answered,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
    }


class MessageEvents:
    """The events of one answer, in Anthropic's order: its blocks come one after another."""

    def __init__(self, live: LiveTurn, model: str | None) -> None:
        self._live, self._model = live, model
        self._index = -1
        self._open: str | None = None
        """The type of the block that is open."""
        self._calling: int | None = None
        """The call that streams: the first. Others, whose fragments may come in turns with its own, follow at the end."""

    async def stream(
        self, first: list[Delta] | None, rest: AsyncGenerator[list[Delta]]
    ) -> AsyncIterator[bytes]:
        """Up to the answer's end, or its error. What came together goes together."""
        unsent = _event("message_start", message=_head(self._live, self._model)) + _event("ping")
        async with aclosing(rest):
            come = first
            while come is not None:
                unsent += b"".join(map(self._piece, come)) or _event("ping")
                yield unsent
                unsent = b""
                come = await anext(rest, None)
        yield unsent + self._ended()

    def _piece(self, delta: Delta) -> bytes:
        told = b""
        if delta.choice != 0:
            return told
        if delta.reasoning:
            told += self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            told += self._grown(type="thinking_delta", thinking=delta.reasoning)
        if delta.text:
            told += self._begin("text", {"type": "text", "text": ""})
            told += self._grown(type="text_delta", text=delta.text)
        for fragment in delta.tool_calls:
            told += self._called(fragment)
        return told

    def _called(self, fragment: JsonObject) -> bytes:
        told = b""
        index = int(fragment.get("index", 0))
        if self._calling is None:
            self._calling = index
            thoughts = signed_thoughts([fragment])
            if self._open == "thinking" and thoughts:
                told += self._grown(type="signature_delta", signature=thoughts[-1].get("signature") or "")
            told += self._begin("tool_use", tool_use(fragment, {}))
        arguments = (fragment.get("function") or {}).get("arguments")
        if self._calling != index or self._open != "tool_use" or not arguments:
            return told
        return told + self._grown(type="input_json_delta", partial_json=arguments)

    def _begin(self, kind: str, block: JsonObject) -> bytes:
        """Opens a block of this type, unless one is open."""
        if self._open == kind:
            return b""
        told = self._close()
        self._index += 1
        self._open = kind
        return told + _event("content_block_start", index=self._index, content_block=block)

    def _grown(self, **delta: object) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _event("content_block_stop", index=self._index)

    def _ended(self) -> bytes:
        if (error := what_went_wrong(self._live)) is not None:
            body, _ = anthropic_body(body_of(error), status_of(error))
            return b"event: error\ndata: " + written(body) + b"\n\n"
        told = self._close()
        for index, call in sorted(self._live.choices[0].calls.items()):
            if index != self._calling:
                told += self._begin("tool_use", tool_use(call, {}))
                told += self._grown(type="input_json_delta", partial_json=call["function"]["arguments"])
                told += self._close()
        delta = {"stop_reason": _stop_reason(self._live), "stop_sequence": None}
        return told + _event("message_delta", delta=delta, usage=_usage(self._live)) + _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + written({"type": kind, **fields}) + b"\n\n"
