"""Threads, turns and memcells. Times are UTC milliseconds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

Role = Literal["user", "assistant", "system", "tool"]
Status = Literal["queued", "streaming", "complete", "partial", "failed"]
JsonObject = dict[str, Any]

ROLES: tuple[Role, ...] = ("user", "assistant", "system", "tool")
DEFAULT_USER = "me"
"""Whose thread it is where nobody is named."""
MAX_TIMESTAMP = 253_402_300_799_999
"""The last millisecond of the year 9999."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a thread. `turn_id` is unique within its thread and never reused."""

    turn_id: str
    message_id: str
    role: Role
    sender_id: str
    content: str
    timestamp: int
    parts: list[JsonObject] | None = None
    tool_calls: list[JsonObject] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    parent_id: str | None = None
    model: str | None = None
    status: Status = "complete"
    skip_reason: str | None = None
    """Why no memcell will ever hold this turn; None for a turn that memory works on."""
    edited: bool = False
    """Whether a person changed it by hand: nothing that is derived ever replaces their words."""


class ThreadRef(NamedTuple):
    """Names a thread, whether it is there or not: two users may use the same id."""

    space: str
    user_id: str
    thread_id: str


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation, owned by one user in one space."""

    space: str
    thread_id: str
    user_id: str
    created: int
    updated: int
    agent_id: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    preset: str | None = None
    backend: str | None = None
    incognito: bool = False
    turn_count: int = 0
    pinned: bool = False
    archived: bool = False
    one_shot: bool = False
    """A single call of a client that named no thread. It ends when the user says more, or names or pins it."""

    @property
    def ref(self) -> ThreadRef:
        return ThreadRef(self.space, self.user_id, self.thread_id)


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn that is to be appended. Without a `message_id` one is made."""

    role: Role
    content: str
    timestamp: int
    sender_id: str
    message_id: str | None = None
    parts: list[JsonObject] | None = None
    tool_calls: list[JsonObject] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    parent_id: str | None = None
    model: str | None = None
    status: Status = "complete"


@dataclass(frozen=True, slots=True)
class Append:
    """Turns for one thread, and whose it is. Without `user_id`: the one owner of a thread of that id, else `me`."""

    space: str
    thread_id: str
    turns: Sequence[NewTurn]
    user_id: str | None = None
    agent_id: str | None = None
    tags: tuple[str, ...] = ()
    one_shot: bool = False
    """Of a thread that this opens."""
    title: str | None = None
    """Likewise."""
    past: bool = False
    """Said long ago, elsewhere: the thread is listed by its own times, is over, and ends no other thread."""
    branches: frozenset[str] = frozenset()
    """Ids of messages on abandoned branches, which are kept and left alone by memory."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What happened to one message that was sent in."""

    message_id: str
    turn_id: str | None
    status: Literal["accepted", "duplicate", "forgotten"]
    detail: str | None = None
    indexed: bool = False
    """Whether it is in the index, and found by its words from there."""
    embedded: bool = False
    """Whether it is found by its meaning too."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where every accepted message is. `missing` and `doubled` are 0 as long as promise 1 holds."""

    messages: int
    buffered: int
    celled: int
    extracted: int
    """Of those in memcells: the ones that no strategy has still to work on."""
    skipped: int
    forgotten: int
    missing: int
    doubled: int
    indexed: int
    embedded: int
    digest: str
    missing_turns: tuple[tuple[ThreadRef, str], ...] = ()
    """Thread and turn id of what is missing, the first hundred."""


@dataclass(frozen=True, slots=True)
class Memcell:
    """A closed stretch of one thread. Its id is derived from its turns."""

    memcell_id: str
    turn_ids: tuple[str, ...]
    reason: str
    """What closed it: gap, topic, length, model, next (the user's next thread) or flush."""
    links: tuple[str, ...] = field(default=(), compare=False)
    """Where the memories made of it are, as links within the owner's folder. No part of what it is."""


@dataclass(frozen=True, slots=True)
class TranscriptPart:
    """One file of a thread's transcript: turns in order, and the memcells whose last turn is among them."""

    thread: Thread
    part: int
    turns: tuple[Turn, ...] = ()
    memcells: tuple[Memcell, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory in the vault. `sources` are links to the turns it came from."""

    entry_id: str
    title: str
    text: str
    when: int
    sources: tuple[str, ...] = ()
    by: str = ""
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages of a thread that are in no memcell yet, and when they will be at the latest."""

    messages: int
    until: int


@dataclass(frozen=True, slots=True, order=True)
class ThreadCursor:
    """A cursor into the list of recent threads. It stays valid when its thread is used, unpinned or deleted."""

    pinned: bool
    updated: int
    thread_id: str
    user_id: str

    @classmethod
    def of(cls, thread: Thread) -> Self:
        return cls(thread.pinned, thread.updated, thread.thread_id, thread.user_id)

    def as_text(self) -> str:
        """For `next` of a page."""
        told = [self.pinned, self.updated, self.thread_id, self.user_id]
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Raises ValueError for what `as_text` did not make."""
        match json.loads(text):
            case [bool(pinned), int(updated), str(thread_id), str(user_id)] if abs(updated) < 2**62:
                return cls(pinned, int(updated), thread_id, user_id)
        raise ValueError("not a cursor of the list of threads")


NOTE_BYTES = 1_000_000
"""Of a longer note, this much is read."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it was last seen."""

    path: str
    """In the vault."""
    owner: str
    """The owner's folder in the vault."""
    digest: str
    """SHA-256 of what was read of it."""
    modified: int
    """When it was last written, in UTC milliseconds."""
