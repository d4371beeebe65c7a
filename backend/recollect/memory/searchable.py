"""What of a conversation or a note is searched: its rows, their words, and the text that is embedded."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from recollect.memory.front_matter import split_front_matter
from recollect.memory.identity import thread_key, turn_number
from recollect.memory.index_row import NOTE, TURN, IndexRow
from recollect.memory.model import JsonObject, Thread, Turn
from recollect.memory.note import Note
from recollect.memory.vault_paths import is_markdown, thread_folder
from recollect.memory.words import words_in

FORMAT = 2
"""Of rows and words. Raise it when either changes: every index is then made anew."""
_WORDS_CHARS = 100_000
"""Of a longer text the beginning is found by its words."""
_MEANING_CHARS = 2_000
"""More than an embedding model reads."""
_NOTE_CHARS = 1_200
"""A note is cut into passages of about this length."""
_HEADING_CHARS = 200
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


def note_rows(note: Note, text: str) -> list[IndexRow]:
    """A note in passages, each under the heading it stands below."""
    text = text.removeprefix("\ufeff")
    mapping, body_line, _ = split_front_matter(text)
    body = "\n".join(text.split("\n")[body_line - 1 :]) if mapping is not None else text
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
            path=note.path,
        )
        for number, passage in enumerate(_passages(body), 1)
    ]


def words_of(row: IndexRow) -> str:
    """The index terms of a row: its date and sender can be asked for like its words."""
    when = datetime.fromtimestamp(row.timestamp / 1000, UTC)
    head = f"{when.day} {when:%B} {when.year} {when:%A} {row.sender}: "
    return " ".join(words_in(head + row.text[:_WORDS_CHARS]))


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
