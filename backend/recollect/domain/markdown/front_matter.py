"""Front matter: the YAML at the head of a vault file, and values on one line."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

from recollect.domain.model import MAX_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Problem:
    """One piece of damage in a file. `line` counts from 1."""

    line: int
    message: str
    anchor: str | None = None
    """The turn or entry that is damaged by it; None where no single one is."""


_NONCHARACTERS = r"\ufdd0-\ufdef" + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(17))
UNCARRIED = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff" + _NONCHARACTERS
"""The inside of a regex class: what an editor may drop or take for a line's end. Not tab and newline."""

JSON_STRING = r'"(?:[^"\\]|\\.)*"'
ANCHOR = rf"(?:{JSON_STRING}|[A-Za-z0-9][A-Za-z0-9_-]*)"
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,3})?Z"

_uncarried = re.compile(f"[{UNCARRIED}]")
_breaks_line = re.compile(f"[{UNCARRIED}\t\n]")
_plain_word = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:/-]*").fullmatch
_plain_anchor = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*").fullmatch
_numbers = re.compile("[0-9]+").findall
_time = re.compile(TIME).fullmatch

_encode_json = json.JSONEncoder(ensure_ascii=False).encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def is_readable(text: str) -> bool:
    """Whether text can be written on a line as it is, and can't be mistaken for JSON or an anchor."""
    if _plain_word(text):
        return True
    return (
        text != ""
        and text[0] != '"'
        and text == text.strip()
        and "^" not in text
        and "%%" not in text
        and (text.isprintable() or _breaks_line.search(text) is None)
    )


def write_text(text: str) -> str:
    """Text as it is where it `is_readable`, else as a JSON string."""
    return text if is_readable(text) else write_json(text)


def read_text(written: str) -> str:
    if not written:
        raise ValueError("there is no value")
    if written[0] != '"':
        return written
    value = read_json(written)
    if not isinstance(value, str):
        raise ValueError("this is not one JSON string")
    return value


def write_json(value: Any) -> str:
    """JSON on one line that is readable in every script, with every uncarried character escaped."""
    written = _encode_json(value)
    return written if written.isprintable() else _uncarried.sub(_json_escape, written)


def read_json(written: str) -> Any:
    try:
        value = json.loads(written)
        if "\\u" in written:
            _encode_json(value).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error.msg} at character {error.pos + 1}") from error
    except UnicodeEncodeError as error:
        raise ValueError("this JSON holds half of a character (a lone surrogate)") from error
    except RecursionError as error:
        raise ValueError("this JSON is nested too deeply") from error
    return value


def write_anchor(identifier: str) -> str:
    """An id as Obsidian takes it behind `^`, else as a JSON string that cannot end an Obsidian comment."""
    return identifier if _plain_anchor(identifier) else write_json(identifier).replace("%", "\\u0025")


def write_time(milliseconds: int) -> str:
    """UTC, always with milliseconds: 2026-05-08T14:03:00.000Z."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")[:23] + "Z"


def read_time(written: str) -> int:
    if not _time(written):
        raise ValueError("this is not a UTC time such as 2026-05-08T14:03:00.000Z")
    year, month, day, hour, minute, second = map(int, _numbers(written[:19]))
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    milliseconds = (moment - _EPOCH) // _MILLISECOND + int(written[20:-1].ljust(3, "0"))
    if not 0 <= milliseconds <= MAX_TIMESTAMP:
        raise ValueError("this time is before 1970")
    return milliseconds


def _json_escape(match: re.Match[str]) -> str:
    utf16 = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{utf16[i : i + 4]}" for i in range(0, len(utf16), 4))


def _yaml_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


Scalar = str | int | bool | None
FORMAT_VERSION = 1
READABLE_VERSION = 2
"""Of transcripts: what only we need is in comments. Version 1 is read, too."""
ENTRIES_VERSION = 3
"""Of entries: a sentence is its heading alone. Earlier versions, which quote every text, are read, too."""

_plain = re.compile(r"[^\W\d_](?:[\w./@ -]*\w)?").fullmatch
_whole_number = re.compile(r"0|-?[1-9][0-9]{0,17}").fullmatch
_body_begins = re.compile(r"## |>|%%").match
_WORDS_WITH_MEANING = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null"])


def render_front_matter(mapping: Mapping[str, Scalar | Sequence[str]]) -> str:
    """The front matter with both `---` lines, ending in a newline."""
    lines = [f"{_write_text(key)}: {_write_value(value)}\n" for key, value in mapping.items()]
    return f"---\n{''.join(lines)}---\n"


def split_front_matter(text: str) -> tuple[dict[str, Any] | None, int, tuple[Problem, ...]]:
    """The properties, the line (from 1) at which the body begins, and what is wrong.

    The properties are None where they can't be read as a whole. The body begins at its first heading, quote
    or comment where the closing `---` is gone.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != "---":
        return None, 1, (Problem(1, "the file does not begin with front matter (a line ---)"),)
    end = 1
    while end < len(lines) and lines[end].rstrip() != "---":
        if _body_begins(lines[end]):
            break
        end += 1
    if end == len(lines) or lines[end].rstrip() != "---":
        return None, end + 1, (Problem(1, "the front matter is not closed by a line ---"),)
    mapping, problem = _read_yaml("\n".join(line.rstrip("\r") for line in lines[1:end]))
    return mapping, end + 2, (problem,) if problem else ()


