"""What requests may hold. Every refusal names its field."""

from typing import Annotated, Any, Literal, LiteralString, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator
from pydantic_core import PydanticCustomError

from recollect.domain.images import WORDS
from recollect.domain.model import MAX_TIMESTAMP, NewTurn, Role
from recollect.domain.recall.hits import Mode, RowType, Scope, Selection
from recollect.errors import TooLarge
from recollect.service.recall.search import Search
from recollect.service.threads import NewThread

MAX_ID = 512
MAX_TEXT_DEPTH = 64
MAX_FIELDS = 50
MAX_TEXT = 1_000_000
"""Characters of one message's text. Every step of the pipeline reads all of it."""


def storable(text: str) -> str:
    """No NUL, no half of a surrogate pair: neither can be stored or sent on."""
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("must not contain lone surrogates") from None
    return text


def storable_json(value: Any, depth: int = 0) -> Any:
    if depth > MAX_TEXT_DEPTH:
        raise ValueError(f"must not be nested more than {MAX_TEXT_DEPTH} levels deep")
    if isinstance(value, str):
        storable(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            storable(key)
            storable_json(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            storable_json(item, depth + 1)
    elif (isinstance(value, float) and value in (float("inf"), float("-inf"))) or value != value:
        raise ValueError("must not contain Infinity or NaN")
    elif isinstance(value, int) and abs(value) > 2**63:
        raise ValueError("must not contain integers beyond 64 bits")
    return value


def addressable(identifier: str) -> str:
    """Clients take "." and ".." out of every path, also percent-encoded: no address would lead to such a thread."""
    if identifier in {".", ".."}:
        raise ValueError("must not be . or .., which no address can hold; any other text is allowed")
    return identifier


def not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Text = Annotated[str, AfterValidator(storable)]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(storable)]
ThreadId = Annotated[Id, AfterValidator(addressable)]
"""Of a thread that may be opened by it."""
MessageId = Annotated[str, Field(min_length=1, max_length=2 * MAX_ID), AfterValidator(storable)]
PageMark = Annotated[str, Field(min_length=1, max_length=16 * MAX_ID), AfterValidator(storable)]
"""Room for two ids with every character escaped."""
Title = Annotated[str, Field(max_length=1000), AfterValidator(storable)]
Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(storable)]
Tags = Annotated[list[Tag], Field(max_length=100)]
Objects = Annotated[list[dict[str, Any]], Field(max_length=1000), AfterValidator(storable_json)]
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


def at_fault(field: str, problem: LiteralString) -> PydanticCustomError:
    """Raised for a model as a whole; names the field that is at fault."""
    return PydanticCustomError("at_fault", problem, {"field": field})


class Said(BaseModel):
    """A message, or a body of messages."""

    def check_texts(self, place: str = "") -> None:
        """Raises TooLarge, which names the field, for one with too much text. Of parts only the words are text."""
        for name, value in self:
            field = f"{place}{name}"
            items = value if isinstance(value, list) else []
            if items and isinstance(items[0], Said):
                for number, item in enumerate(items):
                    item.check_texts(f"{field}[{number}].")
                continue
            is_parts = name in ("content", "parts") and items
            text = [part.get(word) for part in items for word in WORDS] if is_parts else value
            if _characters(text) > MAX_TEXT:
                raise TooLarge(f"{field}: must not have more than {MAX_TEXT} characters", field=field)


def _characters(value: Any) -> int:
    """Of all texts in a JSON value."""
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            count += len(each)
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
    return count


class Message(Said, Body):
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
            raise at_fault("content", "must not be empty")
        return self

    def new_turn(self) -> NewTurn:
        return NewTurn(**{**dict(self), "content": self.content or ""})


class AddBody(Said, Body):
    session_id: ThreadId = Field(description="The thread; one that does not exist is opened.")
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


class ReprocessBody(Body):
    user_id: Id | None = Field(None, description="Whose; unset: the key's user, else everybody's.")
    thread_id: Id | None = Field(None, description="Only this thread.")
    strategies: Annotated[list[str], Field(max_length=20)] = Field(
        default_factory=list, description="Any of episode, facts, foresight, case; none: all that are on."
    )
    ask_again: bool = Field(False, description="Drop the model's kept answers, so that it is asked again.")


