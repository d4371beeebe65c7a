"""What a person changed in a transcript or in a file of entries."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.domain.entries.edit import PINNED, dated, in_step, theirs
from recollect.domain.entries.entry import FiledEntry, KnownEntry
from recollect.domain.entries.links import UNTIL, holding_again, successor_ids
from recollect.domain.markdown.entry_document import EntryDocument, WrittenEntry
from recollect.domain.markdown.entry_file import STAYING, is_filed, section_digest
from recollect.domain.markdown.transcript import ParsedPart
from recollect.domain.model import Entry, Thread, TranscriptPart, Turn

_RESTORED = (
    "role", "timestamp", "parts", "tool_calls", "tool_call_id", "parent_id", "model", "status", "skip_reason",
)  # fmt: skip
"""What a turn is beside its words: never changed by hand."""
_NAMES = ("space", "user_id", "thread_id")
_SETTLED = ("created", "agent_id", "preset", "backend", "incognito")
MAX_SENDER = 512
MAX_TITLE = 1000
MAX_TAGS = 100
MAX_TAG = 200


@dataclass(slots=True)
class Revision:
    """A person's version of one part, against the journal's."""

    turns: list[Turn] = field(default_factory=list)
    """Turns with the person's words, as the journal will have them."""
    header: dict[str, Any] = field(default_factory=dict)
    """The thread's new title or tags."""
    removed: list[str] = field(default_factory=list)
    """Ids of the turns that are missing from the person's version."""
    refused: list[str] = field(default_factory=list)
    """What can't be imported, in words."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the person's version is lost when the file is rendered again."""
        return not self.removed and not self.refused


def compare(parsed: ParsedPart, ours: TranscriptPart, *, expected: int, header_is_current: bool) -> Revision:
    """What `parsed`, as a person left it, says otherwise than `ours`, the journal's newest version of that part.

    Only the first `expected` turns of `ours` have to be in the person's version: the rest may be newer than the
    file was when they opened it. Marks of ours that are missing (memcells, "edited") are no change of theirs.
    `header_is_current` says that the file had the thread's newest title and tags before the person changed it.
    """
    revision = Revision(refused=[f"line {problem.line}: {problem.message}" for problem in parsed.problems])
    revision.refused += [f"the property {key} is not one of a transcript" for key in parsed.unknown]
    revision.refused += [
        f"the alias {name!r} is not one of a transcript"
        for name in parsed.aliases
        if name != ours.thread.title
    ]
    damaged = {problem.anchor for problem in parsed.problems if problem.anchor is not None}
    known = {turn.turn_id: turn for turn in ours.turns}
    for turn in parsed.turns:
        if turn.turn_id not in known:
            revision.refused.append(f"turn {turn.turn_id} is not in the journal")
        elif turn.turn_id not in damaged:
            _compare_turn(turn, known[turn.turn_id], revision)
    found = [turn.turn_id for turn in parsed.turns if turn.turn_id in known]
    revision.removed += [turn.turn_id for turn in ours.turns[:expected] if turn.turn_id not in found]
    if found != [turn_id for turn_id in known if turn_id in found]:
        revision.refused.append("the turns stand in another order")
    revision.refused += [
        f"memcell {cell.memcell_id}: its marker was added or changed by hand"
        for cell in parsed.memcells
        if cell not in ours.memcells
    ]
    if parsed.thread is not None:
        _compare_header(parsed.thread, parsed.part, ours, revision, is_current=header_is_current)
    return revision


def _compare_turn(theirs: Turn, known: Turn, revision: Revision) -> None:
    if theirs.message_id != known.message_id:
        revision.refused.append(f"turn {known.turn_id}: its message id was changed")
        return
    changed = [name for name in _RESTORED if getattr(theirs, name) != getattr(known, name)]
    revision.refused += [f"turn {known.turn_id}: {name} cannot be changed by hand" for name in changed]
    if (problem := _problem_of_words(theirs, known)) is not None:
        revision.refused.append(f"turn {known.turn_id}: {problem}")
        return
    words = (theirs.content, theirs.sender_id, theirs.reasoning)
    if words != (known.content, known.sender_id, known.reasoning) or (theirs.edited and not known.edited):
        content, sender, reasoning = words
        revision.turns.append(
            replace(known, content=content, sender_id=sender, reasoning=reasoning, edited=True)
        )


def _problem_of_words(theirs: Turn, known: Turn) -> str | None:
    if any("\x00" in text for text in (theirs.content, theirs.sender_id, theirs.reasoning or "")):
        return "a text holds a NUL character"
    if not theirs.content.strip() and known.content.strip():
        return "its text was removed; to forget a message use the API"
    if theirs.sender_id != known.sender_id and not 1 <= len(theirs.sender_id) <= MAX_SENDER:
        return f"a sender has 1 to {MAX_SENDER} characters"
    return None


