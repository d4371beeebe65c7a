"""Files of entries that people write in too: only the sections that differ are changed, all else stays as it is."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from recollect.domain.entries.entry import FACTS, FORESIGHT, PROFILE, entry_id
from recollect.domain.entries.links import NO_LINKS, Links
from recollect.domain.entries.profile import HEADINGS, place_in_file
from recollect.domain.markdown.entry_file import read_entry, read_section, render_entries, render_entry
from recollect.domain.markdown.front_matter import (
    ENTRIES_VERSION,
    Problem,
    as_text,
    read_header,
    read_property,
    split_front_matter,
    write_time,
)
from recollect.domain.markdown.sections import (
    Property,
    Section,
    is_blank,
    is_heading_line,
    lines_of,
    newline_of,
    quotes_below,
)
from recollect.domain.model import Entry
from recollect.domain.paths import day_of_path, entry_kind_of

_BY_HAND = "person"
_NOTHING = "\ufeff \t\r\n"
_earlier_version = re.compile(f"[1-{ENTRIES_VERSION - 1}][\r\n]").match


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """An entry as a file has it: from its heading, on the line with the index `begin`, to before `end`."""

    begin: int
    end: int
    entry: Entry
    has_id: bool = True
    """False where a person wrote none: it gets the one that follows from its place and title."""
    says_when: bool = True
    """False where its time was told from its place."""
    problems: tuple[Problem, ...] = ()
    foreign: tuple[str, ...] = ()
    """Lines between its own that belong to a person."""
    is_rendered: bool = False
    """It is byte for byte as we write the entry."""

    @property
    def is_intact(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class EntryDocument:
    """What a file of entries says. Of two sections with one id an intact one counts, else the first."""

    written: dict[str, WrittenEntry]
    problems: tuple[Problem, ...]
    kind: str | None = None
    owner: str | None = None
    """Within the space. Both are None where the front matter does not say them."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that have an id, those included that can't be read as a whole."""
        return tuple(each.entry for each in self.written.values() if each.has_id)

    @property
    def intact(self) -> dict[str, Entry]:
        return {name: each.entry for name, each in self.written.items() if each.is_intact}

    @property
    def damaged(self) -> frozenset[str]:
        """Ids of entries that can't be read as a whole."""
        return frozenset(name for name, each in self.written.items() if not each.is_intact)


def read_document(
    path: str,
    text: str,
    default_when: int | None = None,
    *,
    known: Iterable[Entry] = (),
    links: Links = NO_LINKS,
) -> EntryDocument:
    """Everything that can be read. A section without an id is an entry that a person wrote, if it has a quoted text or is a sentence alone.

    Its time is the one it says, else the day of the file, else `default_when`. Lines in no section are
    a person's own, and no problem. Sections of `known` entries are recognised without being read, as `links` have
    them written.
    """
    reader = _Reader(path, default_when, known, links)
    kind, owner, problems = _header(text, *reader.take_all(text))
    problems += reader.problems
    problems.sort(key=lambda problem: problem.line)
    return EntryDocument(reader.written, tuple(problems), kind, owner)


def splice(
    text: str | None,
    kind: str,
    owner_words: str,
    entries: Sequence[Entry],
    gone: Collection[str],
    *,
    path: str = "",
    untouched: Collection[str] = (),
    links: Links = NO_LINKS,
    restyle: bool = False,
) -> str:
    """The file with exactly these entries, new ones in order of when they happened; whatever else is in it stays.

    Sections of entries that are `gone` go; those of ids that nobody names are a person's, and stay. `path` tells
    the entries whose sections have no id yet. Sections of `untouched` entries are left as they are. `links` say where
    the entries stand that these name. With `restyle` intact sections are written as we write them today.
    """
    wanted = {entry.entry_id: entry for entry in sorted(entries, key=lambda each: place_in_file(kind, each))}
    before = text
    if text is not None and text.strip(_NOTHING):
        text = _without_categories(text) if kind == PROFILE else text
        text = _as_now(_with_changes(text, kind, wanted, gone, path, untouched, links, restyle=restyle))
    if text is None or not text.strip(_NOTHING):
        text = render_entries(kind, owner_words, wanted.values(), links)
    else:
        text = _with_new(text, kind, wanted, path, links)
    text = _with_categories(text, wanted, path, links) if kind == PROFILE else text
    return before if before is not None and text == _as_now(before) else text


