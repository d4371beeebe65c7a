"""What a person did to a file of entries: which they changed, wrote, and took away."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.memory.entry_document import EntryDocument, WrittenEntry, section_digest
from recollect.memory.entry_edit import EDITED, PINNED, VALUE, YES, in_step
from recollect.memory.entry_file import FiledEntry
from recollect.memory.entry_links import UNTIL, holding_again, successor_ids
from recollect.memory.known_entry import KnownEntry
from recollect.memory.model import Entry

_STAYING = ("subject", "relation", "attribute", "fact", "tools", "outcome", "user", "cell")
"""A person may change these; a line of them that is left out counts as it was."""
_FEWEST_LOST = 4
_SHARE = 5


@dataclass(frozen=True, slots=True)
class HandWritten:
    """A person's version of a file, compared with what the journal has."""

    changed: tuple[KnownEntry, ...]
    """The entries of this file in the person's words."""
    arrived: tuple[WrittenEntry, ...]
    """Those that are not known to stand in this file: new ones, and ones from other files."""
    vanished: tuple[KnownEntry, ...]
    filed: dict[str, str]
    """The digests of all sections that could be read."""
    needs_marks: bool
    """The journal has marks on what the person wrote that their file does not have yet."""


def compare(document: EntryDocument, here: Sequence[FiledEntry]) -> HandWritten:
    """What a person wrote counts where their section is not what we wrote, or took in, last. Damage changes nothing."""
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
        if filed[name] not in by_id[name].digests and entry != known.entry:
            known = replace(known, entry=as_theirs(entry, known.entry))
            changed.append(known)
        needs_marks |= known.entry != entry or not written.has_id
    arrived = tuple(each for name, each in document.written.items() if each.is_intact and name not in by_id)
    vanished = tuple(
        each.known for each in here if each.digests and each.known.entry_id not in document.written
    )
    return HandWritten(tuple(changed), arrived, vanished, filed, needs_marks)


def as_theirs(entry: Entry, before: Entry | None) -> Entry:
    """Marked as a person's words, unless all they did was to pin it.

    What they say holds, also where another had taken its place, unless they say themselves that it ended. Where it came
    from is not for them to take out: it is forgotten with that. Nor is what it is about, or the same would be extracted
    once more beside it.
    """
    if before is not None and _unpinned(entry) == _unpinned(before):
        return entry
    if before is not None:
        entry = _with_origin(in_step(entry, before), before)
    extra = {**entry.extra, EDITED: YES}
    if before is not None and _is_outdated(extra.get(VALUE), entry, before):
        del extra[VALUE]
    entry = replace(entry, extra=extra)
    if before is not None and entry.text != before.text and _end(entry) == _end(before):
        return holding_again(entry)
    return entry


def _with_origin(entry: Entry, before: Entry) -> Entry:
    """With all turns that it cited, each once, what made it of what, and what it is about."""
    links = {_place(link): link for link in (*entry.sources, *before.sources)}
    order = dict.fromkeys(map(_place, (*before.sources, *entry.sources)))
    kept = {key: before.extra[key] for key in _STAYING if key in before.extra}
    sources = tuple(links[place] for place in order)
    return replace(entry, sources=sources, by=entry.by or before.by, extra={**kept, **entry.extra})


def _place(link: str) -> tuple[str, str]:
    """The same for links to one turn, whichever part of the transcript they name."""
    target, _, anchor = link.rpartition("#^")
    return target.rpartition("/")[0], anchor


def _end(entry: Entry) -> tuple[str | None, tuple[str, ...]]:
    return entry.extra.get(UNTIL), successor_ids(entry)


def _is_outdated(value: str | None, entry: Entry, before: Entry) -> bool:
    """It names what the fact said before."""
    if value is None or value != before.extra.get(VALUE) or entry.text == before.text:
        return False
    return value.casefold() not in entry.text.casefold()


def is_loss(vanished: int, held: int) -> bool:
    """So many gone at once from one file are no deletion."""
    return vanished >= _FEWEST_LOST and vanished * _SHARE >= held


def _unpinned(entry: Entry) -> Entry:
    return replace(entry, extra={key: value for key, value in entry.extra.items() if key != PINNED})