def _compare_header(
    theirs: Thread, part: int, ours: TranscriptPart, revision: Revision, *, is_current: bool
) -> None:
    if part != ours.part:
        revision.refused.append("part cannot be changed by hand")
    names = _NAMES if part != 1 or ours.part != 1 else _NAMES + _SETTLED
    revision.refused += [
        f"{name} cannot be changed by hand"
        for name in names
        if getattr(theirs, name) != getattr(ours.thread, name)
    ]
    if part != 1 or ours.part != 1:
        return
    changes: dict[str, Any] = {}
    if theirs.title != ours.thread.title:
        changes["title"] = theirs.title
    if (tags := tuple(dict.fromkeys(theirs.tags))) != ours.thread.tags:
        changes["tags"] = tags
    if changes and not is_current:
        revision.refused.append("title or tags were changed elsewhere at the same time")
    elif (problem := _problem_of_header(changes)) is not None:
        revision.refused.append(problem)
    else:
        revision.header = changes


def _problem_of_header(changes: dict[str, Any]) -> str | None:
    title, tags = changes.get("title") or "", changes.get("tags", ())
    if any("\x00" in text for text in (title, *tags)):
        return "title or tags hold a NUL character"
    if len(title) > MAX_TITLE:
        return f"the title has more than {MAX_TITLE} characters"
    if len(tags) > MAX_TAGS or not all(1 <= len(tag) <= MAX_TAG for tag in tags):
        return f"there are at most {MAX_TAGS} tags of 1 to {MAX_TAG} characters"
    return None


_FEWEST_LOST = 4
_SHARE = 5


@dataclass(frozen=True, slots=True)
class HandWritten:
    """A person's version of a file, compared with what the journal has."""

    changed: tuple[KnownEntry, ...]
    """The entries of this file in the person's words."""
    arrived: tuple[WrittenEntry, ...]
    """Those that are not known to be in this file: new ones, and ones from other files."""
    vanished: tuple[KnownEntry, ...]
    filed: dict[str, str]
    """The digests of all sections that could be read."""
    needs_marks: bool
    """The journal has marks on what the person wrote that their file does not have yet."""


def compare_entries(document: EntryDocument, here: Sequence[FiledEntry], at: int) -> HandWritten:
    """What a person wrote counts where their section is not what we wrote, or took in, last. Damage changes nothing.

    `at`: when they wrote it.
    """
    by_id = {each.known.entry_id: each for each in here}
    changed: list[KnownEntry] = []
    filed: dict[str, str] = {}
    needs_marks = False
    for name, written in document.written.items():
        if not written.is_intact or name not in by_id:
            continue
        known = by_id[name].known
        entry = written.entry if written.says_when else replace(written.entry, when=known.entry.when)
        filed[name] = section_digest(entry)
        if entry != known.entry and not is_filed(entry, by_id[name].digests):
            known = replace(known, entry=as_theirs(entry, known.entry, at))
            changed.append(known)
        needs_marks |= known.entry != entry or not written.has_id
    arrived = tuple(each for name, each in document.written.items() if each.is_intact and name not in by_id)
    vanished = tuple(
        each.known for each in here if each.was_there and each.known.entry_id not in document.written
    )
    return HandWritten(tuple(changed), arrived, vanished, filed, needs_marks)


def as_theirs(entry: Entry, before: Entry | None, at: int) -> Entry:
    """The entry marked as a person's words, said at `at`; unchanged if they only pinned or unpinned it.

    It holds again even if another entry superseded it, unless the person wrote an `until`. It keeps the sources of
    `before`, so that it is forgotten with its messages, and its subject, so that the same fact is not extracted again.
    """
    if before is not None and _unpinned(entry) == _unpinned(before):
        return entry
    marks = theirs(at)
    if before is not None:
        if _unpinned(replace(entry, when=before.when)) == _unpinned(before):
            marks = dated(before)
        entry = _with_origin(in_step(entry, before), before)
    entry = replace(entry, extra={**entry.extra, **marks})
    if before is not None and entry.text != before.text and _end(entry) == _end(before):
        return holding_again(entry)
    return entry


def _with_origin(entry: Entry, before: Entry) -> Entry:
    """With all turns that it cited, each once, what made it of what, and what it is about."""
    links = {_place(link): link for link in (*entry.sources, *before.sources)}
    order = dict.fromkeys(map(_place, (*before.sources, *entry.sources)))
    kept = {key: before.extra[key] for key in STAYING if key in before.extra}
    sources = tuple(links[place] for place in order)
    return replace(entry, sources=sources, by=entry.by or before.by, extra={**kept, **entry.extra})


def _place(link: str) -> tuple[str, str]:
    """The same for links to one turn, whichever part of the transcript they name."""
    target, _, anchor = link.rpartition("#^")
    return target.rpartition("/")[0], anchor


def _end(entry: Entry) -> tuple[str | None, tuple[str, ...]]:
    return entry.extra.get(UNTIL), successor_ids(entry)


def is_loss(vanished: int, held: int) -> bool:
    """Whether this many missing at once in one file count as a loss, not as a deletion."""
    return vanished >= _FEWEST_LOST and vanished * _SHARE >= held


def _unpinned(entry: Entry) -> Entry:
    return replace(entry, extra={key: value for key, value in entry.extra.items() if key != PINNED})