def read_header(mapping: Mapping[str, Any], newest: int = FORMAT_VERSION) -> str:
    """The file's kind. Raises ValueError where the file is not of a version that this code reads."""
    version = as_text(mapping.get("recollect"))
    if version not in [str(number) for number in range(FORMAT_VERSION, newest + 1)]:
        found = "has no format version" if version is None else f"has format version {version}"
        raise ValueError(f"the file {found} (recollect); this code reads version {newest}")
    return read_property(mapping, "kind")


def read_property(mapping: Mapping[str, Any], key: str) -> str:
    """A property as text, also where a person left out the quotes. Raises ValueError where it is none."""
    value = as_text(mapping.get(key))
    if value is None:
        raise ValueError(f"the front matter has no {key}" if key not in mapping else f"{key} is not text")
    return value


def as_text(value: Any) -> str | None:
    """The text of a scalar; None for null and for what is no scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def _write_value(value: Scalar | Sequence[str]) -> str:
    if isinstance(value, str):
        return _write_text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return f"[{', '.join(map(_write_text, value))}]"


def _write_text(text: str) -> str:
    if _plain(text) and text.casefold() not in _WORDS_WITH_MEANING:
        return text
    # A double-quoted YAML scalar: JSON, except that YAML escapes a character beyond U+FFFF as one.
    return _uncarried.sub(_yaml_escape, _encode_json(text))


class _Yaml(YAML):
    def official_plug_ins(self) -> Any:
        """None is needed; the parser would look for them on the disk for every text."""
        return []


def _read_yaml(text: str) -> tuple[dict[str, Any] | None, Problem | None]:
    yaml = _Yaml(typ="safe", pure=True)
    yaml.Resolver = _TextUnlessCertain
    try:
        mapping = yaml.load(text)
    except MarkedYAMLError as error:
        # The mark counts from 0, and the line --- is above.
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        return None, Problem(line, f"the front matter is not YAML: {error.problem}")
    except Exception as error:  # noqa: BLE001
        # Damaged YAML makes the parser raise nearly anything (a ValueError for `!!int x`, a RecursionError).
        return None, Problem(1, f"the front matter is not YAML: {type(error).__name__} {error}")
    if not isinstance(mapping, dict):
        return None, Problem(1, "the front matter is not a list of properties")
    return {str(key): value for key, value in mapping.items()}, None


class _TextUnlessCertain(VersionedResolver):
    """Finds a type for an unquoted scalar only where the value, written again, is the same text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is not ScalarNode or not implicit[0]:
            return super().resolve(kind, value, (False, False))
        if value in ("", "~", "null"):
            return Tag(suffix="tag:yaml.org,2002:null")
        if value in ("true", "false"):
            return Tag(suffix="tag:yaml.org,2002:bool")
        if _whole_number(value):
            return Tag(suffix="tag:yaml.org,2002:int")
        return self.DEFAULT_SCALAR_TAG
