"""What a request in OpenAI's protocol may hold. What nobody knows is ignored, as clients expect of such a server."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    TypeAdapter,
    ValidationError,
)

from recollect.entrypoints.http.bodies import Id, Objects, Text, ThreadId
from recollect.memory.model import JsonObject, NewTurn
from recollect.memory.resent import text_parts
from recollect.service.chat_request import ChatRequest
from recollect.service.recognise import Resent

Role = Literal["system", "developer", "user", "assistant", "tool"]
INSTRUCTING = ("system", "developer")
_objects: TypeAdapter[list[JsonObject]] = TypeAdapter(Objects)


def _storable_object(value: JsonObject) -> JsonObject:
    try:
        return _objects.validate_python([value])[0]
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


Object = Annotated[JsonObject, AfterValidator(_storable_object)]
Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
Number = Annotated[float, Field(allow_inf_nan=False)]

PASSED_ON = (
    "temperature", "top_p", "stop", "seed", "tools", "tool_choice", "parallel_tool_calls", "response_format",
    "frequency_penalty", "presence_penalty", "logit_bias", "reasoning_effort", "verbosity", "service_tier", "user",
    "safety_identifier", "prediction", "modalities", "audio", "web_search_options",
)  # fmt: skip


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class CompletionMessage(Lenient):
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
    user_id: Id | None = Field(None, description="Whose thread, as `X-Recollect-User` names it.")


class CompletionBody(Lenient):
    model: Id | None = Field(None, description="One of /v1/models; unset, or `recollect`: the default.")
    messages: Annotated[list[CompletionMessage], FailFast()] = Field(
        min_length=1, max_length=20_000, description="The history as the client knows it, and what is new."
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
    reasoning_effort: Text | None = None
    verbosity: Text | None = None
    service_tier: Text | None = None
    user: Text | None = Field(None, description="Passed on to the backend; it names nobody here.")
    safety_identifier: Text | None = None
    prediction: Object | None = None
    modalities: list[Text] | None = None
    audio: Object | None = None
    web_search_options: Object | None = None

    def options(self) -> JsonObject:
        """What the backend gets as it was sent."""
        given = self.model_dump(include=set(PASSED_ON), exclude_unset=True)
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

    def resent(self, asking: "Asking", backend: str | None, model: str | None, now: int) -> Resent:
        messages, instructions = self.said(now)
        metadata = self.metadata or Metadata()
        request = ChatRequest(
            thread_id="",
            user_id=asking.user_id or metadata.user_id,
            backend=backend,
            model=model,
            memory=asking.memory,
            key=asking.key,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            options=self.options(),
            choices=self.n or 1,
            system_texts=instructions,
        )
        thread_id = asking.thread_id or metadata.thread_id
        return Resent(tuple(messages.values()), request, thread_id, places=tuple(messages))


class Asking(BaseModel):
    """What the headers of a request say, which OpenAI's protocol has no fields for."""

    thread_id: Id | None = None
    user_id: Id | None = None
    memory: bool = True
    key: str | None = None