def _category_heading(category: str) -> str:
    return f"# {category.capitalize()} ^profile-{category.replace(' ', '-')}"


_CATEGORY_HEADINGS = frozenset(map(_category_heading, HEADINGS))
"""Of the profile. Their anchors tell them from a person's own."""


def _without_categories(text: str) -> str:
    """The page without our headings, each with the blank line that follows it, else the one before."""
    lines = lines_of(text)
    for index in reversed(range(len(lines))):
        if lines[index].rstrip() in _CATEGORY_HEADINGS:
            del lines[index]
            if index < len(lines) and is_blank(lines[index]):
                del lines[index]
            elif index > 0 and is_blank(lines[index - 1]):
                del lines[index - 1]
    return "".join(lines)


def _with_categories(text: str, wanted: dict[str, Entry], path: str, links: Links) -> str:
    """The page with a heading before the first line of each category."""
    lines = lines_of(text)
    newline = newline_of(lines)
    firsts: dict[str, int] = {}
    for name, each in _sections(text, path, wanted, links).written.items():
        category = wanted[name].extra.get("category", "") if name in wanted else ""
        if category in HEADINGS:
            firsts[category] = min(each.begin, firsts.get(category, each.begin))
    for category, begin in sorted(firsts.items(), key=lambda first: -first[1]):
        lines[begin:begin] = [f"{_category_heading(category)}{newline}", newline]
    return "".join(lines)


def is_bare(text: str, kind: str, owner_words: str) -> bool:
    """Whether the file holds nothing but the head that we wrote."""
    ours = render_entries(kind, owner_words)
    return _as_now(text.replace("\r\n", "\n")).strip(_NOTHING) == ours.strip(_NOTHING)


def _as_now(text: str) -> str:
    """The file with the version of today in its front matter: sections of ours in it are, or will be, of that one."""
    head, found, rest = text.partition("recollect: ")
    is_ours = head.strip(_NOTHING) == "---" and _earlier_version(rest)
    return f"{head}{found}{ENTRIES_VERSION}{rest[1:]}" if is_ours else text


