"""Entries as the journal knows them: text, sources, owner, file and state; and which of them say the same.

No word is understood here: statements are compared by their kind, text and subject. What no longer holds is told by
`succession`.
"""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from recollect.domain.job import JobSpec
from recollect.domain.markdown.front_matter import read_time
from recollect.domain.model import Entry, JsonObject, ThreadRef
from recollect.domain.recall.words import words_in

EPISODES = "episodes"
FACTS = "facts"
FORESIGHT = "foresight"
PROFILE = "profile"
CASES = "cases"
SKILLS = "skills"
USER_KINDS = (EPISODES, FACTS, FORESIGHT, PROFILE)
AGENT_KINDS = (CASES, SKILLS)
ENTRY_KINDS = (*USER_KINDS, *AGENT_KINDS)

_MARKS = {EPISODES: "ep", FACTS: "fa", FORESIGHT: "fo", PROFILE: "pr", CASES: "ca", SKILLS: "sk"}
_SENTENCES = ("fa-", "fo-", "pr-")

USER = "user"
"""The subject of facts about the owner, whatever the owner's name."""
EVENT = "event"
"""The category of facts that only happened."""
CORRECTED = "corrected"
"""When a person wrote an entry's words: what they say counts as said then."""
SAID = "said"
"""When an entry was said, where a person changed its `when` alone: no import of older messages overrules it for that."""
ABOUT = "about"
"""From when a plan is for."""
LAPSES = "lapses"
"""When an entry ends by its own words: a plan's time is over, or a fact said until when it holds."""

Actor = Literal["extraction", "consolidation", "person", "undo"]
AFTER_A_PERSON = "what a person wrote about the same changed"
"""The cause, in histories, of what consolidation changes after a person's change."""


@dataclass(frozen=True, slots=True)
class Source:
    """A turn that an entry came from. An agent's entries come from threads of several users."""

    user_id: str
    thread_id: str
    turn_id: str

    def thread_in(self, space: str) -> ThreadRef:
        return ThreadRef(space, self.user_id, self.thread_id)


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """An entry and what the journal knows about it. Text and marks are in the vault, and the rest follows from them."""

    space: str
    owner: str
    """The owner's folder in the vault."""
    kind: str
    entry: Entry
    sources: tuple[Source, ...] = ()
    cell: str = ""
    """The memcell it was derived from; empty for what a person wrote, or what was derived from other entries."""
    strategy: str = ""
    path: str = ""
    """Its file in the vault; empty until it is stored."""
    revision: int = 0
    """Counts its changes; 0 until it is stored."""
    repeated: int = 0
    """When a person said it the last time, by the messages that it came from; 0 where that was not looked up."""

    @property
    def entry_id(self) -> str:
        return self.entry.entry_id

    @property
    def is_pinned(self) -> bool:
        return self.entry.extra.get("pinned") == "yes"

    @property
    def is_edited(self) -> bool:
        """A person wrote it: only a person changes or deletes it. Later statements may supersede it."""
        return self.entry.extra.get("edited") == "yes"

    @property
    def subject(self) -> str:
        """Whom it is about: `user` for the owner. Two subjects are the same if they are named alike."""
        return self.entry.extra.get("subject", "").strip().casefold()

    @property
    def category(self) -> str:
        return self.entry.extra.get("category", "").strip().casefold()

    @property
    def said(self) -> int:
        """When it was said; what a person wrote over it, when they did."""
        return said_at(self.entry)

    @property
    def last_said(self) -> int:
        """When it was said or, as far as that is known, repeated."""
        return max(self.said, self.repeated)

    @property
    def holds(self) -> bool:
        """Nothing has superseded it."""
        return "superseded_by" not in self.entry.extra

    @property
    def ends(self) -> int | None:
        """When it ceased to hold, or will by its own words; None where neither is known."""
        return ends_of(self.entry)

    @property
    def lapses(self) -> int | None:
        """When it ends by its own words, whatever superseded it; None where they don't say."""
        return _time(self.entry.extra.get(LAPSES))

    def holds_at(self, now: int) -> bool:
        """Nothing has superseded it, and its own time is not over."""
        return self.holds and (self.ends is None or now < self.ends)


@dataclass(frozen=True, slots=True)
class EntryVersion:
    """An entry as it was before a change. `entry` is None where there was none yet, or no longer."""

    revision: int
    entry: Entry | None
    actor: Actor
    cause: str
    """In words: what the change was."""
    at: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """What is left of an entry that a person deleted: no text, only what keeps it from coming back."""

    entry_id: str
    kind: str
    cell: str
    turn_ids: tuple[str, ...]
    """The turns that it came from; for a skill the ids of its cases."""
    statement: str = ""
    """A digest of what it said; empty where that is not known."""
    said: int = 0
    """When it was said the last time."""


@dataclass(frozen=True, slots=True)
class EntryReceipt:
    """What a strategy did for a cell, kept with the thread's receipts."""

    thread: ThreadRef
    cell: str
    strategy: str
    detail: JsonObject


@dataclass(frozen=True, slots=True)
class EntryChange:
    """Everything that changes in one owner's entries at once: all of it, or nothing."""

    space: str
    owner: str
    actor: Actor
    cause: str
    put: tuple[KnownEntry, ...] = ()
    """New ones, and new versions of those that are there."""
    remove: tuple[str, ...] = ()
    """Ids of entries that go: their files too, their histories with them."""
    keep_deleted: bool = False
    """Those that go are never derived again."""
    receipts: tuple[EntryReceipt, ...] = ()
    extra_jobs: tuple[JobSpec, ...] = field(default=())
    marked: tuple[KnownEntry, ...] = ()
    """New versions of other entries that follow from these. Their histories always name consolidation as the actor."""
    deletions: tuple[Deletion, ...] = ()
    """Deletions of skills, which are no rows of the journal."""
    asks: tuple[str, ...] | None = None
    """Of the memcell that the receipts are of: the turns in which a person only asks; None changes none."""


