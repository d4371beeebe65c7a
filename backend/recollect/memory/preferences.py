"""Preferences: what one user wants Recollect to do, and how it stands in the vault.

---
recollect: 1
kind: preferences
space: default
owner: users/ann
auto_memory: true
auto_skills: true
time_zone: Europe/Lisbon
preset: null
---
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from recollect.context.clock import is_time_zone
from recollect.errors import InvalidInput
from recollect.memory.front_matter import (
    FORMAT_VERSION,
    read_header,
    read_property,
    render_front_matter,
    split_front_matter,
)

PREFERENCES = "preferences"

_KNOWN = frozenset(
    ["recollect", "kind", "space", "owner", "auto_memory", "auto_skills", "time_zone", "preset"]
)


@dataclass(frozen=True, slots=True)
class Preferences:
    """Of one user."""

    space: str
    user_id: str
    auto_memory: bool = True
    """Whether memories are made of what is said."""
    auto_skills: bool = True
    """Whether skills are made of what agents do."""
    time_zone: str | None = None
    """An IANA name; None is UTC."""
    preset: str | None = None
    """For threads that name none."""

    def checked(self) -> Self:
        """Itself; raises InvalidInput for a time zone that this machine does not know."""
        if self.time_zone is not None and not is_time_zone(self.time_zone):
            raise InvalidInput(
                f"time_zone: {self.time_zone!r} is no time zone; they are called Europe/Lisbon, Asia/Tokyo or UTC",
                field="time_zone",
            )
        return self


def render_preferences(preferences: Preferences) -> str:
    """The whole file. Every preference is named, so that a person sees which there are."""
    return render_front_matter(
        {
            "recollect": FORMAT_VERSION,
            "kind": PREFERENCES,
            "space": preferences.space,
            "owner": f"users/{preferences.user_id}",
            "auto_memory": preferences.auto_memory,
            "auto_skills": preferences.auto_skills,
            "time_zone": preferences.time_zone,
            "preset": preferences.preset,
        }
    )


def parse_preferences(text: str, *, space: str, user_id: str) -> tuple[Preferences, tuple[str, ...]]:
    """The preferences, and what else the file holds. Raises ValueError, in words, where it can't be read.

    `space` and `user_id` are those of a file that does not say.
    """
    mapping, body_line, problems = split_front_matter(text)
    if mapping is None:
        raise ValueError(problems[0].message)
    kind = read_header(mapping)
    if kind != PREFERENCES:
        raise ValueError(f"the file is of the kind {kind}, not {PREFERENCES}")
    owner = _optional_text(mapping, "owner") or f"users/{user_id}"
    if not owner.startswith("users/"):
        raise ValueError("owner is not users/ and an id")
    try:
        preferences = Preferences(
            space=_optional_text(mapping, "space") or space,
            user_id=owner.removeprefix("users/"),
            auto_memory=_yes_or_no(mapping, "auto_memory"),
            auto_skills=_yes_or_no(mapping, "auto_skills"),
            time_zone=_optional_text(mapping, "time_zone"),
            preset=_optional_text(mapping, "preset"),
        ).checked()
    except InvalidInput as error:
        raise ValueError(error.message) from error
    has_body = "".join(text.split("\n")[body_line - 1 :]).strip() != ""
    return preferences, (*(key for key in mapping if key not in _KNOWN), *(["its text"] if has_body else []))


def _yes_or_no(mapping: Mapping[str, Any], key: str) -> bool:
    value = mapping.get(key)
    if value is None:
        return True
    if not isinstance(value, bool):
        raise ValueError(f"{key}: {value!r} is neither true nor false")
    return value


def _optional_text(mapping: Mapping[str, Any], key: str) -> str | None:
    """None also for a property that was left empty."""
    return None if mapping.get(key) in (None, "") else read_property(mapping, key)
