"""Values that stand on one line of a vault file: text, JSON, anchors and times.

What was written is read back exactly; the `read_…` raise ValueError where there is no value to read.
`read_text` also reads anchors.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from recollect.memory.model import MAX_TIMESTAMP

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
    """Whether text can stand on a line as it is, and be told from JSON and from an anchor."""
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


def write_yaml_string(text: str) -> str:
    """A double-quoted YAML scalar: JSON, except that YAML escapes a character beyond U+FFFF as one."""
    return _uncarried.sub(_yaml_escape, _encode_json(text))


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
