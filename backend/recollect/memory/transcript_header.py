"""The front matter of a transcript: which part of which thread it is and, in part 1, all about the thread."""

from collections.abc import Mapping
from typing import Any

from recollect.memory.front_matter import FORMAT_VERSION, Scalar, as_text, read_header, read_property
from recollect.memory.line_values import read_time, write_time
from recollect.memory.model import Thread

_KIND = "transcript"


def transcript_header(thread: Thread, part: int) -> dict[str, Scalar | tuple[str, ...]]:
    """The properties of a part, in their order. Only part 1 has more than the thread's names."""
    properties: dict[str, Scalar | tuple[str, ...]] = {
        "recollect": FORMAT_VERSION,
        "kind": _KIND,
        "space": thread.space,
        "owner": f"users/{thread.user_id}",
        "thread": thread.thread_id,
        "part": part,
    }
    if part == 1:
        properties["created"] = write_time(thread.created)
        optional: dict[str, Scalar | tuple[str, ...]] = {
            "agent": thread.agent_id,
            "title": thread.title,
            "tags": thread.tags or None,
            "preset": thread.preset,
            "backend": thread.backend,
            "pinned": thread.pinned or None,
            "incognito": thread.incognito or None,
        }
        properties |= {key: value for key, value in optional.items() if value is not None}
    return properties


def read_part_number(mapping: Mapping[str, Any]) -> int:
    """Which part this is. Raises ValueError where the file is no transcript that this code reads."""
    kind = read_header(mapping)
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
        tags=_read_tags(first.get("tags")),
        preset=_read_optional(first, "preset"),
        backend=_read_optional(first, "backend"),
        incognito=_read_flag(first, "incognito"),
        pinned=_read_flag(first, "pinned"),
    )


def _read_optional(mapping: Mapping[str, Any], key: str) -> str | None:
    return None if mapping.get(key) is None else read_property(mapping, key)


def _read_flag(mapping: Mapping[str, Any], key: str) -> bool:
    value = mapping.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is neither true nor false")
    return value


def _read_tags(value: Any) -> tuple[str, ...]:
    """A list of tags; also a single one, and an empty property, as Obsidian leaves them."""
    tags = value if isinstance(value, list) else [] if value is None else [value]
    texts = [as_text(tag) for tag in tags]
    if None in texts:
        raise ValueError("tags is not a list of texts")
    return tuple(text for text in texts if text is not None)
