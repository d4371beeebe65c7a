"""Anthropic's Messages: a message is one chat turn of a thread, of a client that keeps its history itself."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from recollect.domain.identity import thread_key
from recollect.domain.llm import Delta, signed_thoughts
from recollect.domain.model import DEFAULT_USER, JsonObject
from recollect.entrypoints.http import errors
from recollect.entrypoints.http import openai_schemas as schemas
from recollect.entrypoints.http.deps import Calling, Home, note
from recollect.entrypoints.http.direct_route import direct
from recollect.entrypoints.http.doors.anthropic_blocks import blocks_of, tool_use
from recollect.entrypoints.http.doors.anthropic_body import MessagesBody, PromptBody
from recollect.entrypoints.http.routes.openai import MAX_HEADER, answer_of, asking_of, headers, streamed
from recollect.service.chat.context_builder import prompt_tokens
from recollect.service.chat.stream import LiveTurn
from recollect.service.models.choice import OWN_CHOICE, chosen_model

router = APIRouter(prefix=errors.ROOT, tags=["anthropic"])
SESSION_HEADER = "X-Claude-Code-Session-Id"
AGENT_HEADER = "X-Claude-Code-Agent-Id"
"""Of an agent that Claude Code's model started: nobody said what it is told."""
Beta = Annotated[str | None, Query(max_length=100, description="Ignored.")]


class MessageAnswer(BaseModel):
    """A message, in Anthropic's shape."""

    model_config = ConfigDict(extra="allow")

    id: str
    type: str
    role: str
    content: list[dict[str, Any]]


class TokensAnswer(BaseModel):
    input_tokens: int


def session_header(
    x_claude_code_session_id: Annotated[
        str | None, Header(max_length=MAX_HEADER, description="The client's own name for the conversation.")
    ] = None,
) -> None:
    """For the description alone."""


@direct(
    router,
    "/messages",
    response_model=MessageAnswer,
    responses={
        **errors.documented_for_anthropic(409, 502, 504),
        **streamed("The message, or its events."),
    },
    dependencies=[Depends(headers), Depends(session_header)],
)
async def create_message(
    home: Home, caller: Calling, body: MessagesBody, request: Request, beta: Beta = None
) -> Response:
    """One chat turn of a client that keeps its history itself."""
    asking = await asking_of(home, caller, request, body.model, (body.user_id,), SESSION_HEADER)
    if asking.chat_id is None and asking.thread_id is None and body.metadata is not None:
        asking = asking.model_copy(update={"chat_id": body.metadata.session_id})
    asked = body.request(asking)
    by_claude_code, by_agent = (name in request.headers for name in (SESSION_HEADER, AGENT_HEADER))
    resent = await asyncio.to_thread(body.resent, asking, asked, home.clock())
    is_probe = asking.is_task or by_agent or body.is_probe(by_claude_code=by_claude_code)
    if is_probe or resent.is_housekeeping():
        messages = await asyncio.to_thread(body.prompt, home.clock())
        live = home.chat.housekeeping.handle(caller, asked, messages)
    else:
        live = await home.history_matching.handle(caller, resent)
        note(request, thread=live.accepted.thread.thread_id, turn=live.turn.turn_id)
    events = MessageEvents(live, body.model).stream if body.stream else None
    return answer_of(live, request, partial(message_of, live, body.model), events)


@direct(
    router,
    "/messages/count_tokens",
    response_model=TokensAnswer,
    responses=errors.documented_for_anthropic(),
)
async def count_tokens(
    home: Home, caller: Calling, body: PromptBody, request: Request, beta: Beta = None
) -> TokensAnswer:
    """About how many tokens a message would be sent with, without what memory adds. Nothing is stored."""
    note(request, user=caller.acting_for(None) or DEFAULT_USER)
    backend, _ = await chosen_model(home.talking.backends, body.model)
    messages = await asyncio.to_thread(body.countable, home.clock())
    return TokensAnswer(input_tokens=await prompt_tokens(home.talking.backends.get(backend), messages))


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
    reason = schemas.finish_reason(live, 0)
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
        if (error := schemas.what_went_wrong(self._live)) is not None:
            body, _ = errors.anthropic_body(errors.body_of(error), errors.status_of(error))
            return b"event: error\ndata: " + schemas.written(body) + b"\n\n"
        told = self._close()
        for index, call in sorted(self._live.choices[0].calls.items()):
            if index != self._calling:
                told += self._begin("tool_use", tool_use(call, {}))
                told += self._grown(type="input_json_delta", partial_json=call["function"]["arguments"])
                told += self._close()
        delta = {"stop_reason": _stop_reason(self._live), "stop_sequence": None}
        return told + _event("message_delta", delta=delta, usage=_usage(self._live)) + _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + schemas.written({"type": kind, **fields}) + b"\n\n"
