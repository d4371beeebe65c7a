"""What requests about entries and skills may hold, and what the answers look like."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field

from recollect.domain.entries import links as entry_links
from recollect.domain.entries.edit import EntryEdit, Version
from recollect.domain.entries.entry import KnownEntry, ends_of, owner_words
from recollect.domain.entries.links import SUPERSEDED_BY, SUPERSEDES
from recollect.domain.model import Entry
from recollect.entrypoints.http.answers import Answer
from recollect.entrypoints.http.requests import Body, Id, Text, Timestamp, Title, not_blank
from recollect.service.entries import Deletion, ShownEntry
from recollect.service.skills.view import ShownSkill
from recollect.service.sources import Quote, Reason

Kind = Literal["episodes", "facts", "foresight", "profile", "cases", "skills"]
UserKind = Literal["episodes", "facts", "foresight", "profile"]
MAX_TEXT = 20_000


def _on_one_line(text: str) -> str:
    if len(f"{text}.".splitlines()) > 1:
        raise ValueError("must be one line")
    return text


Revision = Annotated[int, Field(ge=1, le=2**62, strict=True)]


class EntryChanges(Body):
    """Only what is named is changed; null is the same as not named."""

    user_id: Id | None = Field(None, description="Who asks; the owner cannot be changed.")
    title: Annotated[Title, AfterValidator(not_blank), AfterValidator(_on_one_line)] | None = Field(
        None, description="One line."
    )
    text: Annotated[Text, Field(max_length=MAX_TEXT), AfterValidator(not_blank)] | None = None
    when: Timestamp | None = Field(None, description="When it happened, in UTC milliseconds.")
    pinned: bool | None = Field(None, strict=True)
    revision: Revision | None = Field(
        None, description="The revision that was read: refused with 409 where the entry has another by now."
    )

    def edit(self) -> EntryEdit:
        return EntryEdit(self.title, self.text, self.when, self.pinned, self.revision)


class NewEntry(Body):
    """A memory that a person writes down."""

    user_id: Id | None = Field(None, description="Whose; unset: the key's user, else `me`.")
    text: Annotated[Text, Field(max_length=MAX_TEXT), AfterValidator(not_blank)]
    kind: Literal["facts", "episodes"] = "facts"
    when: Timestamp | None = Field(None, description="When it happened, in UTC milliseconds; unset: now.")


class UndoBody(Body):
    user_id: Id | None = Field(None, description="Who asks.")
    revision: Revision | None = Field(None, description="Back to this one; unset: the last change is undone.")


_TOLD_APART = frozenset(["pinned", "edited", "cell", entry_links.UNTIL, SUPERSEDED_BY, SUPERSEDES])


class EntryState(BaseModel):
    """What an entry says, and how it stands."""

    title: str
    text: str
    when: int
    by: str = Field(description="The strategy and the model that made it; `rules` where there was none.")
    pinned: bool
    edited: bool = Field(
        description="A person wrote it: no extraction changes its words; what is said later may supersede it."
    )
    until: int | None = Field(
        description="When it ceased to hold, or will by its own words; null where neither is known."
    )
    superseded_by: str | None = Field(description="The entry that holds instead.")
    supersedes: list[str] = Field(description="The entries that it took the place of.")
    properties: dict[str, str] = Field(description="Whatever else stands in its file: subject, about, …")


class EntryAnswer(EntryState):
    id: str
    kind: str
    owner: str = Field(description="`users/…` or `agents/…`, as in the vault.")
    path: str | None = Field(description="Its file in the vault.")
    revision: int = Field(description="Counts its changes.")
    memcell: str | None = Field(description="The memcell that it was made from.")
    message_ids: list[str] = Field(description="The messages that it came from and that are still there.")

    @classmethod
    def of(cls, shown: ShownEntry) -> "EntryAnswer":
        return EntryAnswer(**_fields(shown))


class EntriesAnswer(BaseModel):
    entries: list[EntryAnswer]
    next: str | None = Field(None, description="Pass it as `after` for the next page; absent on the last.")


class MonthAnswer(BaseModel):
    month: str = Field(description="Such as 2026-05.")
    entries: int


class MonthsAnswer(BaseModel):
    months: list[MonthAnswer]


class QuoteAnswer(BaseModel):
    """A turn that an entry came from. Of one that was forgotten there is nothing but its place."""

    user_id: str = Field(description="The owner of the thread.")
    thread_id: str
    turn_id: str
    forgotten: bool
    message_id: str | None = None
    role: str | None = None
    sender_id: str | None = None
    timestamp: int | None = None
    content: str | None = None

    @classmethod
    def of(cls, quote: Quote) -> Self:
        source, turn = quote.source, quote.turn
        told = () if turn is None else ("message_id", "role", "sender_id", "timestamp", "content")
        return cls(
            user_id=source.user_id,
            thread_id=source.thread_id,
            turn_id=source.turn_id,
            forgotten=turn is None,
            **{name: getattr(turn, name) for name in told},
        )


class LinkedEntryAnswer(BaseModel):
    id: str
    relation: Literal["supersedes", "superseded_by", "made_of"]
    kind: str
    title: str
    text: str
    when: int
    until: int | None

    @classmethod
    def of(cls, relation: str, known: KnownEntry) -> "LinkedEntryAnswer":
        told = {"relation": relation, "when": known.entry.when, "until": known.ends}
        return cls.model_validate({**dict(NamedEntry.of(known)), **told})


class ShownEntryAnswer(EntryAnswer):
    quotes: list[QuoteAnswer]
    linked: list[LinkedEntryAnswer] = Field(description="The entries that it names.")

    @classmethod
    def of(cls, shown: ShownEntry) -> "ShownEntryAnswer":
        return ShownEntryAnswer(
            **_fields(shown),
            quotes=[QuoteAnswer.of(quote) for quote in shown.quotes],
            linked=[LinkedEntryAnswer.of(relation, known) for relation, known in shown.linked],
        )


class VersionAnswer(EntryState):
    revision: int
    actor: Literal["extraction", "consolidation", "person", "undo"] | None = Field(
        description="Who made it so; null for the first version."
    )
    cause: str | None = Field(description="In words: what the change was.")
    at: int | None = Field(description="When it was changed.")

    @classmethod
    def of(cls, version: Version) -> "VersionAnswer":
        change = {name: getattr(version, name) for name in ("revision", "actor", "cause", "at")}
        return cls.model_validate({**_state(version.entry), **change})


class HistoryAnswer(BaseModel):
    id: str
    revision: int = Field(description="The one in force.")
    versions: list[VersionAnswer] = Field(description="Oldest first; the last is in force.")


class WentAlong(BaseModel):
    id: str
    kind: str


class DeletedEntryAnswer(BaseModel):
    id: str
    deleted: bool = True
    went_along: list[WentAlong] = Field(description="Entries that were made of it alone: they are gone too.")
    changed: list[str] = Field(description="Entries that named it: what it superseded holds again.")

    @classmethod
    def of(cls, deleted: Deletion) -> "DeletedEntryAnswer":
        return cls(
            id=deleted.known.entry_id,
            went_along=[WentAlong(id=each.entry_id, kind=each.kind) for each in deleted.goes_along],
            changed=[each.entry_id for each in deleted.changes],
        )


class NamedEntry(BaseModel):
    id: str
    kind: str
    title: str
    text: str

    @classmethod
    def of(cls, known: KnownEntry) -> "NamedEntry":
        return cls(id=known.entry_id, kind=known.kind, title=known.entry.title, text=known.entry.text)


class DeletionAnswer(BaseModel):
    """What deleting an entry would bring about."""

    id: str
    goes_along: list[NamedEntry] = Field(description="Entries that were made of it alone.")
    changes: list[NamedEntry] = Field(
        description="Entries that name it: what it superseded would hold again."
    )

    @classmethod
    def of(cls, deletion: Deletion) -> "DeletionAnswer":
        return cls(
            id=deletion.known.entry_id,
            goes_along=[NamedEntry.of(each) for each in deletion.goes_along],
            changes=[NamedEntry.of(each) for each in deletion.changes],
        )


class ProfileAnswer(BaseModel):
    user_id: str
    entries: list[EntryAnswer] = Field(description="The lines of the page, in their order.")


class ReasonCell(Answer):
    memcell_id: str
    turn_ids: list[str]
    reason: str = Field(description="What closed it.")


class WhyAnswer(NamedEntry):
    """An entry, what made it, and what it was made of."""

    when: int
    edited: bool
    strategy: str | None
    model: str | None = Field(description="`rules` where there was none; null where it is not known.")
    memcell: ReasonCell | None = Field(description="Null for what came of none, or of one that is gone.")
    quotes: list[QuoteAnswer]
    made_of: list["WhyAnswer"] = Field(description="The entries that it came from, each with its own chain.")
    left_out: int = Field(
        description="Origins that stand in the chain already, are gone, or made it too long."
    )

    @classmethod
    def told(cls, reason: Reason) -> "WhyAnswer":
        return cls(
            **dict(NamedEntry.of(reason.known)),
            when=reason.known.entry.when,
            edited=reason.known.is_edited,
            strategy=reason.strategy or None,
            model=reason.model,
            memcell=None if reason.memcell is None else ReasonCell.of(reason.memcell),
            quotes=[QuoteAnswer.of(quote) for quote in reason.quotes],
            made_of=[WhyAnswer.told(each) for each in reason.made_of],
            left_out=reason.left_out,
        )


def _fields(shown: ShownEntry) -> dict[str, Any]:
    known = shown.known
    return {
        **_state(known.entry),
        "id": known.entry_id,
        "kind": known.kind,
        "owner": owner_words(known.owner),
        "path": known.path or None,
        "revision": known.revision,
        "memcell": known.cell or None,
        "message_ids": shown.message_ids,
    }


def _state(entry: Entry) -> dict[str, object]:
    extra = entry.extra
    return {
        "title": entry.title,
        "text": entry.text,
        "when": entry.when,
        "by": entry.by,
        "pinned": extra.get("pinned") == "yes",
        "edited": extra.get("edited") == "yes",
        "until": ends_of(entry),
        "superseded_by": next(iter(entry_links.successor_ids(entry)), None),
        "supersedes": list(entry_links.superseded_ids(entry)),
        "properties": {key: value for key, value in extra.items() if key not in _TOLD_APART},
    }


class SkillAnswer(BaseModel):
    name: str
    agent: str = Field(description="The agent's folder in the vault.")
    description: str
    tools: list[str]
    cases: list[str] = Field(description="The ids of the cases that it was made of.")
    edited: list[str] = Field(description="What a person wrote in it and nobody else changes.")
    path: str = Field(description="Its file in the vault.")
    text: str = Field(description="All of the file.")

    @classmethod
    def of(cls, shown: ShownSkill) -> "SkillAnswer":
        own = {"agent": shown.agent, "path": shown.path, "text": shown.text}
        return cls.model_validate({**asdict(shown.skill), **own})


class SkillsAnswer(BaseModel):
    skills: list[SkillAnswer]