class _Reader:
    """Takes section after section, and names those that have no id."""

    def __init__(
        self, path: str, default_when: int | None, known: Iterable[Entry] = (), links: Links = NO_LINKS
    ) -> None:
        self._path = path
        self._kind = entry_kind_of(path)
        day = day_of_path(path)
        default = None if default_when is None else write_time(default_when)
        self._default_when = default if day is None else f"{day}T00:00:00.000Z"
        self._rendered = {render_entry(entry, links): entry for entry in known}
        self._alike: dict[str, int] = {}
        self.found: list[WrittenEntry] = []
        self.written: dict[str, WrittenEntry] = {}
        self.problems: list[Problem] = []

    def take_all(self, text: str) -> tuple[dict[str, Any] | None, tuple[Problem, ...]]:
        """Returns the front matter, and what is wrong with that."""
        mapping, body_line, problems = split_front_matter(text)
        self._quotes_all = as_text((mapping or {}).get("recollect")) in ("1", "2")
        lines = lines_of(text)
        begins = [index for index in range(body_line - 1, len(lines)) if is_heading_line(lines[index])]
        for begin, end in pairwise([*begins, len(lines)]):
            read = self._read(begin, lines[begin:end])
            if read is not None:
                self._add(read)
        return mapping, problems

    def _add(self, read: WrittenEntry) -> None:
        name = read.entry.entry_id
        self.found.append(read)
        self.problems += read.problems
        before = self.written.get(name)
        if before is not None:
            self.problems.append(Problem(read.begin + 1, "another section has the same id", name))
        if before is None or (read.is_intact and not before.is_intact):
            self.written[name] = read

    def _read(self, begin: int, lines: Sequence[str]) -> WrittenEntry | None:
        text = "".join(lines).replace("\r\n", "\n").rstrip("\n") + "\n"
        if (known := self._rendered.get(text)) is not None:
            return WrittenEntry(begin, begin + text.count("\n"), known, is_rendered=True)
        section = read_section("".join(lines))
        if section.is_heading and self._quotes_all:
            self.problems += [replace(stray, line=stray.line + begin) for stray in section.strays]
        try:
            return _placed(section, begin, lines, read_entry(section)[1])
        except ValueError as error:
            is_sentence = not self._quotes_all and self._is_sentence(section, lines)
            if self._kind is None or "^" in section.heading or not (section.quoted or is_sentence):
                self._report(section, begin, error)
                return None
        named = self._named(replace(section, is_heading=True, problems=[]) if is_sentence else section)
        try:
            read = _placed(named, begin, lines, read_entry(named)[1])
        except ValueError as error:
            self._report(named, begin, error)
            return None
        says_when = any(item.key == "when" and item.line != named.line for item in named.properties)
        return replace(read, has_id=False, says_when=says_when)

    def _is_sentence(self, section: Section, lines: Sequence[str]) -> bool:
        """A heading alone, or with properties: of a fact, a plan or a profile line that is all of it."""
        own = {section.line, *(item.line for item in section.properties)}
        return self._kind in (FACTS, FORESIGHT, PROFILE) and all(
            number in own or is_blank(line) for number, line in enumerate(lines, 1)
        )

    def _report(self, section: Section, begin: int, error: ValueError) -> None:
        wrong = [Problem(section.line, str(error)), *section.problems]
        self.problems += [replace(problem, line=problem.line + begin) for problem in wrong]

    def _named(self, section: Section) -> Section:
        """The same section with an id made of its path, heading and time."""
        assert self._kind is not None
        when = next((item.value for item in section.properties if item.key == "when"), "")
        origin = "\n".join([self._path, section.heading, when])
        number = self._alike[origin] = self._alike.get(origin, -1) + 1
        name = entry_id(self._kind, "", "", origin, _BY_HAND, number)
        properties = list(section.properties)
        if not when and self._default_when is not None:
            properties.append(Property(section.line, "when", self._default_when))
        return replace(section, heading=f"{section.heading} ^{name}", properties=properties)


def _placed(section: Section, begin: int, lines: Sequence[str], entry: Entry) -> WrittenEntry:
    """An entry whose section's lines count from `begin`."""
    own = {section.line, *(item.line for item in section.properties), *section.quoted_at}
    end = max(own)
    foreign = tuple(
        lines[number - 1]
        for number in range(1, end + 1)
        if number not in own and not is_blank(lines[number - 1])
    )
    problems = tuple(
        replace(problem, line=problem.line + begin) for problem in section.problems_of(entry.entry_id)
    )
    return WrittenEntry(begin, begin + end, entry, problems=problems, foreign=foreign)


def _header(
    text: str, mapping: dict[str, Any] | None, problems: Sequence[Problem]
) -> tuple[str | None, str | None, list[Problem]]:
    """Where there is no front matter at all, the file's place says everything."""
    if mapping is None:
        is_there = text.removeprefix("\ufeff").startswith("---")
        return None, None, list(problems) if is_there else []
    try:
        return read_header(mapping, ENTRIES_VERSION), read_property(mapping, "owner"), list(problems)
    except ValueError as error:
        return None, None, [*problems, Problem(1, str(error))]


