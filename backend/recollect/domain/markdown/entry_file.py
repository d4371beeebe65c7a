"""Entries: a file of memories as Markdown, and back.

    ## Marta moves to Porto ^ep-3f9a2c71d0
    - when: 2026-05-08T14:03:00Z
    - from: [[threads/t1/0001#^t-12]]
    %% by: episode, qwen3-8b · cell: c-9a1f04 %%

    > Marta told Ann that she has taken a job as a nurse in Porto.

A fact, a plan and a profile line are a sentence, which is the heading: only a longer text is quoted. What only we need
is in the comment. Whatever other `- key: value` lines an entry has are a person's.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from recollect.domain.entries.entry import is_sentence_id
from recollect.domain.entries.links import NAMES_ENTRIES, NO_LINKS, Links, with_links, without_links
from recollect.domain.markdown.front_matter import (
    ANCHOR,
    ENTRIES_VERSION,
    JSON_STRING,
    UNCARRIED,
    is_readable,
    read_text,
    read_time,
    render_front_matter,
    write_anchor,
    write_json,
    write_text,
    write_time,
)
from recollect.domain.markdown.sections import (
    Section,
    read_body,
    read_properties,
    render_hidden,
    render_section,
)
from recollect.domain.model import Entry

_LINK = rf"\[\[([^\[\]\t\n{UNCARRIED}]+)\]\]"
_heading = re.compile(rf'({JSON_STRING}|[^"^][^^]*) \^({ANCHOR})').fullmatch
_linkable = re.compile(rf"[^\[\]\t\n{UNCARRIED}]+").fullmatch
_links = re.compile(rf"{_LINK}|({JSON_STRING})")
_not_links = re.compile(r"[\s,]*").fullmatch
_plain_key = re.compile(r"[a-z][a-z0-9_-]*").fullmatch

_MOST_SHOWN = 3
_SHOWN = (
    "superseded_by", "fact", "until", "about", "happened", "lapses", "supersedes", "outcome", "pinned",
)  # fmt: skip
"""In this order, as lines until the entry has three of them, `when` and `from` among these; the others are in the comment."""
_OURS = (
    *_SHOWN, "subject", "category", "edited", "corrected", "said", "profile", "replaces", "cases", "tools", "user",
    "basis", "cell",
)  # fmt: skip
STAYING = ("subject", "category", "replaces", "fact", "tools", "outcome", "user", "cell", "said")
"""Properties that a person may change and not remove: leaving one out of the file keeps its value."""
HIDDEN = frozenset(["by", *_OURS])
"""What the comment of an entry may hold."""


def render_entries(kind: str, owner: str, entries: Iterable[Entry] = (), links: Links = NO_LINKS) -> str:
    """The whole file; `owner` is `users/<id>` or `agents/<id>`. The same entries give the same bytes."""
    header = render_front_matter({"recollect": ENTRIES_VERSION, "kind": kind, "owner": owner})
    return "\n".join([header, *(render_entry(entry, links) for entry in entries)])


def render_entry(entry: Entry, links: Links = NO_LINKS, *, quoted: bool = False) -> str:
    """One entry, ending in a newline; a blank line has to separate it from the text above.

    Other entries that its lines name are written as links if `links` has their files, else as ids. With `quoted` the
    text is a block quote in any case, as in version 2.
    """
    shown = _first_lines(entry)
    hidden = {"by": entry.by} if entry.by else {}
    for key in _OURS:
        if key in entry.extra and key in _SHOWN and len(shown) < _MOST_SHOWN:
            shown.append(_extra_line(key, entry.extra[key], links))
        elif key in entry.extra:
            hidden[key] = entry.extra[key]
    shown += [_extra_line(key, value, links) for key, value in entry.extra.items() if key not in _OURS]
    comment = [render_hidden(hidden)] if hidden else []
    if _is_sentence(entry) and not quoted:
        return "\n".join([f"## {_heading_of(entry)}", *shown, *comment, ""])
    return render_section(_heading_of(entry), [*shown, *comment], entry.text)


def _is_sentence(entry: Entry) -> bool:
    has_mark = is_sentence_id(write_anchor(entry.entry_id))
    return has_mark and entry.title == entry.text and is_readable(entry.text)


def render_first_version(entry: Entry) -> str:
    """An entry as version 1 had it, without links to other entries: every property is a line, every text quoted."""
    lines = [*_first_lines(entry), *([f"- by: {write_text(entry.by)}"] if entry.by else [])]
    lines += [_extra_line(key, value, NO_LINKS) for key, value in entry.extra.items()]
    return render_section(_heading_of(entry), lines, entry.text)


def section_digest(entry: Entry) -> str:
    """Equal for entries that a file renders in the same way."""
    return _digest(render_entry(entry))


def is_filed(entry: Entry, digests: Collection[str]) -> bool:
    """Whether the entry is as one of these digests, which an earlier version of the format may have given, says."""
    forms = render_entry(entry), render_entry(entry, quoted=True), render_first_version(entry)
    return not {_digest(form) for form in forms}.isdisjoint(digests)


def _digest(section: str) -> str:
    return hashlib.sha256(section.encode()).hexdigest()[:24]


def _heading_of(entry: Entry) -> str:
    return f"{write_text(entry.title)} ^{write_anchor(entry.entry_id)}"


def _first_lines(entry: Entry) -> list[str]:
    when = f"- when: {write_time(entry.when).replace('.000Z', 'Z')}"
    return [when, *([f"- from: {' '.join(map(_write_link, entry.sources))}"] if entry.sources else [])]


def _extra_line(key: str, value: str, links: Links) -> str:
    plain = _plain_key(key) and key not in _READERS
    names = with_links(value, links) if key in NAMES_ENTRIES else value
    return f"- {key if plain else write_json(key)}: {names if names != value else write_text(value)}"


def read_section(text: str) -> Section:
    """The one section of a text. One that has no quote is a sentence, if its id is that of one; else it is damaged."""
    (section,) = read_body(text, 1, hidden=HIDDEN, close=False).sections
    found = _heading(section.heading)
    has_text = section.quoted and section.other_at is None
    if found and not has_text and is_sentence_id(found[2]):
        return section.as_heading({*HIDDEN, *_READERS})
    section.close()
    return section


def read_entry(section: Section) -> tuple[str, Entry]:
    """An entry and its id; damage is reported with the section. Raises ValueError if it is no entry."""
    found = _heading(section.heading)
    if not found:
        raise ValueError("this is not the heading of an entry (title ^id)")
    title, entry_id = read_text(found[1].strip()), read_text(found[2])
    known, extra = read_properties(section, _READERS, required="when", others=True)
    return entry_id, Entry(
        entry_id=entry_id,
        title=title,
        text=title if section.is_heading else section.text,
        when=known.get("when", 0),
        sources=known.get("from", ()),
        by=known.get("by", ""),
        extra={key: without_links(value) if key in NAMES_ENTRIES else value for key, value in extra.items()},
    )


def _write_link(source: str) -> str:
    return f"[[{source}]]" if _linkable(source) else write_json(source)


def _read_links(written: str) -> tuple[str, ...]:
    """Links, and JSON strings for what no link can hold, with spaces or commas between."""
    if not _not_links(_links.sub("", written)):
        raise ValueError("this is not a list of [[links]]")
    return tuple(found[1] or read_text(found[2]) for found in _links.finditer(written))


_READERS: dict[str, Callable[[str], Any]] = {"when": read_time, "from": _read_links, "by": read_text}
