"""Presets and preferences, and how they are written in the vault."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from recollect.domain.markdown.front_matter import (
    FORMAT_VERSION,
    UNCARRIED,
    Scalar,
    as_text,
    read_header,
    read_property,
    render_front_matter,
    split_front_matter,
)
from recollect.domain.markdown.sections import quote, unquote
from recollect.domain.paths import file_name
from recollect.domain.prompt import is_time_zone
from recollect.domain.sources import KINDS
from recollect.errors import InvalidInput

PRESET = "preset"
DEFAULT_PRESET = "default"
MAX_NAME = 64
MAX_INSTRUCTIONS = 200_000
MAX_PERSONA = 2_000
MAX_TEMPERATURE = 2.0
MAX_TOKENS = 1_000_000
NO_SOURCES = "none"

_KNOWN = frozenset(
    [
        "recollect",
        "kind",
        "space",
        "name",
        "persona",
        "temperature",
        "max_tokens",
        "model",
        "backend",
        "sources",
    ]
)
_breaks_line = re.compile(f"[{UNCARRIED}\t\n]").search


@dataclass(frozen=True, slots=True)
class Preset:
    """What a model is told before a conversation, and how it is asked."""

    space: str
    name: str
    instructions: str
    persona: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    model: str | None = None
    backend: str | None = None
    """Of the configured ones, by name."""
    sources: str | None = None
    """Kinds of context sources that it takes, such as "files, links"; None: all that the server does."""

    def takes(self, kind: str) -> bool:
        """Whether context sources of that kind may be used with it."""
        return self.sources is None or kind in _listed(self.sources)

    def checked(self) -> Self:
        """Returns itself. Raises InvalidInput if it can't be stored and sent."""
        _check_name(self.name)
        _check_length("instructions", self.instructions, MAX_INSTRUCTIONS)
        for field, value in (("persona", self.persona), ("model", self.model), ("backend", self.backend)):
            if value is not None:
                _check_length(field, value, MAX_PERSONA)
        if self.sources is not None and (unknown := _listed(self.sources) - {*KINDS, NO_SOURCES}):
            raise InvalidInput(
                f"sources: {min(unknown)[:40]!r} is none; there are {', '.join(KINDS)}, or {NO_SOURCES}",
                field="sources",
            )
        if self.temperature is not None:
            _check_range("temperature", self.temperature, 0, MAX_TEMPERATURE)
        if self.max_tokens is not None:
            _check_range("max_tokens", self.max_tokens, 1, MAX_TOKENS)
        return self

    @property
    def key(self) -> str:
        return preset_key(self.name)

    @property
    def revision(self) -> str:
        """Digest of what a preset asks of a model, without its name."""
        asked = [
            self.instructions, self.persona, self.temperature, self.max_tokens, self.model, self.backend,
            *([self.sources] if self.sources is not None else []),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _listed(sources: str) -> set[str]:
    return set(sources.replace(",", " ").split())


def preset_key(name: str) -> str:
    """Names that differ in case alone, or in how a letter is put together, are one name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def built_in_preset(space: str) -> Preset:
    """In force where a space has no preset of that name of its own."""
    return Preset(
        space,
        DEFAULT_PRESET,
        "You are a friendly and helpful assistant. Answer in the user's language, clearly and to the point. "
        "Say so when you do not know something, and ask when a question can be understood in two ways.",
    )


def render_preset(preset: Preset) -> str:
    """The whole file."""
    properties: dict[str, Scalar] = {
        "recollect": FORMAT_VERSION,
        "kind": PRESET,
        "space": preset.space,
        "name": preset.name,
        "persona": preset.persona,
        "max_tokens": preset.max_tokens,
        "model": preset.model,
        "backend": preset.backend,
        "sources": preset.sources,
    }
    header = render_front_matter({key: value for key, value in properties.items() if value is not None})
    if preset.temperature is not None:
        # A bare number, which Obsidian shows as one; as text it would stand in quotes.
        header = header.removesuffix("---\n") + f"temperature: {preset.temperature!r}\n---\n"
    return f"{header}\n{_write_body(preset.instructions)}\n"


def parse_preset(text: str, *, space: str, name: str) -> tuple[Preset, tuple[str, ...]]:
    """The preset, and the properties that it can't hold. Raises ValueError, in words, where it can't be read.

    `space` and `name` are those of a file that does not say.
    """
    mapping, body_line = _read_front_matter(text, PRESET)
    try:
        preset = Preset(
            space=_optional_text(mapping, "space") or space,
            name=_optional_text(mapping, "name") or name,
            instructions=_read_body(text, body_line),
            persona=_optional_text(mapping, "persona"),
            temperature=_optional_number(mapping, "temperature"),
            max_tokens=_optional_whole_number(mapping, "max_tokens"),
            model=_optional_text(mapping, "model"),
            backend=_optional_text(mapping, "backend"),
            sources=_optional_text(mapping, "sources"),
        ).checked()
    except InvalidInput as error:
        raise ValueError(error.message) from error
    return preset, tuple(key for key in mapping if key not in _KNOWN)


def _read_front_matter(text: str, kind: str) -> tuple[Mapping[str, Any], int]:
    """The properties of a file of that kind, and the line its body begins at. Raises ValueError, in words."""
    mapping, body_line, problems = split_front_matter(text)
    if mapping is None:
        raise ValueError(problems[0].message)
    if (found := read_header(mapping)) != kind:
        raise ValueError(f"the file is of the kind {found}, not {kind}")
    return mapping, body_line


def _write_body(text: str) -> str:
    core = text.strip()
    begin = text.index(core)
    end = begin + len(core)
    inner = "\n".join(line[2:] for line in quote(core).split("\n"))
    return f"{_escaped(text[:begin])}{inner}{_escaped(text[end:])}"


def _escaped(space: str) -> str:
    return "".join(f"\\u{{{ord(char):x}}}" for char in space)


def _read_body(text: str, first_line: int) -> str:
    lines = text.removeprefix("\ufeff").split("\n")[first_line - 1 :]
    return unquote(f"> {line}" for line in "\n".join(lines).strip().split("\n"))


def _optional_text(mapping: Mapping[str, Any], key: str) -> str | None:
    """None also for a property that was left empty."""
    return None if mapping.get(key) in (None, "") else read_property(mapping, key)


def _optional_number(mapping: Mapping[str, Any], key: str) -> float | None:
    written = _optional_text(mapping, key)
    try:
        return None if written is None else float(written)
    except ValueError:
        raise ValueError(f"{key}: {written!r} is not a number") from None


def _optional_whole_number(mapping: Mapping[str, Any], key: str) -> int | None:
    value = mapping.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{key}: {as_text(value)!r} is not a whole number")


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidInput(f"name: must have 1 to {MAX_NAME} characters", field="name")
    if name != name.strip() or _breaks_line(name):
        raise InvalidInput("name: must be one line, without blanks around it", field="name")


def _check_length(field: str, text: str, longest: int) -> None:
    if not text.strip():
        raise InvalidInput(f"{field}: must not be blank", field=field)
    if len(text) > longest:
        raise InvalidInput(f"{field}: must have at most {longest:,} characters", field=field)


def _check_range(field: str, value: float, least: float, most: float) -> None:
    if not math.isfinite(value) or not least <= value <= most:
        raise InvalidInput(f"{field}: must be from {least:g} to {most:,.0f}", field=field)


PREFERENCES = "preferences"

_KNOWN_PREFERENCES = frozenset(
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
    mapping, body_line = _read_front_matter(text, PREFERENCES)
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
    return preferences, (
        *(key for key in mapping if key not in _KNOWN_PREFERENCES),
        *(["its text"] if has_body else []),
    )


def _yes_or_no(mapping: Mapping[str, Any], key: str) -> bool:
    value = mapping.get(key)
    if value is None:
        return True
    if not isinstance(value, bool):
        raise ValueError(f"{key}: {value!r} is neither true nor false")
    return value


PEOPLE_BYTES = 4_000_000
"""A longer file is no preset."""


def render_people_file(holds: Preset | Preferences) -> str:
    return render_preset(holds) if isinstance(holds, Preset) else render_preferences(holds)


def read_people_file(path: str, text: str) -> tuple[Preset | Preferences, tuple[str, ...]]:
    """What a file holds, and what it holds beside. Raises ValueError, in words, where it can't be read.

    A file that a person made need not say whose it is: its place does.
    """
    folder, *_, owner, name = path.split("/")
    holds: Preset | Preferences
    if owner == "presets":
        holds, beside = parse_preset(text, space=folder, name=name.removesuffix(".md"))
    else:
        holds, beside = parse_preferences(text, space=folder, user_id=owner)
        if file_name(holds.user_id) != owner:
            raise ValueError(f"its front matter names another user than the folder {owner}")
    if file_name(holds.space) != folder:
        raise ValueError(f"its front matter names another space than the folder {folder}")
    return holds, beside
