"""Requests and answers in OpenAI's protocol. Unknown fields are ignored, as its clients expect."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import takewhile
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, StrictBool

from recollect.domain.chat import ChatRequest
from recollect.domain.history_matching import text_parts
from recollect.domain.identity import thread_key
from recollect.domain.llm import Delta
from recollect.domain.model import JsonObject, NewTurn
from recollect.entrypoints.http.errors import body_of, openai_body, status_of
from recollect.entrypoints.http.requests import MAX_ID, Id, Objects, Said, Text, ThreadId, storable_json
from recollect.errors import ModelUnavailable, RecollectError
from recollect.service.chat.history_matching import ResentHistory
from recollect.service.chat.stream import LiveTurn
from recollect.service.models.choice import OWN_CHOICE, OfferedModel

Role = Literal["system", "developer", "user", "assistant", "tool"]
INSTRUCTING = ("system", "developer")
Object = Annotated[JsonObject, AfterValidator(storable_json)]
Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
Number = Annotated[float, Field(allow_inf_nan=False)]

_EXAMPLE = re.compile(r"example_(user|assistant)")
"""The names that OpenAI recommends for messages that show the model what is wanted."""

HEEDED_HERE = {
    "model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "metadata",
    "user_id",
}  # fmt: skip
"""Fields that Recollect reads itself; all others are passed on to the backend."""


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class CompletionMessage(Said, Lenient):
    role: Role
    content: Text | Objects | None = Field(None, description="Text, or content parts (text, image_url, …).")
    name: Id | None = Field(None, description="Who spoke, where several users do.")
    tool_calls: Objects | None = None
    tool_call_id: Id | None = Field(None, description="Of a tool's result: the call that it answers.")

    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(text_parts(self.content))
        return self.content or ""

    def new_turn(self, now: int) -> NewTurn:
        return NewTurn(
            role="system" if self.role == "developer" else self.role,
            content=self.text(),
            timestamp=now,
            sender_id=self.name or "" if self.role == "user" else "",
            parts=self.content if isinstance(self.content, list) else None,
            tool_calls=self.tool_calls if self.role == "assistant" else None,
            tool_call_id=self.tool_call_id if self.role == "tool" else None,
        )


class StreamOptions(Lenient):
    include_usage: StrictBool | None = None


class Metadata(Lenient):
    thread_id: ThreadId | None = Field(None, description="The thread, as `X-Recollect-Thread` names it.")
    user_id: Id | None = Field(None, description="Who is asking, where nothing else names the user.")


class CompletionBody(Said, Lenient):
    model: Id | None = Field(None, description="One of /v1/models; unset, or `recollect`: the default.")
    messages: Annotated[list[CompletionMessage], FailFast()] = Field(
        min_length=1,
        max_length=5_000,
        description="The history as the client knows it, and what is new; at most 5,000.",
    )
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128, strict=True)] | None = Field(
        None, description="Answers; the first goes on with the thread, the others are branches."
    )
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = Field(None, description="The newer name of `max_tokens`.")
    metadata: Metadata | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    stop: Text | Annotated[list[Text], Field(max_length=100)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1, strict=True)] | None = None
    tools: Objects | None = None
    tool_choice: Text | Object | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: Object | None = None
    frequency_penalty: Number | None = None
    presence_penalty: Number | None = None
    logit_bias: Object | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20, strict=True)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1_000_000, strict=True)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Number | None = None
    chat_template_kwargs: Object | None = None
    reasoning_effort: Text | None = None
    verbosity: Text | None = None
    service_tier: Text | None = None
    user: Annotated[Text, Field(max_length=MAX_ID)] | None = Field(
        None,
        description="Who is asking, where neither key nor header names the user. Passed on to the backend.",
    )
    user_id: Id | None = Field(None, description="Who is asking; must be the key's user where it has one.")
    safety_identifier: Text | None = None
    prediction: Object | None = None
    modalities: list[Text] | None = None
    audio: Object | None = None
    web_search_options: Object | None = None

    def options(self) -> JsonObject:
        """What the backend gets as it was sent."""
        given = self.model_dump(exclude=HEEDED_HERE, exclude_unset=True)
        return {name: value for name, value in given.items() if value is not None}

    def said(self, now: int) -> tuple[dict[int, NewTurn], tuple[str, ...] | None]:
        """The messages by their places, and the client's instructions, if it has any.

        Where there is nothing but instructions, the last of them is what is asked.
        """
        placed = dict(enumerate(self.messages))
        messages = {n: message for n, message in placed.items() if message.role not in INSTRUCTING}
        if not messages:
            last, asked = placed.popitem()
            messages = {last: asked.model_copy(update={"role": "user"})}
        texts = tuple(message.text() for message in placed.values() if message.role in INSTRUCTING)
        return {n: message.new_turn(now) for n, message in messages.items()}, texts or None

    def as_sent(self) -> list[JsonObject]:
        """The messages for a model, in words alone."""
        return [{"role": message.role, "content": message.text()} for message in self.messages]

    def named_users(self) -> tuple[str | None, ...]:
        """Those the body names, in order of precedence."""
        return self.user_id, self.user, (self.metadata or Metadata()).user_id

    def request(self, asking: "Asking") -> ChatRequest:
        """Everything but what is said."""
        most = self.max_completion_tokens or self.max_tokens
        return asking.request(max_tokens=most, options=self.options(), choices=self.n or 1)

    def resent(self, asking: "Asking", now: int) -> ResentHistory:
        messages, instructions = self.said(now)
        metadata = self.metadata or Metadata()
        request = replace(self.request(asking), system_texts=instructions)
        names = [self.messages[place].name or "" for place in messages]
        thread_id = asking.thread_id or (None if asking.chat_id else metadata.thread_id)
        return ResentHistory(
            tuple(messages.values()),
            request,
            thread_id,
            tuple(messages),
            asking.chat_id,
            examples=len(list(takewhile(_EXAMPLE.fullmatch, names))),
        )


class Asking(BaseModel):
    """Who is asking which model, and what the headers say that the protocol has no fields for."""

    user_id: Id
    backend: str | None
    model: str | None
    thread_id: Id | None = None
    chat_id: Id | None = None
    """The front end's own name for the conversation."""
    is_task: bool = False
    """The front end asks it by itself."""
    memory: bool = True
    key: str | None = None

    def request(self, **asked: Any) -> ChatRequest:
        """A turn of a thread that is still to be found."""
        told = self.model_dump(include={"user_id", "backend", "model", "memory", "key"})
        return ChatRequest(thread_id="", **told, **asked)


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
    """Ids are percent-encoded: a header holds ASCII, and a thread may be called anything. Without a thread, no ids."""
    label = live.receipt.get("label")
    ids = {THREAD_HEADER: live.accepted.thread.thread_id, TURN_HEADER: live.turn.turn_id}
    return {
        **{name: quote(value, safe="") for name, value in ids.items() if live.accepted.thread.thread_id},
        **({LABEL_HEADER: str(label)} if label else {}),
    }


