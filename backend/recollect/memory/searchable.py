"""What of a conversation, a note or a file of entries is searched: its rows, their words, and what is embedded."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from recollect.memory.entries import parse_entries
from recollect.memory.entry_paths import entry_kind_of, linked_turn
from recollect.memory.front_matter import as_text, split_front_matter
from recollect.memory.identity import thread_key, turn_number
from recollect.memory.index_row import NOTE, TURN, IndexRow
from recollect.memory.line_values import read_time
from recollect.memory.model import Entry, JsonObject, Thread, Turn
from recollect.memory.note import Note
from recollect.memory.vault_paths import is_markdown, thread_folder
from recollect.memory.words import words_in

FORMAT = 4
"""Of rows and words. Raise it when either changes: every index is then made anew."""
_COUNTED_WORDS = 20_000
"""Of a longer text each further word counts once: it is found by all of them, and is no heavier to search."""
_MEANING_CHARS = 2_000
"""More than an embedding model reads."""
_NOTE_CHARS = 1_200
"""A note is cut into passages of about this length."""
_HEADING_CHARS = 200
_between_tags = re.compile(r"[,\s]+").split
_heading = re.compile(r"^#{1,6}[ \t]+(.*)", re.MULTILINE)


def turn_row(thread: Thread, turn: Turn) -> IndexRow | None:
    """None for a turn that is not searched: one that memory skips, or that says nothing."""
    text = turn.content if turn.content.strip() else _calls_in_words(turn)
    if turn.skip_reason is not None or thread.incognito or not text:
        return None
    return IndexRow(
        row_id=turn_row_id(thread, turn.turn_id),
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
        path=thread_folder(thread.space, thread.user_id, thread.thread_id),
    )


def turn_row_id(thread: Thread, turn_id: str) -> str:
    return f"{thread_key(thread.space, thread.thread_id)}:{turn_id}"


def source_of(folder: str, turn_id: str) -> str:
    """How an entry names a turn that it came from: by what stands in the vault alone."""
    return f"{folder}#{turn_id}"


def came_from(owner: str, entry: IndexRow) -> bool:
    """Whether an entry came from a user's own threads, and from no others."""
    return bool(entry.sources) and all(source.startswith(f"{owner}/threads/") for source in entry.sources)


def file_rows(note: Note, text: str) -> list[IndexRow]:
    """The rows of a file: one for each entry, or the passages of a note."""
    kind = entry_kind_of(note.path)
    return note_rows(note, text) if kind is None else entry_rows(note, kind, text)


def entry_rows(note: Note, kind: str, text: str) -> list[IndexRow]:
    """One row for each entry that can be read, the same wherever in the file it stands."""
    return [_entry_row(note, kind, entry) for entry in parse_entries(text).entries if told(entry)]


def _entry_row(note: Note, kind: str, entry: Entry) -> IndexRow:
    turns = (linked_turn(note.owner, link) for link in entry.sources)
    return IndexRow(
        row_id=entry.entry_id,
        type=kind,
        text=told(entry),
        timestamp=entry.when,
        sender=entry.extra.get("subject", "") or note.owner.rsplit("/", 1)[-1],
        path=note.path,
        sources=tuple(dict.fromkeys(source_of(*turn) for turn in turns if turn is not None)),
        until=_time(entry.extra.get("until", "")),
        pinned=entry.extra.get("pinned") == "yes",
        edited=entry.extra.get("edited") == "yes",
    )


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
    passages = list(_passages(body))
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


def _passages(body: str) -> Iterator[str]:
    heading = ""
    for section in _sections(body):
        if found := _heading.match(section):
            heading = found[1].strip()[:_HEADING_CHARS]
        kept: list[str] = []
        for paragraph in _short(section.split("\n\n")):
            if kept and sum(map(len, kept)) + len(paragraph) > _NOTE_CHARS:
                yield "\n\n".join(kept)
                kept = [heading] if heading else []
            kept.append(paragraph)
        if kept:
            yield "\n\n".join(kept)


def _sections(body: str) -> list[str]:
    starts = [found.start() for found in _heading.finditer(body)]
    edges = [0, *(start for start in starts if start), len(body)]
    sections = (body[first:last].strip() for first, last in itertools.pairwise(edges))
    return [section for section in sections if section]


def _short(paragraphs: Sequence[str]) -> Iterator[str]:
    """Paragraphs; one that is too long in pieces, cut between lines, else between words, where that is possible."""
    for paragraph in paragraphs:
        rest = paragraph.strip()
        while len(rest) > _NOTE_CHARS:
            head = rest[: _NOTE_CHARS + 1]
            cut = max(head.rfind("\n"), 0) or max(head.rfind(" "), 0) or _NOTE_CHARS
            yield rest[:cut].strip()
            rest = rest[cut:].strip()
        if rest:
            yield rest
