"""What chat requests may hold, and what their answers look like."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from recollect.domain.chat import ChatRequest, PromptReceipt
from recollect.domain.model import JsonObject, NewTurn
from recollect.domain.prompt import is_time_zone
from recollect.domain.sources import MOST_CHARS, MOST_SOURCES
from recollect.entrypoints.http.answers import TurnAnswer
from recollect.entrypoints.http.requests import Body, Id, MessageId, Objects, Said, Tags, Text, at_fault
from recollect.service.chat.stream import LiveTurn


def _known_zone(name: str) -> str:
    if not is_time_zone(name):
        raise ValueError("must be a time zone such as Europe/Berlin")
    return name


TimeZone = Annotated[str, Field(max_length=100), AfterValidator(_known_zone)]


class Result(Body):
    """Something that the caller found elsewhere: quoted to the model, and never taken for the user's words."""

    title: Annotated[Text, Field(max_length=1000)] = ""
    text: Annotated[Text, Field(min_length=1, max_length=MOST_CHARS)]
    origin: Annotated[Text, Field(max_length=1000)] = Field("", description="Where it comes from.")


class MessageBody(Said, Body):
    """One message to be answered. Without content and parts, `parent_id` is answered again."""

    user_id: Id | None = Field(
        None, description="Whose thread; unset: the key's user, or the thread's owner."
    )
    content: Text | None = None
    parts: Objects | None = Field(
        None, description="OpenAI's content parts (text, image_url, file, …) in its place."
    )
    context: Annotated[list[Result], Field(max_length=MOST_SOURCES)] = Field(
        default_factory=list, description="Results that go with the message."
    )
    stream: bool = False
    preset: Id | None = Field(None, description="The thread's preset from now on.")
    memory: bool = Field(True, description="Recall for this message, and remember it.")
    extract_skills: bool = Field(False, description="Work on skills after this turn in any case.")
    parent_id: Id | None = Field(
        None, description="The turn it follows: another than the last opens a branch."
    )
    message_id: MessageId | None = None
    tags: Tags = Field(default_factory=list, description="Added to the thread's tags.")
    backend: Id | None = Field(None, description="One of the configured backends, for this message.")
    model: Id | None = None
    max_tokens: int | None = Field(None, ge=1, le=1_000_000, strict=True)
    temperature: float | None = Field(None, ge=0, le=2)
    time_zone: TimeZone | None = Field(
        None, description="For the clock; unset: the user's preference, or UTC."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.content is not None and self.parts is not None:
            raise at_fault("parts", "content and parts exclude each other")
        if not (self.content or "").strip() and not self.parts and self.parent_id is None:
            raise at_fault("content", "must not be empty")
        if self.context and not (self.content or "").strip() and not self.parts:
            raise at_fault("context", "needs a message that it goes with")
        return self

    def request(self, thread_id: str, now: int, key: str | None) -> ChatRequest:
        said = bool((self.content or "").strip() or self.parts)
        turn = NewTurn("user", self.content or "", now, "", self.message_id, self._parts())
        passed_on = self.model_dump(
            exclude={"content", "parts", "context", "message_id", "stream", "tags", "temperature"}
        )
        return ChatRequest(
            thread_id=thread_id,
            turns=(turn,) if said else (),
            tags=tuple(dict.fromkeys(self.tags)),
            key=key,
            options={} if self.temperature is None else {"temperature": self.temperature},
            **passed_on,
        )

    def _parts(self) -> list[JsonObject] | None:
        results = [{"type": "context", "context": each.model_dump()} for each in self.context]
        said = self.parts or ([{"type": "text", "text": self.content}] if results else [])
        return [*said, *results] or None


class CancelBody(Body):
    user_id: Id | None = None
    all: bool = Field(False, description="The turns that wait, too.")
    turn_id: Id | None = Field(None, description="Only this answer, streaming or waiting.")


class CancelAnswer(BaseModel):
    cancelled: list[str] = Field(description="Turn ids of the answers that were stopped.")


class ChatAnswer(BaseModel):
    thread_id: str
    user_turn: TurnAnswer | None = Field(description="Null where an answer was asked for again.")
    assistant_turn: TurnAnswer
    receipt: dict[str, Any] = Field(
        description="What was sent and what came of it: tokens, times, what recall and the rewriter did."
    )

    @classmethod
    def of(cls, live: LiveTurn) -> "ChatAnswer":
        turns = live.accepted.turns
        said = TurnAnswer.of(turns[-1]) if turns else None
        if said is not None and said.status == "queued" and live.has_begun:
            said.status = "complete"
        return cls(
            thread_id=live.accepted.thread.thread_id,
            user_turn=said,
            assistant_turn=TurnAnswer.of(live.turn),
            receipt=live.receipt,
        )


class PromptAnswer(BaseModel):
    turn_id: str
    epoch: int
    request: dict[str, Any] | None = Field(
        description="What was sent, exactly; null where it never left, or the server was killed."
    )
    messages: list[dict[str, Any]] = Field(description="The prompt in OpenAI's shape.")
    new_from: int = Field(description="The first message that was not sent before.")
    prefix_digest: str | None
    first_difference: int | None = Field(
        description="The first byte of the thread's previous prompt that this one does not have; null: it only grew."
    )
    cause: str | None = Field(description="Why they differ.")
    cached_tokens: int | None
    evaluated_tokens: int | None
    time_to_first_token_ms: float | None
    sent: int = Field(description="When, in UTC milliseconds.")
    detail: dict[str, Any] = Field(description="All of the receipt.")

    @classmethod
    def of(cls, receipt: PromptReceipt) -> "PromptAnswer":
        own = {
            "turn_id": receipt.turn_id,
            "epoch": receipt.epoch,
            "request": receipt.payload,
            "messages": receipt.messages,
            "new_from": receipt.new_from,
            "sent": receipt.at,
            "detail": receipt.detail,
        }
        # The other fields are those of the receipt's detail, as far as it has them.
        return cls.model_validate({**dict.fromkeys(cls.model_fields), **receipt.detail, **own})
