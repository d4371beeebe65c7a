"""An entity of a knowledge graph as a note: observations are list items, relations links to other entities' notes.

    ---
    type: person
    created: 2026-05-08T14:03:00.000Z
    ---
    # Ann Smith

    - lives in Porto

    ## Relations

    - works at [[acme|Acme]]

Every change keeps the lines that it is not about: a person may write anything else into the note.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recollect.domain.markdown.front_matter import render_front_matter
from recollect.domain.paths import file_name

RELATIONS = "## Relations"
_INDENT = "  "
_STUB = "relations only"
_property = re.compile(r"(type|created|entity):[ \t]*(.*?)[ \t]*").fullmatch
_item = re.compile(r"[-*+](?: (.*))?", re.DOTALL).fullmatch
_relation = re.compile(
    r"(?:(?P<type>(?:\\.|[^\\\[])*) )?\[\[(?:(?P<file>[^\[\]|]*)\|)?(?P<to>(?:\\.|[^\\\[\]|])*)\]\]\s*"
).fullmatch
_escaped = re.compile(r"\\(.)")


class Relation(NamedTuple):
    relation_type: str
    to: str
    """The other entity's name; of a link without one, the name of its file."""


@dataclass(frozen=True, slots=True)
class EntityNote:
    """What a note says of an entity."""

    name: str | None
    """None where it has no heading: then its file's name."""
    entity_type: str | None
    """None for a name that relations begin at and that is no entity (yet)."""
    created: str
    observations: tuple[str, ...]
    relations: tuple[Relation, ...]


class _Item(NamedTuple):
    first: int
    end: int
    """The line after its last."""
    text: str
    is_relation: bool


class _Parts(NamedTuple):
    lines: list[str]
    note: EntityNote
    items: list[_Item]
    heading: int
    """The line after the heading, or after the front matter."""
    relations: int | None
    """The line after the heading of the relations; None without it."""


def plain(text: str) -> str:
    """The same text with line feeds alone: a note may be saved with any line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def new_entity(name: str, entity_type: str | None, observations: Iterable[str], created: str) -> str:
    """The text of a new note."""
    kind = {"entity": _STUB} if entity_type is None else {"type": entity_type}
    head = f"{render_front_matter({**kind, 'created': created})}# {_escape(name, '')}\n"
    lines = [line for text in observations for line in _observation(text)]
    return head + ("\n" + "\n".join(lines) + "\n" if lines else "")


def read_entity(text: str) -> EntityNote:
    return _read(text).note


def with_type(text: str, entity_type: str) -> str:
    """The note of a name that becomes an entity."""
    (line,) = render_front_matter({"type": entity_type}).split("\n")[1:2]
    return re.sub(r"^entity:.*$", lambda _: line, text, count=1, flags=re.MULTILINE)


def with_observations(text: str, added: Sequence[str]) -> str:
    """Added after the last one, or below the heading."""
    parts = _read(text)
    own = [item for item in parts.items if not item.is_relation]
    new = [line for each in added for line in _observation(each)]
    return _inserted(parts, own[-1].end if own else None, parts.heading, new)


def with_relations(text: str, added: Sequence[Relation]) -> str:
    parts = _read(text)
    own = [item for item in parts.items if item.is_relation]
    new = [_link(each) for each in added]
    if parts.relations is None and new:
        return "\n".join([*_trimmed(parts.lines), "", RELATIONS, "", *new, ""])
    return _inserted(parts, own[-1].end if own else None, parts.relations or 0, new)


def without(text: str, observations: Collection[str] = (), relations: Collection[Relation] = ()) -> str:
    parts = _read(text)
    gone = {
        line
        for item in parts.items
        if (_read_link(item.text) in relations if item.is_relation else item.text in observations)
        for line in range(item.first, item.end)
    }
    return "\n".join(line for number, line in enumerate(parts.lines) if number not in gone)


def _read(text: str) -> _Parts:
    lines = plain(text).removeprefix("\ufeff").split("\n")
    start, properties = _properties(lines)
    name, heading, relations = None, start, None
    items: list[_Item] = []
    number = start
    while number < len(lines):
        line = lines[number]
        if name is None and relations is None and line.startswith("# "):
            name, heading = _unescape(line[2:]), number + 1
        elif line.rstrip() == RELATIONS:
            relations = number + 1
        elif line.startswith("## ") and relations is not None:
            break  # Another heading ends what is ours.
        elif (found := _item(line)) is not None:
            end = _end_of_item(lines, number)
            rest = [each.removeprefix(_INDENT) for each in lines[number + 1 : end]]
            item = _Item(number, end, "\n".join([found[1] or "", *rest]), relations is not None)
            items.append(item)
            number = end
            continue
        number += 1
    told = tuple(item.text for item in items if not item.is_relation)
    links = tuple(link for item in items if item.is_relation and (link := _read_link(item.text)) is not None)
    kind = None if properties.get("entity") == _STUB else properties.get("type", "")
    note = EntityNote(name, kind, properties.get("created", ""), told, links)
    return _Parts(lines, note, items, heading, relations)


def _properties(lines: Sequence[str]) -> tuple[int, dict[str, str]]:
    """Where the front matter ends, and those of its properties that are ours: reading YAML would take too long."""
    if lines[0].rstrip() != "---":
        return 0, {}
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        return 0, {}
    found = [match for line in lines[1:end] if (match := _property(line))]
    return end + 1, {match[1]: _unquoted(match[2]) for match in found}


def _unquoted(written: str) -> str:
    if len(written) < 2 or written[0] != written[-1] or written[0] not in "\"'":
        return written
    if written[0] == "'":
        return written[1:-1].replace("''", "'")
    return _yaml_escape.sub(_read_escape, written[1:-1])


_yaml_escape = re.compile(r'\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(["\\/bfnrt]))')
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _read_escape(match: re.Match[str]) -> str:
    if match[3] is not None:
        return _CONTROLS.get(match[3], match[3])
    code = int(match[1] or match[2], 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"


def _end_of_item(lines: Sequence[str], first: int) -> int:
    """Indented lines belong to it, and blank lines before one of them."""
    end = first + 1
    for number in range(first + 1, len(lines)):
        if lines[number].startswith(_INDENT):
            end = number + 1
        elif lines[number]:
            break
    return end


def _observation(text: str) -> list[str]:
    first, *rest = plain(text).split("\n")
    return [f"- {first}", *(_INDENT + line for line in rest)]


def _link(relation: Relation) -> str:
    to = _escape(relation.to, "[]|")
    return f"- {_escape(relation.relation_type, '[')} [[{file_name(relation.to)}|{to}]]"


def _read_link(text: str) -> Relation | None:
    found = _relation(text)
    return None if found is None else Relation(_unescape(found["type"] or ""), _unescape(found["to"]))


def _escape(text: str, marks: str) -> str:
    kept = plain(text).replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(f"\\{char}" if char in marks else char for char in kept)


def _unescape(written: str) -> str:
    return _escaped.sub(lambda match: "\n" if match[1] == "n" else match[1], written)


def _inserted(parts: _Parts, after: int | None, below: int, new: Sequence[str]) -> str:
    """The note with lines after the last of their kind, or else below a heading, apart from it by a blank line."""
    lines = list(parts.lines)
    if not new:
        return "\n".join(lines)
    if after is not None:
        lines[after:after] = new
        return "\n".join(lines)
    rest = lines[below:]
    while rest and not rest[0].strip():
        rest.pop(0)
    return "\n".join([*lines[:below], "", *new, "", *rest])


def _trimmed(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept
