"""A transcript: one part of a thread as Markdown, and back."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast, get_args

from recollect.domain.entries.links import ENTRY_LINK
from recollect.domain.markdown.front_matter import (
    ANCHOR,
    FORMAT_VERSION,
    READABLE_VERSION,
    TIME,
    Problem,
    Scalar,
    as_text,
    is_readable,
    read_header,
    read_json,
    read_property,
    read_text,
    read_time,
    render_front_matter,
    split_front_matter,
    write_anchor,
    write_json,
    write_text,
    write_time,
)
from recollect.domain.markdown.sections import (
    Section,
    read_body,
    read_each,
    read_properties,
    render_hidden,
    render_section,
)
from recollect.domain.model import ROLES, JsonObject, Memcell, Role, Status, Thread, TranscriptPart, Turn

_memcell = re.compile(
    rf"%% memcell ({ANCHOR}):((?: {ANCHOR})*)(?: · ({ANCHOR}))? %%((?: \[\[{ENTRY_LINK}\]\])*)"
).fullmatch
_anchors = re.compile(ANCHOR).findall
_links = re.compile(rf"\[\[({ENTRY_LINK})\]\]").findall


def render_markers(part: TranscriptPart, *, linked: bool) -> dict[int, list[str]]:
    """Markers by the index of the turn each one follows: the memcell's last turn, but never before an earlier marker.

    A memcell none of whose turns is here follows the marker before it, or precedes all turns (index -1).
    """
    places = {turn.turn_id: place for place, turn in enumerate(part.turns)}
    markers: dict[int, list[str]] = {}
    place = -1
    for memcell in part.memcells:
        last = memcell.turn_ids[-1] if memcell.turn_ids else ""
        place = max(place, places.get(last, -1))
        markers.setdefault(place, []).append(_render_memcell(memcell, linked=linked))
    return markers


def read_markers(comments: Iterable[tuple[int, str]]) -> tuple[tuple[Memcell, ...], list[Problem]]:
    """The memcells among the comments of a file, and what is wrong with the rest."""
    memcells: dict[str, Memcell] = {}
    problems = []
    for line, comment in comments:
        try:
            memcell = _read_memcell(comment)
            if memcell.memcell_id in memcells:
                raise ValueError("another memcell has the same id")
            memcells[memcell.memcell_id] = memcell
        except ValueError as error:
            problems.append(Problem(line, str(error)))
    return tuple(memcells.values()), problems


def _render_memcell(memcell: Memcell, *, linked: bool) -> str:
    turns = "".join(f" {write_anchor(turn_id)}" for turn_id in memcell.turn_ids)
    reason = f" · {write_anchor(memcell.reason)}" if memcell.reason else ""
    links = "".join(f" [[{link}]]" for link in memcell.links) if linked else ""
    return f"%% memcell {write_anchor(memcell.memcell_id)}:{turns}{reason} %%{links}\n"


def _read_memcell(comment: str) -> Memcell:
    found = _memcell(comment)
    if not found:
        raise ValueError("this comment is not the marker of a memcell")
    turn_ids = tuple(map(read_text, _anchors(found[2])))
    reason = read_text(found[3]) if found[3] else ""
    return Memcell(read_text(found[1]), turn_ids, reason, tuple(_links(found[4])))


_KIND = "transcript"


def _header(part: TranscriptPart, version: int) -> dict[str, Scalar | tuple[str, ...]]:
    """The properties of a part, in their order. Only part 1 has more than the thread's names and aliases."""
    thread = part.thread
    properties: dict[str, Scalar | tuple[str, ...]] = {
        "recollect": version,
        "kind": _KIND,
        "space": thread.space,
        "owner": f"users/{thread.user_id}",
        "thread": thread.thread_id,
        "part": part.part,
    }
    if version > FORMAT_VERSION and (names := aliases(thread, part.part, part.turns)):
        properties["aliases"] = names
    if part.part == 1:
        properties["created"] = write_time(thread.created)
        optional: dict[str, Scalar | tuple[str, ...]] = {
            "agent": thread.agent_id,
            "title": thread.title,
            "tags": thread.tags or None,
            "preset": thread.preset,
            "backend": thread.backend,
            "pinned": thread.pinned or None,
            "archived": thread.archived or None,
            "one_shot": thread.one_shot or None,
            "incognito": thread.incognito or None,
        }
        properties |= {key: value for key, value in optional.items() if value is not None}
    return properties


def aliases(thread: Thread, part: int, turns: Sequence[Turn]) -> tuple[str, ...]:
    """Names by which a person finds a part: the thread's title and its first day; of later parts their first day."""
    begins = [thread.created] if part == 1 else [turn.timestamp for turn in turns[:1]]
    title = [thread.title] if part == 1 and thread.title else []
    return (*title, *(write_time(time)[:10] for time in begins))


def read_part_number(mapping: Mapping[str, Any]) -> int:
    """Which part this is. Raises ValueError where the file is no transcript that this code reads."""
    kind = read_header(mapping, READABLE_VERSION)
    if kind != _KIND:
        raise ValueError(f"the file is of the kind {kind}, not {_KIND}")
    part = mapping.get("part")
    if not isinstance(part, int) or isinstance(part, bool) or part < 1:
        raise ValueError("part is not a number from 1")
    return part


def read_thread(mapping: Mapping[str, Any], part: int) -> Thread:
    """The thread as far as this part holds it. Raises ValueError where a property is missing or odd."""
    owner = read_property(mapping, "owner")
    if not owner.startswith("users/"):
        raise ValueError("owner is not users/ and an id")
    first = mapping if part == 1 else {"created": write_time(0)}
    created = read_time(read_property(first, "created"))
    return Thread(
        space=read_property(mapping, "space"),
        thread_id=read_property(mapping, "thread"),
        user_id=owner.removeprefix("users/"),
        created=created,
        updated=created,
        agent_id=_read_optional(first, "agent"),
        title=_read_optional(first, "title"),
        tags=_read_list(first, "tags"),
        preset=_read_optional(first, "preset"),
        backend=_read_optional(first, "backend"),
        incognito=_read_flag(first, "incognito"),
        pinned=_read_flag(first, "pinned"),
        archived=_read_flag(first, "archived"),
        one_shot=_read_flag(first, "one_shot"),
    )


def _read_optional(mapping: Mapping[str, Any], key: str) -> str | None:
    return None if mapping.get(key) is None else read_property(mapping, key)


def _read_flag(mapping: Mapping[str, Any], key: str) -> bool:
    value = mapping.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is neither true nor false")
    return value