class SearchBody(Body):
    """A search within one user's memory."""

    query: Annotated[
        str, Field(min_length=1, max_length=10_000), AfterValidator(storable), AfterValidator(not_blank)
    ]
    user_id: Id | None = Field(None, description="Whose memory; unset: the key's user.")
    agent_id: Id | None = Field(
        None,
        description="Only threads and cases of this agent; alone: those with the key's user, else with `me`.",
    )
    mode: Mode = Field("hybrid", description="By words and meaning, by words alone, or by meaning alone.")
    types: Annotated[list[RowType], Field(max_length=20)] = Field(
        default_factory=list,
        description="Only these: turn, stretch, note, episode, fact, foresight, profile, case; none given: all.",
    )
    tags: Tags = Field(default_factory=list, description="Only what carries at least one of these.")
    thread_id: Id | None = Field(None, description="Only this thread.")
    since: Timestamp | None = Field(None, description="Only what happened at this time or later.")
    until: Timestamp | None = Field(None, description="Only what happened before this time.")
    top_k: int | None = Field(
        None, ge=1, le=1000, strict=True, description="Most hits; unset: 10, or 100 with max_tokens."
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        strict=True,
        description="The best hits whose texts have so many tokens together, with those of their neighbours.",
    )
    relevant_only: bool = Field(
        False, description="Only hits up to where relevance ends; none where nothing is about the query."
    )
    neighbours: int = Field(0, ge=0, le=20, strict=True, description="Turns before and after each hit.")
    passages: bool = Field(True, description="Of a long text only the best passage; false: all of it.")
    now: Timestamp | None = Field(None, description="When it is asked, for 'last week'; unset: now.")

    @model_validator(mode="after")
    def _time_runs_forwards(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise at_fault("until", "must be after since")
        return self

    def search(self) -> Search:
        top_k = self.top_k or (100 if self.max_tokens is not None else 10)
        scope = Scope(
            frozenset(self.types), frozenset(self.tags), self.thread_id, self.agent_id, self.since, self.until
        )
        selection = Selection(self.mode, scope, top_k, self.max_tokens, self.passages)
        return Search(
            self.query,
            self.user_id,
            self.agent_id,
            selection,
            self.neighbours,
            self.now,
            relevant_only=self.relevant_only,
            with_threads=True,
        )


class ThreadBody(Body):
    thread_id: ThreadId | None = Field(None, description="Unset: one is made.")
    user_id: Id | None = None
    agent_id: Id | None = None
    title: Title | None = None
    tags: Tags = Field(default_factory=list)
    preset: Id | None = None
    backend: Id | None = None
    incognito: bool = False

    def new_thread(self) -> NewThread:
        return NewThread(**{**dict(self), "tags": tuple(dict.fromkeys(self.tags))})


class ThreadChanges(Body):
    """Only what is named is changed; null clears it."""

    user_id: Id | None = Field(None, description="Who asks; the owner cannot be changed.")
    title: Title | None = None
    tags: Tags | None = None
    preset: Id | None = None
    backend: Id | None = None
    pinned: bool | None = Field(None, description="Above the others in a list of the last used.")
    archived: bool | None = Field(None, description="Kept, and out of the list.")

    def changes(self) -> dict[str, Any]:
        given = self.model_dump(exclude_unset=True, exclude={"user_id"})
        cleared = {"tags": [], "pinned": False, "archived": False}
        return {name: cleared.get(name) if value is None else value for name, value in given.items()}


class TurnBody(Said, Body):
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
            raise at_fault("content", "must not be empty")
        return self

    def new_turn(self, now: int) -> NewTurn:
        given = {name: value for name, value in self if name != "user_id" and value is not None}
        return NewTurn(**{"content": "", "timestamp": now, "sender_id": "", **given})


class KeyBody(Body):
    space: Id = "default"
    user_id: Id | None = Field(None, description="Bind the key to one user; unset: all of the space.")
    name: Title | None = None
    scopes: Annotated[list[Literal["read", "write", "delete", "admin"]], Field(min_length=1)] | None = Field(
        None, description="Default: all; for a user's key all but `admin`."
    )
    expires: Annotated[int, Field(ge=0, le=MAX_TIMESTAMP)] | None = None


class RotateBody(Body):
    overlap_seconds: int = Field(86_400, ge=0, le=366 * 86_400, description="How long the old key lives on.")


class UpgradeBody(Body):
    undo: bool = Field(False, description="Put back the files that an upgrade replaced.")


class VerifyBody(Body):
    repair: bool = Field(False, description="Write files again that are missing from the vault.")
    forgotten: bool = Field(False, description="Prove instead that nothing is left of what was forgotten.")
