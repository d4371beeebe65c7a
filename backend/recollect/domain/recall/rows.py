"""The rows of the index: one per searchable text of a conversation, a note or an entry."""

import hashlib
import itertools
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from recollect.domain.entries.entry import CORRECTED, PROFILE, KnownEntry, digest_of_text, owner_words
from recollect.domain.entries.links import origin_ids, successor_ids
from recollect.domain.identity import key_within_user, turn_number
from recollect.domain.markdown.entry_document import is_bare, splice
from recollect.domain.markdown.front_matter import as_text, read_time, split_front_matter
from recollect.domain.model import Entry, JsonObject, Note, Thread, ThreadRef, Turn
from recollect.domain.paths import entry_kind_of, is_markdown, linked_turn, thread_folder
from recollect.domain.recall.passages import note_passages
from recollect.domain.recall.words import as_question, words_in

Vectors = npt.NDArray[np.float32]
"""One unit vector a row."""

DIGEST_MARK = "#"
"""In a model's name: the digest of its files follows."""

TURN = "turn"
NOTE = "note"


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A searchable text and where it comes from. It depends on the vault alone: rebuilding gives the same rows."""

    row_id: str
    """Unique within its owner."""
    type: str
    """`turn`, `note`, or the kind of an entry."""
    text: str
    timestamp: int
    """When it happened, in UTC milliseconds."""
    thread_id: str = ""
    position: int = 0
    """Its place in the thread or the file."""
    message_ids: tuple[str, ...] = ()
    role: str = ""
    sender: str = ""
    agent_id: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""
    """In the vault: the file, or for turns the folder of their thread."""
    sources: tuple[str, ...] = ()
    """Of an entry: the turns it came from, each as the folder of its thread, `#` and the turn's id."""
    until: int = 0
    """Of an entry: when it ceases to hold, in UTC milliseconds; 0 where nothing says so."""
    pinned: bool = False
    """Of an entry: a person wants it kept in view."""
    edited: bool = False
    """Of an entry: a person wrote it, whatever the turns say that it came from."""
    corrected: int = 0
    """Of an entry that came from turns: when a person wrote over it, in UTC milliseconds; 0 where nobody did."""
    superseded_by: str = ""
    """Of an entry: the id of the one that holds instead."""
    shows: tuple[str, ...] = ()
    """Of a line of the profile: the ids of the facts that it was made of, unless a person wrote it."""
    only_calls: bool = False
    """Of a turn: it says nothing, and calls tools."""
    asks: bool = False
    """Of a turn: a model says that it only asks. The journal alone knows it: the index has no column for it."""

    @property
    def is_entry(self) -> bool:
        """A memory that was made of turns, or that a person wrote like one."""
        return self.type not in (TURN, NOTE)

    @property
    def subject(self) -> str:
        """Of an entry: whom it is about; empty where its file does not say so."""
        is_owner = [self.sender] == self.path.split("/")[2:3]
        return "" if is_owner or not self.is_entry else self.sender

    @property
    def read_as(self) -> str:
        """Its text; where it only asks, with the marks that its questions may lack."""
        return as_question(self.text) if self.asks else self.text

    def ended(self, now: int) -> int:
        """When it ceased to hold; 0 while it holds."""
        return self.until if self.until <= now else 0

    @property
    def digest(self) -> str:
        """Equal digests mean equal rows."""
        fields = (
            self.row_id, self.type, self.text, str(self.timestamp), self.thread_id, str(self.position),
            "\x01".join(self.message_ids), self.role, self.sender, self.agent_id, "\x01".join(self.tags), self.path,
            "\x01".join(self.sources), str(self.until), str(self.pinned), str(self.edited), str(self.corrected),
            self.superseded_by, "\x01".join(self.shows), str(self.only_calls),
        )  # fmt: skip
        return hashlib.sha256("\x00".join(fields).encode()).hexdigest()[:32]


_ENTRY = "entry"
_LONG = 2_000
"""Characters above which a text repeats another only where every one of them is the same."""
_PUNCTUATION = ".,;:!?…\"'()“”‘’«»。，、；：！？（）「」"  # noqa: RUF001


def sameness(row: IndexRow) -> tuple[str, ...]:
    """Equal for rows in which the same one says the same words, whatever the case, spaces and punctuation; for
    entries of different kinds that tell the same of the same one.

    No looser: two long texts that differ in one number are news, not a repetition.
    """
    if len(row.text) > _LONG:
        return row.type, row.role, row.sender, row.text
    kind = _ENTRY if row.is_entry else row.type
    plain = [word.strip(_PUNCTUATION) for word in row.text.casefold().split()]
    return kind, row.role, row.sender, " ".join(filter(None, plain)) or row.text