def _read_list(mapping: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts; also a single one, and an empty property, as Obsidian leaves them."""
    value = mapping.get(key)
    items = value if isinstance(value, list) else [] if value is None else [value]
    texts = [as_text(item) for item in items]
    if None in texts:
        raise ValueError(f"{key} is not a list of texts")
    return tuple(text for text in texts if text is not None)


_HEADER_KEYS = frozenset([
    "recollect", "kind", "space", "owner", "thread", "part", "aliases",
    "created", "agent", "title", "tags", "preset", "backend", "pinned", "archived", "one_shot",
    "incognito",
])  # fmt: skip
_YES = "yes"
_FIELDS = {
    "id": "message_id", "sender": "sender_id", "parts": "parts", "tool_calls": "tool_calls",
    "tool_call_id": "tool_call_id", "reasoning": "reasoning", "parent": "parent_id", "model": "model",
    "status": "status", "skipped": "skip_reason", "edited": "edited",
}  # fmt: skip
"""The properties of a turn in their order, and the fields of a Turn that they hold."""
_HIDDEN = ("id", "tool_call_id", "parent")
"""Those that are in a comment. In version 1 they are lines like the others."""
_heading = re.compile(rf"({'|'.join(ROLES)}) · (?:([^·^]+) · )?({TIME}) \^({ANCHOR})").fullmatch


@dataclass(frozen=True, slots=True)
class ParsedPart:
    """What a part says.

    `thread` is None where the front matter is damaged. It has what the file holds: never `updated` (here the
    same as `created`) and `turn_count` (0), and only in part 1 anything but its names (`created` is 0).
    `part` is 0 where the file doesn't say it.
    """

    thread: Thread | None
    part: int
    turns: tuple[Turn, ...]
    memcells: tuple[Memcell, ...]
    problems: tuple[Problem, ...]
    unknown: tuple[str, ...] = ()
    """Properties of the front matter that a transcript doesn't have: a person's, or an editor's."""
    aliases: tuple[str, ...] = ()
    """Those that neither the thread nor its turns give: a person's, or of an earlier title."""


def render_part(part: TranscriptPart, version: int = READABLE_VERSION, *, linked: bool = True) -> str:
    """The whole file. The same part gives the same bytes. Version 1 has no links to memories."""
    markers = render_markers(part, linked=linked and version > FORMAT_VERSION)
    header = render_front_matter(_header(part, version))
    blocks = [header, *markers.get(-1, ())]
    for place, turn in enumerate(part.turns):
        blocks.append(render_turn(turn, version))
        blocks += markers.get(place, ())
    return "\n".join(blocks)


def is_rendered(text: str, part: TranscriptPart) -> bool:
    """Whether a file holds exactly this part, in this version of the format or in one before: without links, or older."""
    return text in (render_part(part), render_part(part, linked=False), render_part(part, FORMAT_VERSION))


def render_turn(turn: Turn, version: int = READABLE_VERSION) -> str:
    """One turn, ending in a newline; a blank line has to separate it from the text above."""
    sender, hides = turn.sender_id, version > FORMAT_VERSION
    unsaid = turn.role if hides else ""
    in_heading = sender != unsaid and is_readable(sender) and "·" not in sender
    who = f"{turn.role} · {sender}" if in_heading else turn.role
    heading = f"{who} · {write_time(turn.timestamp)} ^{write_anchor(turn.turn_id)}"
    values = {key: getattr(turn, name) for key, name in _FIELDS.items()}
    values["sender"] = sender if sender != unsaid and not in_heading else None
    values["status"] = turn.status if turn.status != "complete" else None
    values["edited"] = _YES if turn.edited else None
    written = {key: value for key, value in values.items() if value is not None}
    properties = [
        f"- {key}: {write_text(value) if isinstance(value, str) else write_json(value)}"
        for key, value in written.items()
        if not (hides and key in _HIDDEN)
    ]
    if hides:
        properties.insert(0, render_hidden({key: written[key] for key in _HIDDEN if key in written}))
    return render_section(heading, properties, turn.content)


def parse_part(text: str) -> ParsedPart:
    """Everything that can be read, and a problem for everything that can't. Never raises."""
    mapping, body_line, header_problems = split_front_matter(text)
    thread, number = None, 0
    names: tuple[str, ...] = ()
    problems = list(header_problems)
    if mapping is not None:
        try:
            number = read_part_number(mapping)
            thread = read_thread(mapping, number)
            names = _read_list(mapping, "aliases")
        except ValueError as error:
            problems.append(Problem(1, str(error)))
    unknown = tuple(key for key in mapping or () if key not in _HEADER_KEYS)
    body = read_body(text, body_line, hidden=_HIDDEN)
    turns, body_problems = read_each(body, _read_turn)
    memcells, memcell_problems = read_markers(body.comments)
    problems += body_problems + memcell_problems
    problems.sort(key=lambda problem: problem.line)
    ours = aliases(thread, number, turns) if thread is not None else ()
    foreign = tuple(name for name in names if name not in ours)
    return ParsedPart(thread, number, turns, memcells, tuple(problems), unknown, foreign)


def is_transcript(path: str) -> bool:
    """Whether a path in the vault is that of a part: `<space>/users/<user>/threads/<thread>/0001.md`."""
    parts = path.split("/")
    number = parts[-1].removesuffix(".md")
    if len(parts) != 6 or parts[3] != "threads" or not (number.isascii() and number.isdigit()):
        return False
    return parts[-1] == f"{int(number):04d}.md"


def transcript_place(text: str) -> tuple[Thread, int] | None:
    """Which thread (its names) and part a transcript says it is; None where its front matter is damaged."""
    mapping, _, _ = split_front_matter(text)
    if mapping is None:
        return None
    try:
        number = read_part_number(mapping)
        return read_thread(mapping, number), number
    except ValueError:
        return None


def _read_objects(written: str) -> list[JsonObject]:
    value = read_json(written)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("this is not a JSON list of objects")
    return value


def _read_status(written: str) -> Status:
    if written not in get_args(Status):
        raise ValueError(f"this is none of {', '.join(get_args(Status))}")
    return cast(Status, written)


def _read_yes(written: str) -> bool:
    if written != _YES:
        raise ValueError(f"this is not {_YES}")
    return True


_READERS: dict[str, Callable[[str], Any]] = dict.fromkeys(_FIELDS, read_text) | {
    "parts": _read_objects,
    "tool_calls": _read_objects,
    "status": _read_status,
    "edited": _read_yes,
}


def _read_turn(section: Section) -> tuple[str, Turn]:
    found = _heading(section.heading)
    if not found:
        raise ValueError("this is not the heading of a turn (role · sender · UTC time ^id)")
    turn_id = read_text(found[4])
    known, _ = read_properties(section, _READERS, required="id")
    unsaid = found[1] if any(item.is_hidden for item in section.properties) else ""
    fields: dict[str, Any] = {"message_id": turn_id, "sender_id": found[2] or unsaid}
    fields |= {_FIELDS[key]: value for key, value in known.items()}
    return turn_id, Turn(
        turn_id=turn_id,
        role=cast(Role, found[1]),
        content=section.text,
        timestamp=read_time(found[3]),
        **fields,
    )


def markdown_of(thread: Mapping[str, Any]) -> str:
    """A conversation to read: who said what, and when, each text as it was written."""
    begin = (
        f"# {thread['title'] or thread['thread_id']}\n\nThread {thread['thread_id']} of {thread['user_id']}"
    )
    lines = [f"{begin}, {_messages(thread['turn_count'])} since {_time(thread['created'])}\n"]
    for turn in thread["turns"]:
        by = f" ({turn['model']})" if turn["model"] else ""
        ending = "" if turn["status"] == "complete" else f", {turn['status']}"
        images = [part["image_url"]["url"] for part in turn["parts"] or () if "image_url" in part]
        calls = [f"`{call['function']['name']}`" for call in turn["tool_calls"] or ()]
        body = [
            turn["content"],
            *(f"![image]({url})" for url in images),
            *(f"calls {call}" for call in calls),
        ]
        lines.append(f"## {turn['sender_id']}{by}, {_time(turn['timestamp'])}{ending}\n")
        lines += [f"{text}\n" for text in body if text]
    return "\n".join(lines)


def _messages(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