def _rendered(entry: Entry, newline: str, links: Links, *, quoted: bool = False) -> list[str]:
    return lines_of(render_entry(entry, links, quoted=quoted).replace("\n", newline))


def _sections(text: str, path: str, wanted: dict[str, Entry], links: Links) -> _Reader:
    reader = _Reader(path, None, wanted.values(), links)
    reader.take_all(text)
    return reader


def _with_changes(
    text: str,
    kind: str,
    wanted: dict[str, Entry],
    gone: Collection[str],
    path: str,
    untouched: Collection[str],
    links: Links,
    *,
    restyle: bool,
) -> str:
    """Sections that differ are replaced, those that are gone or belong elsewhere in the order are taken out."""
    lines = lines_of(text)
    newline = newline_of(lines)
    reader = _sections(text, path, wanted, links)
    for each in reversed(reader.found):
        name = each.entry.entry_id
        if name in gone and name not in wanted:
            _take_out(lines, each, newline)
        elif name in wanted and name not in untouched and reader.written[name] is each:
            entry = wanted[name]
            if each.has_id and each.is_intact and each.entry == entry and (each.is_rendered or not restyle):
                continue
            if place_in_file(kind, each.entry) == place_in_file(kind, entry):
                foreign = [newline, *each.foreign] if each.foreign else []
                after = _apart(lines, each.end, newline)
                ours = _rendered(entry, newline, links, quoted=bool(quotes_below(lines, each.end)))
                lines[each.begin : each.end] = [*ours, *foreign, *after]
            else:
                _take_out(lines, each, newline)
    return "".join(lines)


def _apart(lines: Sequence[str], at: int, newline: str) -> list[str]:
    """A blank line where what follows would be taken for a line of the section above."""
    follows_at_once = at < len(lines) and not is_blank(lines[at]) and not is_heading_line(lines[at])
    return [newline] if follows_at_once else []


def _take_out(lines: list[str], each: WrittenEntry, newline: str) -> None:
    """A section, with one of the blank lines round it."""
    begin, end = each.begin, each.end
    _unquote_stray(lines, end)
    if each.foreign:
        lines[begin:end] = each.foreign
    elif begin > 0 and is_blank(lines[begin - 1]):
        del lines[begin - 1 : end]
        begin -= 1
    else:
        del lines[begin : end + 1 if end < len(lines) and is_blank(lines[end]) else end]
    if begin > 0 and not is_blank(lines[begin - 1]):
        lines[begin:begin] = _apart(lines, begin, newline)


def _unquote_stray(lines: list[str], begin: int) -> None:
    """Quoted lines that belong to nothing must not become the text of the section above: they lose their quote sign."""
    for number in quotes_below(lines, begin):
        lines[number] = "\\" + lines[number]


def _with_new(text: str, kind: str, wanted: dict[str, Entry], path: str, links: Links) -> str:
    """Each entry that has no section gets one, before the first that comes later."""
    lines = lines_of(text)
    newline = newline_of(lines)
    reader = _sections(text, path, wanted, links)
    places = [
        (each.begin, place_in_file(kind, each.entry))
        for name, each in reader.written.items()
        if name in wanted
    ]
    places.sort()
    waiting: dict[int, list[str]] = {}
    for name, entry in wanted.items():
        if name not in reader.written:
            at = next((line for line, order in places if order > place_in_file(kind, entry)), len(lines))
            new = waiting.setdefault(at, [])
            new += [*([newline] if new else []), *_rendered(entry, newline, links)]
    for at in sorted(waiting, reverse=True):
        _put_in(lines, at, waiting[at], newline)
    return "".join(lines)


def _put_in(lines: list[str], at: int, section: list[str], newline: str) -> None:
    if at < len(lines):
        section = [*section, newline]
    elif lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    if at > 0 and not is_blank(lines[at - 1]):
        section = [newline, *section]
    lines[at:at] = section