@dataclass(slots=True)
class StoredRows:
    """All rows of one owner, as they were stored."""

    rows: list[IndexRow] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """The index terms of each row, with spaces between."""
    vectors: Vectors = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """One line a row; zeros where there is none yet."""
    has_vector: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def lacks(self, expected: "Expected") -> str | None:
        """What is missing of what is expected, in words."""
        are_notes = np.array([row.type != TURN for row in self.rows], np.bool_)
        there = Expected(
            turns=int((~are_notes).sum()),
            turn_vectors=int(self.has_vector[~are_notes].sum()),
            notes=int(are_notes.sum()),
            note_vectors=int(self.has_vector[are_notes].sum()),
        )
        for name in ("turns", "notes", "turn_vectors", "note_vectors"):
            found, wanted = getattr(there, name), getattr(expected, name)
            if found < wanted:
                return f"it holds {found} {name.replace('_', ' ')}, fewer than the {wanted} it should"
        return None


@dataclass(frozen=True, slots=True)
class Expected:
    """How much the index must hold of one owner, at least."""

    turns: int = 0
    turn_vectors: int = 0
    notes: int = 0
    """Passages of notes, and entries."""
    note_vectors: int = 0

    @property
    def rows(self) -> int:
        return self.turns + self.notes


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete index. A new one is filled beside the live one and takes its place when it is whole."""

    name: str
    format: int
    """Of the rows and their terms; an index of another format is rebuilt."""
    model: str | None = None
    """The embedding model of its vectors; None until the first vectors come."""
    dimensions: int = 0

    def holds_vectors_of(self, model: str) -> bool:
        """Whether a model's vectors can be compared with those that are here. A name that ends in the mark before
        the digest is that of a model that is not there yet.
        """
        return self.model in (None, model) or (
            model.endswith(DIGEST_MARK) and (self.model or "").startswith(model)
        )


@dataclass(frozen=True, slots=True)
class ThreadProgress:
    """One thread in one generation of the index. Positions up to `words_to` are found by their words."""

    thread: Thread
    thread_pk: int
    last_position: int
    """The last turn that is final and has only final ones before it."""
    words_to: int
    vectors_to: int
    header_revision: int
    revision: int
    refused: int
    """How many texts up to `vectors_to` the embedding model would not take."""
    is_stale: bool
    """What was indexed is no longer what the journal says: a turn was edited, or the tags changed."""

    @property
    def words_behind(self) -> bool:
        return self.words_to < self.last_position or self.is_stale

    @property
    def vectors_behind(self) -> bool:
        return self.vectors_to < self.words_to


FORMAT = 7
"""Of rows and words. Raise it when either changes: every index is then rebuilt."""
_COUNTED_WORDS = 20_000
"""Of a longer text each further word counts once: it is found by all of them, and is no heavier to search."""
_MEANING_CHARS = 2_000
"""More than an embedding model reads."""
_part = re.compile(r"(.+)(:t-\d+|#\d+)", re.DOTALL)
_between_tags = re.compile(r"[,\s]+").split


def memory_key(row_id: str) -> tuple[str, str]:
    """What a memory is a part of, and which: a turn of a thread, a passage of a note; or it is whole, as an entry is."""
    found = _part.fullmatch(row_id)
    return (found[1], found[2]) if found else (row_id, "")


def turn_row_id(thread: ThreadRef, turn_id: str) -> str:
    return f"{key_within_user(thread.space, thread.thread_id)}:{turn_id}"


def turn_row(thread: Thread, turn: Turn) -> IndexRow | None:
    """None for a turn that is not searched: one that memory skips, or that says nothing."""
    text = turn.content if turn.content.strip() else _calls_in_words(turn)
    if turn.skip_reason is not None or thread.incognito or not text:
        return None
    return IndexRow(
        row_id=turn_row_id(thread.ref, turn.turn_id),
        type=TURN,
        text=text,
        timestamp=turn.timestamp,
        thread_id=thread.thread_id,
        position=turn_number(turn.turn_id) or 0,
        message_ids=(turn.message_id,),
        role=turn.role,
        sender=turn.sender_id,
        agent_id=thread.agent_id or "",
        tags=thread.tags,
        path=thread_folder(*thread.ref),
        only_calls=not turn.content.strip(),
    )


def source_of(folder: str, turn_id: str) -> str:
    """How an entry names a turn that it came from: by what stands in the vault alone."""
    return f"{folder}#{turn_id}"


def came_from(owner: str, entry: IndexRow) -> bool:
    """Whether an entry came from a user's own threads, and from no others."""
    return bool(entry.sources) and all(source.startswith(f"{owner}/threads/") for source in entry.sources)


def rest_rows(note: Note, text: str, ours: Collection[str]) -> list[IndexRow]:
    """A file of entries without the sections that are `ours`, as a note."""
    kind, owner = entry_kind_of(note.path) or "", owner_words(note.owner)
    rest = splice(text, kind, owner, (), ours, path=note.path)
    return [] if is_bare(rest, kind, owner) else note_rows(note, rest)


