"""A response of OpenAI's Responses: as one object, and as the events of a stream."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal

from recollect.domain.llm import Delta
from recollect.domain.model import JsonObject
from recollect.entrypoints.http.doors import openai_items as items
from recollect.entrypoints.http.errors import body_of, openai_body, status_of
from recollect.entrypoints.http.openai_schemas import finish_reason, what_went_wrong, written
from recollect.errors import RecollectError
from recollect.service.chat.stream import LiveTurn
from recollect.service.models.choice import OWN_CHOICE

KEPT = "response"
"""Where a receipt has what a response repeats of its request."""
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_UNSAID: JsonObject = {
    "instructions": None,
    "metadata": {},
    "previous_response_id": None,
    "conversation": None,
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "temperature": None,
    "top_p": None,
    "max_output_tokens": None,
    "reasoning": None,
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
    "store": True,
    "background": False,
    "user": None,
}


def response_of(live: LiveTurn, told: JsonObject, output: Sequence[JsonObject] | None = None) -> JsonObject:
    """As far as it got. `told` is what it repeats of its request; `output` differs from the turn's while it streams."""
    thread, said = live.accepted.thread.ref, live.choices[0].answer
    calls = list(said.tool_calls) or None
    answer = replace(live.turn, content=said.content, reasoning=said.reasoning, tool_calls=calls)
    begun = live.accepted.turns[0] if live.accepted.turns else live.accepted.answer
    reason = _INCOMPLETE.get(finish_reason(live, 0)) if live.has_ended else None
    error = what_went_wrong(live) if live.has_ended else None
    if error is not None:
        status = "cancelled" if live.stop_reason is not None else "failed"
    else:
        status = "incomplete" if reason else "completed" if live.has_ended else "in_progress"
    response = {
        "id": items.response_id(thread, answer.turn_id, stored=told.get("store") is not False),
        "object": "response",
        "created_at": begun.timestamp // 1000,
        "status": status,
        "model": answer.model or told.get("model") or OWN_CHOICE,
        "error": None if error is None else _error(error),
        "incomplete_details": {"reason": reason} if reason else None,
        "output": list(items.items_of(thread, answer)) if output is None else list(output),
        "usage": _usage(live) if live.has_ended else None,
        **{name: told.get(name, usual) for name, usual in _UNSAID.items()},
    }
    return {**response, "completed_at": answer.timestamp // 1000} if status == "completed" else response


def _error(error: RecollectError) -> JsonObject:
    told, status = openai_body(body_of(error), status_of(error))
    code = {429: "rate_limit_exceeded", 400: "invalid_prompt"}.get(status, "server_error")
    return {"code": code, "message": told["error"]["message"]}


def _usage(live: LiveTurn) -> JsonObject | None:
    """As the backend told; None where it told nothing."""
    told = live.receipt.get("usage") or {}
    prompt, answered = told.get("prompt_tokens"), told.get("completion_tokens")
    if prompt is None and answered is None:
        return None
    return {
        "input_tokens": prompt or 0,
        "input_tokens_details": {"cached_tokens": told.get("cached_tokens") or 0, "cache_write_tokens": 0},
        "output_tokens": answered or 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": (prompt or 0) + (answered or 0),
    }


@dataclass(slots=True)
class _Item:
    """An item of the output as it streams."""

    kind: Literal["rs", "msg", "fc"]
    identifier: str
    index: int
    pieces: list[str] = field(default_factory=list)
    """Of its text or, of a call, its arguments."""
    logprobs: list[JsonObject] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    is_open: bool = True

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def shown(self, status: items.Status) -> JsonObject:
        if self.kind == "rs":
            return items.reasoning_item(self.identifier, self.text, status)
        if self.kind == "msg":
            return items.message_item(self.identifier, self.text, status, self.logprobs)
        function = {"name": self.name, "arguments": self.text}
        return items.call_item(self.identifier, {"id": self.call_id, "function": function}, status)

    def part(self, *, begins: bool = False) -> JsonObject:
        text = "" if begins else self.text
        if self.kind == "rs":
            return {"type": "reasoning_text", "text": text}
        return items.text_part(text, () if begins else self.logprobs)


class ResponseEvents:
    """The events of one answer, in OpenAI's order."""

    def __init__(self, live: LiveTurn, told: JsonObject) -> None:
        self._live, self._told = live, told
        self._items: list[_Item] = []
        self._calls: dict[int, _Item] = {}
        self._number = 0

    async def stream(
        self, first: list[Delta] | None, rest: AsyncGenerator[list[Delta]]
    ) -> AsyncIterator[bytes]:
        """Up to the answer's end, which is an event, too. What came together goes together."""
        begins = response_of(self._live, self._told, ())
        begins |= {"status": "in_progress", "error": None, "incomplete_details": None, "usage": None}
        begins.pop("completed_at", None)
        unsent = self._event("response.created", response=begins)
        unsent += self._event("response.in_progress", response=begins)
        async with aclosing(rest):
            come = first
            while come is not None:
                unsent += b"".join(map(self._piece, come)) or b": still here\n\n"
                yield unsent
                unsent = b""
                come = await anext(rest, None)
        yield unsent + self._ended()

    def _event(self, kind: str, **fields: object) -> bytes:
        data = {"type": kind, **fields, "sequence_number": self._number}
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + written(data) + b"\n\n"

    def _of_item(self, kind: str, item: _Item, **fields: object) -> bytes:
        return self._event(kind, item_id=item.identifier, output_index=item.index, **fields)

    def _of_part(self, kind: str, item: _Item, **fields: object) -> bytes:
        return self._of_item(kind, item, content_index=0, **fields)

    def _piece(self, delta: Delta) -> bytes:
        told = b""
        if delta.choice != 0:
            return told
        if delta.reasoning:
            told += self._grown("rs", "response.reasoning_text.delta", delta.reasoning)
        if delta.text or delta.logprobs:
            told += self._grown("msg", "response.output_text.delta", delta.text, delta.logprobs)
        for fragment in delta.tool_calls:
            told += self._called(fragment)
        return told

    def _grown(
        self, kind: Literal["rs", "msg"], event: str, text: str, logprobs: Sequence[JsonObject] = ()
    ) -> bytes:
        told = b""
        item = self._items[-1] if self._items else None
        if item is None or item.kind != kind or not item.is_open:
            told = self._close(lambda _: True)
            item, begun = self._begin(kind)
            told += begun + self._of_part("response.content_part.added", item, part=item.part(begins=True))
        item.pieces.append(text)
        item.logprobs += logprobs
        more = {"logprobs": items.shown_logprobs(logprobs)} if kind == "msg" else {}
        return told + self._of_part(event, item, delta=text, **more)

    def _called(self, fragment: JsonObject) -> bytes:
        """Fragments of one call share their index; those of several may come in turns."""
        function = fragment.get("function") or {}
        index = int(fragment.get("index", len(self._calls)))
        told = b""
        item = self._calls.get(index)
        if item is None:
            told = self._close(lambda each: each.kind != "fc")
            call_id, name = str(fragment.get("id") or ""), str(function.get("name") or "")
            item, begun = self._begin("fc", call_id, name)
            self._calls[index] = item
            told += begun
        else:
            item.call_id = fragment.get("id") or item.call_id
            item.name += function.get("name") or ""
        arguments = function.get("arguments") or ""
        item.pieces.append(arguments)
        if not arguments:
            return told
        return told + self._of_item("response.function_call_arguments.delta", item, delta=arguments)

    def _begin(
        self, kind: Literal["rs", "msg", "fc"], call_id: str = "", name: str = ""
    ) -> tuple[_Item, bytes]:
        thread, turn_id = self._live.accepted.thread.ref, self._live.turn.turn_id
        number = sum(item.kind == kind for item in self._items)
        index = len(self._items)
        item = _Item(kind, items.item_id(kind, thread, turn_id, number), index, call_id=call_id, name=name)
        self._items.append(item)
        shown = item.shown("in_progress")
        return item, self._event("response.output_item.added", output_index=index, item=shown)

    def _close(self, which: Callable[[_Item], bool], status: items.Status = "completed") -> bytes:
        told = b""
        for item in self._items:
            if not item.is_open or not which(item):
                continue
            item.is_open = False
            if item.kind == "fc":
                told += self._of_item(
                    "response.function_call_arguments.done", item, name=item.name, arguments=item.text
                )
            else:
                kind = "response.output_text.done" if item.kind == "msg" else "response.reasoning_text.done"
                more = {"logprobs": items.shown_logprobs(item.logprobs)} if item.kind == "msg" else {}
                told += self._of_part(kind, item, text=item.text, **more)
                told += self._of_part("response.content_part.done", item, part=item.part())
            told += self._event("response.output_item.done", output_index=item.index, item=item.shown(status))
        return told

    def _ended(self) -> bytes:
        response = response_of(self._live, self._told, ())
        kind = {"completed": "completed", "incomplete": "incomplete"}.get(response["status"], "failed")
        status: items.Status = "completed" if kind == "completed" else "incomplete"
        last = len(self._items) - 1
        told = self._close(lambda item: item.index < last)
        told += self._close(lambda _: True, status)
        response["output"] = [
            item.shown(status if item.index == last else "completed") for item in self._items
        ]
        return told + self._event(f"response.{kind}", response=response)