def said_at(entry: Entry) -> int:
    """When an entry was said; what a person wrote over it, when they did. Another `when` of theirs changes neither."""
    marks = (CORRECTED, SAID) if entry.extra.get("edited") == "yes" else ()
    told = (_time(entry.extra.get(key)) for key in marks)
    return next((time for time in told if time is not None), entry.when)


def ends_of(entry: Entry) -> int | None:
    """When an entry ceased to hold, or will by its own words; None where neither is known."""
    told = (_time(entry.extra.get(key)) for key in ("until", LAPSES))
    times = [time for time in told if time is not None]
    return min(times, default=entry.when if "superseded_by" in entry.extra else None)


def _time(written: str | None) -> int | None:
    """A time that a person wrote by hand may be none."""
    try:
        return None if written is None else read_time(written)
    except ValueError:
        return None


def entry_id(kind: str, space: str, owner: str, origin: str, strategy: str, position: int) -> str:
    """The same origin (a memcell, say), strategy and position give the same id."""
    told: Sequence[object] = [space, owner, origin, strategy, position]
    digest = hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()
    return f"{_MARKS[kind]}-{digest[:12]}"


def skill_deletion_id(space: str, owner: str, user: str, name: str) -> str:
    """The id of a skill's deletion, one for each user: what one user of an agent deleted, another may still get."""
    return entry_id(SKILLS, space, owner, name, f"of {user}", 0)


def is_sentence_id(name: str) -> bool:
    """Whether it is the id of a fact, a plan or a profile line: each is one sentence, as a rule."""
    return name.startswith(_SENTENCES)


def is_skill_id(name: str) -> bool:
    return name.startswith(f"{_MARKS[SKILLS]}-")


def is_agents(owner: str) -> bool:
    return owner.split("/")[1:2] == ["agents"]


def owner_words(owner: str) -> str:
    """The owner within the space, as entry files name them: `users/ann`."""
    return owner.partition("/")[2]


@dataclass(frozen=True, slots=True)
class FiledEntry:
    """An entry, and the digests its section may have in the file; none: not written yet."""

    known: KnownEntry
    digests: frozenset[str] = frozenset()
    was_there: bool = False
    """Whether the file is known to have held its section: one that was announced may not have come so far."""


def text_key(text: str) -> str:
    """Equal for texts that differ in case, spaces and punctuation alone."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in folded)
    return hashlib.sha256(" ".join(kept.split()).encode()).hexdigest()[:24]


def naming(subject: str, text: str) -> str:
    """A text after whom it is about, for readers who may know two of that name.

    Nothing is added for the owner, nor where the text holds all words of the subject.
    """
    is_named = subject.casefold() in ("", USER) or set(words_in(text)).issuperset(words_in(subject))
    return text if is_named else f"{subject}: {text}"


def digest_of_text(text: str) -> str:
    """Of what a memory says: another one means that it was changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The raw text, so that a retry costs no second call."""

    text: str
    model: str
    usage: JsonObject = field(default_factory=dict)
    """Tokens in, out and cached, as the backend told them."""
    known: Mapping[str, str] = field(default_factory=dict)
    """The entries that its prompt listed, by their short ids there."""


BY_HAND = "written by hand"
FROM_CASES = "made of its cases"


@dataclass(frozen=True, slots=True)
class SeenSkill:
    """A skill's file as it was last seen."""

    path: str
    text: str
    revision: int
    """Counts its changes."""


@dataclass(frozen=True, slots=True)
class PastSkill:
    """A skill's file as it was before a change."""

    path: str
    revision: int
    text: str
    actor: Actor
    cause: str
    """In words: what the change was."""
    at: int


MANY_SOURCES = 24
"""A statement that is repeated gets no more sources than this: each new one rewrites the whole entry."""


def is_same_statement(one: KnownEntry, other: KnownEntry) -> bool:
    """Two entries of one kind and subject say the same if their texts differ in case, spaces and punctuation alone.

    Plans must also be for the same time.
    """
    return _statement(one) == _statement(other)


def statement_key(known: KnownEntry) -> str:
    """A digest, equal for the same statements of one owner."""
    told = [known.space, known.owner, *_statement(known)]
    return hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()[:24]


def _statement(known: KnownEntry) -> tuple[str, str, str, str]:
    return known.kind, known.subject, text_key(known.entry.text), known.entry.extra.get(ABOUT, "")


def is_repeated_by(known: KnownEntry, new: KnownEntry) -> bool:
    """Whether `new` repeats an entry that was valid at that time. A repetition after its end is a new entry."""
    return is_same_statement(known, new) and (known.ends is None or new.said < known.ends)


def merged(known: KnownEntry, new: KnownEntry) -> KnownEntry:
    """The known entry with the sources of both; unchanged if a person wrote it or it has many sources already."""
    if known.is_edited or len(known.sources) >= MANY_SOURCES:
        return known
    return with_sources(known, known, new)


def with_sources(entry: KnownEntry, *cited: KnownEntry) -> KnownEntry:
    """The entry with the sources of all these, each once."""
    links = dict.fromkeys(link for each in cited for link in each.entry.sources)
    sources = dict.fromkeys(source for each in cited for source in each.sources)
    return replace(entry, entry=replace(entry.entry, sources=tuple(links)), sources=tuple(sources))