def entry_row(known: KnownEntry) -> IndexRow | None:
    """None for an entry that says nothing."""
    entry, kind, owner = known.entry, known.kind, known.owner
    if not told(entry):
        return None
    turns = (linked_turn(owner, link) for link in entry.sources)
    return IndexRow(
        row_id=entry.entry_id,
        type=kind,
        text=told(entry),
        timestamp=entry.when,
        sender=entry.extra.get("subject", "") or owner.rsplit("/", 1)[-1],
        path=known.path,
        sources=tuple(dict.fromkeys(source_of(*turn) for turn in turns if turn is not None)),
        until=end_of(entry),
        pinned=entry.extra.get("pinned") == "yes",
        edited=entry.extra.get("edited") == "yes",
        corrected=corrected_at(entry),
        superseded_by=next(iter(successor_ids(entry)), ""),
        shows=facts_shown(kind, entry),
    )


def facts_shown(kind: str, entry: Entry) -> tuple[str, ...]:
    """Of a line of the profile, the ids of the facts that it was made of; none where a person wrote it."""
    return origin_ids(entry) if kind == PROFILE and entry.extra.get("edited") != "yes" else ()


def end_of(entry: Entry) -> int:
    """When it was superseded, or is said to end; of a plan also when its time is over. 0 where nothing says so."""
    written = (_time(entry.extra.get(key, "")) for key in ("until", "lapses"))
    return min(filter(None, written), default=0)


def corrected_at(entry: Entry) -> int:
    """When a person wrote over what turns said; 0 where nobody did."""
    return _time(entry.extra.get(CORRECTED, "")) if entry.sources else 0


def memory_digest(text: str, ended: int) -> str:
    """Digest of a memory's text and end. It changes when either does."""
    return digest_of_text(f"{text}\nuntil {ended}" if ended else text)


def told(entry: Entry) -> str:
    """The text under its title, unless that is where the text begins."""
    title, text = entry.title.strip(), entry.text.strip()
    return text if text.startswith(title) else f"{title}\n{text}".strip()


def _time(written: str) -> int:
    """0 for a time that cannot be read: what a person wrote there ends nothing."""
    try:
        return int(read_time(written)) if written else 0
    except ValueError:
        return 0


def note_rows(note: Note, text: str) -> list[IndexRow]:
    """A note in passages, each under the heading it stands below; what its properties call it stands in the first."""
    text = text.removeprefix("\ufeff")
    mapping, body_line, _ = split_front_matter(text)
    body = "\n".join(text.split("\n")[body_line - 1 :]) if mapping is not None else text
    tags = _tags(mapping or {})
    passages = note_passages(body)
    if called := "\n".join([*_values((mapping or {}), "title", "aliases", "alias"), " ".join(tags)]).strip():
        passages[:1] = ["\n\n".join([called, *passages[:1]])]
    name = note.path.rsplit("/", 1)[-1]
    name = name.rsplit(".", 1)[0] if is_markdown(name) else name
    return [
        IndexRow(
            row_id=f"{note.path}#{number}",
            type=NOTE,
            text=passage,
            timestamp=note.modified,
            position=number,
            sender=name,
            tags=tags,
            path=note.path,
        )
        for number, passage in enumerate(passages, 1)
    ]


def _values(properties: Mapping[str, Any], *names: str) -> list[str]:
    """What a person wrote there, be it one value or a list."""
    found = (properties.get(name) for name in names)
    each = itertools.chain.from_iterable(value if isinstance(value, list) else [value] for value in found)
    return [text for value in each if (text := (as_text(value) or "").strip())]


def _tags(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """As editors of Markdown read them: in a list, or with commas or spaces between, with or without `#`."""
    written = _values(properties, "tags", "tag")
    if not isinstance(properties.get("tags"), list):
        written = [tag for text in written for tag in _between_tags(text)]
    return tuple(dict.fromkeys(tag for text in written if (tag := text.lstrip("#").strip())))


def words_of(row: IndexRow) -> str:
    """The index terms of a row: its date and sender can be asked for like its words."""
    when = datetime.fromtimestamp(row.timestamp / 1000, UTC)
    head = f"{when.day} {when:%B} {when.year} {when:%A} {row.sender}: "
    words = words_in(head + row.text)
    counted = words[:_COUNTED_WORDS]
    further = set(words[_COUNTED_WORDS:]).difference(counted)
    return " ".join(counted + sorted(further))


def meaning_of(row: IndexRow) -> str:
    """The text that is embedded."""
    return f"{row.sender}: {row.text[:_MEANING_CHARS]}"


def _calls_in_words(turn: Turn) -> str:
    return "\n".join(_call_in_words(call) for call in turn.tool_calls or ()).strip()


def _call_in_words(call: JsonObject) -> str:
    function = call.get("function")
    told = function if isinstance(function, dict) else call
    return " ".join(filter(None, (_plain(told.get("name")), _plain(told.get("arguments")))))


def _plain(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
