"""What requests may hold. Every refusal names its field."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator
from pydantic_core import PydanticCustomError

from recollect.memory.model import MAX_TIMESTAMP, NewTurn, Role

MAX_ID = 512
MAX_TEXT_DEPTH = 64
MAX_FIELDS = 50


def _storable(text: str) -> str:
    """No NUL, no half of a surrogate pair: neither can be stored or sent on."""
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("must not contain lone surrogates") from None
    return text


def _storable_json(value: Any, depth: int = 0) -> Any:
    if depth > MAX_TEXT_DEPTH:
        raise ValueError(f"must not be nested more than {MAX_TEXT_DEPTH} levels deep")
    if isinstance(value, str):
        _storable(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _storable(key)
            _storable_json(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _storable_json(item, depth + 1)
    elif (isinstance(value, float) and value in (float("inf"), float("-inf"))) or value != value:
        raise ValueError("must not contain Infinity or NaN")
    elif isinstance(value, int) and abs(value) > 2**63:
        raise ValueError("must not contain integers beyond 64 bits")
    return value


Text = Annotated[str, AfterValidator(_storable)]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(_storable)]
MessageId = Annotated[str, Field(min_length=1, max_length=2 * MAX_ID), AfterValidator(_storable)]
Title = Annotated[str, Field(max_length=1000), AfterValidator(_storable)]
Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_storable)]
Tags = Annotated[list[Tag], Field(max_length=100)]
Objects = Annotated[list[dict[str, Any]], Field(max_length=1000), AfterValidator(_storable_json)]
Timestamp = Annotated[
    int, Field(ge=0, le=MAX_TIMESTAMP, strict=True, description="UTC milliseconds since 1970.")
]


class Body(BaseModel):
    """Unknown fields are refused: a misspelt one would be lost in silence."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _not_too_many_fields(cls, data: Any) -> Any:
        """Each unknown field is an error of its own: without this, one body could hold a million."""
        if isinstance(data, dict) and len(data) > MAX_FIELDS:
            raise ValueError(f"has {len(data)} fields; at most {MAX_FIELDS} are possible")
        return data


def _empty_content() -> PydanticCustomError:
    """Raised for a model as a whole; names the field that is at fault."""
    return PydanticCustomError("empty_content", "must not be empty", {"field": "content"})


class Message(Body):
    """One message that was said somewhere and is to be remembered."""

    message_id: MessageId | None = Field(None, description="Sent twice, it is stored once.")
    sender_id: Id = Field(description="Who spoke.")
    role: Role
    timestamp: Timestamp
    content: Text | None = Field(description="May be empty only beside tool_calls, or from a tool.")
    tool_calls: Objects | None = None
    tool_call_id: Id | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.content or "").strip() and not self.tool_calls and self.role != "tool":
            raise _empty_content()
        return self

    def new_turn(self) -> NewTurn:
        return NewTurn(
            role=self.role,
            content=self.content or "",
            timestamp=self.timestamp,
            sender_id=self.sender_id,
            message_id=self.message_id,
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
        )


class AddBody(Body):
    session_id: Id = Field(description="The thread; one that does not exist is opened.")
    user_id: Id | None = Field(None, description="Its owner. Unset: the owner it has, or `me` for a new one.")
    agent_id: Id | None = None
    tags: Tags = Field(default_factory=list, description="Added to the thread's tags.")
    messages: Annotated[list[Message], FailFast()] = Field(
        min_length=1, description="In order; at most 500 by default."
    )


class FlushBody(Body):
    session_id: Id
    user_id: Id | None = None
    timeout: float = Field(30, ge=0, le=600, description="Seconds to wait; past them the answer is 202.")


class ThreadBody(Body):
    thread_id: Id | None = Field(None, description="Unset: one is made.")
    user_id: Id | None = None
    agent_id: Id | None = None
    title: Title | None = None
    tags: Tags = Field(default_factory=list)
    preset: Id | None = None
    backend: Id | None = None
    incognito: bool = False


class ThreadChanges(Body):
    """Only what is named is changed; null clears it."""

    user_id: Id | None = Field(None, description="Who asks; the owner cannot be changed.")
    title: Title | None = None
    tags: Tags | None = None
    preset: Id | None = None
    backend: Id | None = None

    def changes(self) -> dict[str, Any]:
        given = self.model_dump(exclude_unset=True, exclude={"user_id"})
        return {name: [] if name == "tags" and value is None else value for name, value in given.items()}


class TurnBody(Body):
    """One turn, appended as it is."""

    user_id: Id | None = None
    role: Role
    content: Text | None = None
    message_id: MessageId | None = None
    sender_id: Id | None = Field(None, description="Unset: the owner for a user's turn, else the role.")
    timestamp: Timestamp | None = Field(None, description="Unset: now.")
    parts: Objects | None = None
    tool_calls: Objects | None = None
    tool_call_id: Id | None = None
    reasoning: Text | None = None
    parent_id: Id | None = None
    model: Id | None = None
    status: Literal["complete", "partial", "failed"] = "complete"

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        empty = not (self.content or "").strip() and not self.tool_calls and not self.parts
        if empty and self.role != "tool" and self.status == "complete":
            raise _empty_content()
        return self

    def new_turn(self, now: int) -> NewTurn:
        return NewTurn(
            role=self.role,
            content=self.content or "",
            timestamp=now if self.timestamp is None else self.timestamp,
            sender_id=self.sender_id or "",
            message_id=self.message_id,
            parts=self.parts,
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
            reasoning=self.reasoning,
            parent_id=self.parent_id,
            model=self.model,
            status=self.status,
        )


class KeyBody(Body):
    space: Id = "default"
    user_id: Id | None = Field(None, description="Bind the key to one user; unset: all of the space.")
    name: Title | None = None


class VerifyBody(Body):
    repair: bool = Field(False, description="Write files anew that are missing from the vault.")