def what_went_wrong(live: LiveTurn) -> RecollectError | None:
    """Of an answer that has ended: its error, or what stopped it before its end. None: it is whole."""
    if live.error is not None or live.turn.status == "complete":
        return live.error
    why = live.receipt.get("error") or "there is no answer"
    return ModelUnavailable(f"the answer broke off: {why}" if live.turn.status == "partial" else str(why))


def completion(live: LiveTurn, body: CompletionBody) -> JsonObject:
    """An answer that has ended."""
    choices = [
        {
            "index": n,
            "message": _message(live, n),
            "logprobs": _logprobs(choice.logprobs),
            "finish_reason": finish_reason(live, n),
        }
        for n, choice in enumerate(live.choices)
    ]
    model = live.turn.model or body.model or OWN_CHOICE
    return {**_head(live, model, "chat.completion"), "choices": choices, "usage": _usage(live)}


async def chunks(
    live: LiveTurn, body: CompletionBody, first: list[Delta] | None, rest: AsyncGenerator[list[Delta]]
) -> AsyncIterator[bytes]:
    """An answer as it comes; ends with `[DONE]`, or with an error where it broke off. What came together goes together."""
    head = _head(live, body.model or OWN_CHOICE, "chat.completion.chunk")
    include_usage = bool(body.stream_options and body.stream_options.include_usage)
    # All chunks are alike but for one choice: the rest is written once.
    before = b"data: " + written(head).removesuffix(b"}") + b',"choices":['
    after = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"

    def chunk(
        index: int, delta: JsonObject, reason: str | None = None, logprobs: Sequence[JsonObject] = ()
    ) -> bytes:
        told = _logprobs(logprobs)
        choice = {"index": index, "delta": delta, "logprobs": told, "finish_reason": reason}
        return before + written(choice) + after

    places = range(len(live.choices))
    unsent = b"".join(chunk(index, {"role": "assistant", "content": ""}) for index in places)
    async with aclosing(rest):
        come = first
        while come is not None:
            pieces = (chunk(piece.choice, _delta(piece), logprobs=piece.logprobs) for piece in come)
            unsent += b"".join(pieces) or b": still here\n\n"
            yield unsent
            unsent = b""
            come = await anext(rest, None)
    if (error := what_went_wrong(live)) is not None:
        yield unsent + _event(openai_body(body_of(error), status_of(error))[0])
        return
    unsent += b"".join(chunk(index, {}, finish_reason(live, index)) for index in places)
    if include_usage:
        unsent += _event({**head, "choices": [], "usage": _usage(live)})
    yield unsent + b"data: [DONE]\n\n"


def _head(live: LiveTurn, model: str, kind: str) -> JsonObject:
    """Turn ids are a thread's own: with its key they are unique."""
    thread = live.accepted.thread
    answer = live.accepted.answer
    key = thread_key(thread.ref)[:12]
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


def _logprobs(of_tokens: Sequence[JsonObject]) -> JsonObject | None:
    return {"content": list(of_tokens), "refusal": None} if of_tokens else None


def _delta(piece: Delta) -> JsonObject:
    delta: JsonObject = {}
    if piece.reasoning:
        delta["reasoning_content"] = piece.reasoning
    if piece.text:
        delta["content"] = piece.text
    if piece.tool_calls:
        delta["tool_calls"] = list(piece.tool_calls)
    return delta


def finish_reason(live: LiveTurn, index: int) -> str:
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
    return b"data: " + written(data) + b"\n\n"


def written(data: JsonObject) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
