"""Sections: the form that turns and entries share. Text is in block quotes, so nothing inside can end it."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, TypeVar

from recollect.domain.markdown.front_matter import (
    JSON_STRING,
    UNCARRIED,
    Problem,
    is_readable,
    read_text,
    write_json,
)

_uncarried = re.compile(f"[{UNCARRIED}]")
_escape = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}")


def quote(text: str) -> str:
    """Text as a block quote, without a newline at its end. Empty text is one empty quoted line."""
    text = text.replace("\\u{", "\\u{5c}u{").replace("\r", "\\u{d}")
    if not text.replace("\n", "").isprintable():
        text = _uncarried.sub(_write_escape, text)
    return "\n".join([f"> {line}" if line else ">" for line in text.split("\n")])


def unquote(lines: Iterable[str]) -> str:
    """The text that `quote` was given.

    Also without the space behind `>`, and with a CR at the end of lines, as editors leave them.
    A line without `>` counts as it is.
    """
    text = "\n".join([_unquote_line(line) for line in lines])
    return _escape.sub(_read_escape, text) if "\\u{" in text else text


def _unquote_line(line: str) -> str:
    if line.endswith("\r"):
        line = line[:-1]
    if line.startswith("> "):
        return line[2:]
    return line[1:] if line.startswith(">") else line


def _write_escape(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match[0]):x}}}"


def _read_escape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return match[0]
    return chr(code)


T = TypeVar("T")

_property = re.compile(rf"- ([a-z][a-z0-9_-]*|{JSON_STRING}):(?:\s+(.*))?").fullmatch
_hidden = re.compile(r"([a-z][a-z0-9_-]*): (\S.*)").fullmatch


@dataclass(frozen=True, slots=True)
class Property:
    """One `- key: value` line, or one of a comment, both sides as they are written."""

    line: int
    key: str
    value: str
    is_hidden: bool = False
    """It is in a comment."""


@dataclass(slots=True)
class Section:
    """A section as far as it could be read."""

    line: int
    heading: str
    properties: list[Property] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    quoted_at: list[int] = field(default_factory=list)
    """The line numbers of the quoted lines."""
    problems: list[Problem] = field(default_factory=list)
    head: int | None = None
    """How many of the properties come before a blank or stray line; None: all do."""
    other_at: int | None = None
    """The first line after that, or after the text, with a property that was given before: another section's."""
    strays: list[Problem] = field(default_factory=list)
    """Lines between heading and text that are neither a property nor quoted."""
    is_heading: bool = False
    """Its text is its heading."""

    @property
    def text(self) -> str:
        return unquote(self.quoted)

    def report(self, line: int, message: str) -> None:
        self.problems.append(Problem(line, message))

    def close(self) -> None:
        """Report what is wrong with it as a section that has a text."""
        self.problems[:0] = self.strays
        if not self.quoted:
            self.report(self.line, "the text (a block quote) is missing")

    def as_heading(self, ours: Collection[str]) -> "Section":
        """The heading with the properties that follow at once, and with those of `ours` below: all else is a person's."""
        head, below = self.properties[: self.head], [] if self.head is None else self.properties[self.head :]
        if self.quoted and self.other_at is not None:
            self.report(self.other_at, "the heading above this line is missing")
        kept = [each for each in below if each.key in ours and each.line < (self.other_at or each.line + 1)]
        return replace(self, properties=head + kept, quoted=[], is_heading=True)

    def meets(self, line: int, key: str) -> None:
        """A property comes where none should."""
        if self.other_at is None and any(each.key == key for each in self.properties):
            self.other_at = line

    def problems_of(self, anchor: str) -> list[Problem]:
        return [Problem(problem.line, problem.message, anchor) for problem in self.problems]


@dataclass(slots=True)
class Body:
    """The text below the front matter."""

    sections: list[Section] = field(default_factory=list)
    comments: list[tuple[int, str]] = field(default_factory=list)
    """Lines that begin with `%%`."""
    problems: list[Problem] = field(default_factory=list)
    """Damage that is in no section."""


def render_section(heading: str, properties: Iterable[str], text: str) -> str:
    """A section that ends in a newline; a blank line has to separate it from the next."""
    return "\n".join(["## " + heading, *properties, "", quote(text), ""])


def render_hidden(properties: Mapping[str, str]) -> str:
    """Properties as one comment, which a reader of the page does not see: `%% id: m1 · parent: m0 %%`."""
    return f"%% {' · '.join(f'{key}: {_write_hidden(value)}' for key, value in properties.items())} %%"


def _write_hidden(value: str) -> str:
    if is_readable(value) and "·" not in value:
        return value
    return write_json(value).replace("%", "\\u0025").replace("·", "\\u00b7")


def _read_hidden(number: int, comment: str, known: Collection[str]) -> list[Property] | None:
    """The properties in a comment; None where it is none of ours: any other key makes it a person's."""
    if not comment.endswith(" %%"):
        return None
    found = [_hidden(part.strip()) for part in comment[2:-2].split("·")]
    properties = [Property(number, each[1], each[2], True) for each in found if each and each[1] in known]
    return properties if len(properties) == len(found) else None


def read_body(text: str, first_line: int, *, hidden: Collection[str] = (), close: bool = True) -> Body:
    """Sections, comments and stray lines of a file, from `first_line` on.

    A comment before the text of a section whose keys are all `hidden` ones holds properties of the section. With
    `close` a section without a text is damaged.
    """
    reader = _BodyReader(hidden)
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n")[first_line - 1 :], first_line):
        reader.take(number, line)
    for section in reader.body.sections if close else ():
        section.close()
    return reader.body


def read_each(body: Body, read: Callable[[Section], tuple[str, T]]) -> tuple[tuple[T, ...], list[Problem]]:
    """What `read` makes of each section (its id and itself), and all problems of the body.

    A section for which `read` raises ValueError is left out. Of two with one id an intact one is kept, else
    the first.
    """
    kept: dict[str, tuple[T, bool]] = {}
    problems = list(body.problems)
    for section in body.sections:
        try:
            anchor, value = read(section)
        except ValueError as error:
            problems += [Problem(section.line, str(error)), *section.problems]
            continue
        intact = not section.problems
        problems += section.problems_of(anchor)
        if anchor in kept:
            problems.append(Problem(section.line, "another section has the same id", anchor))
            if kept[anchor][1] or not intact:
                continue
            del kept[anchor]
        kept[anchor] = value, intact
    return tuple(value for value, _ in kept.values()), problems


def read_properties(
    section: Section, readers: Mapping[str, Callable[[str], Any]], *, required: str, others: bool = False
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of the keys in `readers`, and the texts of all others; without `others` those are reported.

    A key that is written as a JSON string is never one of `readers`. With `others`, a line wins over the comment, which
    a person may not see. What can't be read is reported and left out; that `required` is not there is reported too.
    """
    if not any(item.key == required for item in section.properties):
        section.report(section.line, f"the line - {required}: is missing")
    known: dict[str, Any] = {}
    rest: dict[str, str] = {}
    in_lines = {item.key for item in section.properties if others and not item.is_hidden}
    for item in section.properties:
        if item.is_hidden and item.key in in_lines:
            continue
        try:
            if item.key in known or (item.key not in readers and read_text(item.key) in rest):
                raise ValueError("is given twice")
            if item.key in readers:
                known[item.key] = readers[item.key](item.value)
            elif others:
                rest[read_text(item.key)] = read_text(item.value)
            else:
                raise ValueError("is not known here")
        except ValueError as error:
            section.report(item.line, f"{item.key}: {error}")
    return known, rest


class _BodyReader:
    """Takes line after line; knows the section it is in and whether that section's text has ended."""

    def __init__(self, hidden: Collection[str]) -> None:
        self.body = Body()
        self._hidden = hidden
        self._section: Section | None = None
        self._ended_after: int | None = None
        self._resumed = False
        self._last_stray = 0

    def take(self, number: int, raw: str) -> None:
        line = raw.rstrip()
        section = self._section
        if line.startswith("## "):
            self._open(Section(number, line[3:].strip()))
        elif line.startswith("%%"):
            self._take_comment(number, line)
        elif not line:
            self._end_text()
            self._end_head()
        elif section and line[0] == ">":
            self._take_quoted(section, number, raw)
        elif section and not section.quoted and (found := _property(line)):
            if section.head is not None:
                section.meets(number, found[1])
            section.properties.append(Property(number, found[1], found[2] or ""))
        else:
            self._take_stray(number, line)

    def _take_comment(self, number: int, line: str) -> None:
        section = self._section
        if section and not section.quoted and (found := _read_hidden(number, line, self._hidden)):
            section.properties += found
            return
        self._end_text()
        self.body.comments.append((number, line))

    def _open(self, section: Section | None) -> None:
        self._section = section
        self._ended_after = None
        self._resumed = False
        if section:
            self.body.sections.append(section)

    def _end_text(self) -> None:
        if self._section and self._section.quoted and self._ended_after is None:
            self._ended_after = len(self._section.quoted)

    def _end_head(self) -> None:
        if (section := self._section) and section.properties and section.head is None:
            section.head = len(section.properties)

    def _take_quoted(self, section: Section, number: int, raw: str) -> None:
        if self._ended_after is not None and not self._resumed:
            self._resumed = True
            section.report(number, "the text goes on here after it had ended")
        section.quoted.append(raw)
        section.quoted_at.append(number)

    def _take_stray(self, number: int, line: str) -> None:
        section, found = self._section, _property(line)
        if section and self._ended_after is not None and found:
            # Properties come before a text. A heading is missing here, so none of this is ours.
            del section.quoted[self._ended_after :]
            del section.quoted_at[self._ended_after :]
            if self._resumed:
                section.problems.pop()
            self._open(None)
        elif section and found:
            section.meets(number, found[1])
        if number != self._last_stray + 1:
            if section is self._section and section and self._ended_after is None:
                section.strays.append(Problem(number, "this line is neither a property nor quoted with >"))
            else:
                self.body.problems.append(Problem(number, "this line belongs to nothing"))
        self._last_stray = number
        self._end_head()


def lines_of(text: str) -> list[str]:
    """Each with the newline that ends it."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def newline_of(lines: Sequence[str]) -> str:
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"


def is_blank(line: str) -> bool:
    return not line.strip()


def is_heading_line(line: str) -> bool:
    return line.startswith("## ") and not is_blank(line[2:])


def quotes_below(lines: Sequence[str], begin: int) -> list[int]:
    """Where quoted lines are before the next heading."""
    below = takewhile(lambda number: not is_heading_line(lines[number]), range(begin, len(lines)))
    return [number for number in below if lines[number].startswith(">")]
