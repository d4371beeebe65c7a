"""JSON as models write it: with prose or a fence around it, a comma too many, or cut off in the middle."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from recollect.domain.model import JsonObject

MAX_ANSWER = 200_000
"""Of a longer answer, this much is read."""
_MOST_STARTS = 200
_MOST_DEPTH = 12
_LONGEST_NUMBER = 40

_space = re.compile(r"[\s,]*+").match
_blank = re.compile(r"\s*+").match
_string = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL).match
_number = re.compile(r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?").match
_word = re.compile(r"[A-Za-z]++").match
_start = re.compile(r"[{\[]").search
_thought = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE).match
_thought_ends = re.compile(r"</think(?:ing)?>", re.IGNORECASE).search
_WORDS = {"true": True, "false": False, "null": None, "none": None, "nan": None, "infinity": None}


@dataclass(frozen=True, slots=True)
class Found:
    """An object in an answer."""

    value: JsonObject
    cut_off_in: str | None = None
    """The key in whose value the answer ends; the value holds what is complete. None for a whole answer."""


def find_object(text: str, keys: Collection[str]) -> Found:
    """The last object that has one of the keys, whatever stands around it; one that is cut off as far as it goes.

    Raises ValueError, in words that never quote the text, where there is none. Takes time in proportion to the text.
    """
    is_whole = len(text) <= MAX_ANSWER
    text = _without_thoughts(text[:MAX_ANSWER])
    best: Found | None = None
    problem: str | None = None
    position = 0
    for _ in range(_MOST_STARTS):
        start = _start(text, position)
        if start is None:
            break
        reader = _Reader(text, start.start())
        try:
            value = reader.value(0)
        except ValueError as error:
            problem = str(error)
            position = max(reader.position, start.end())
            continue
        position = max(reader.position, start.end())
        found = _object_with(value, keys)
        if found is not None:
            best = Found(found, reader.cut_off_in if reader.is_cut_off else None)
    if best is None:
        if not is_whole:
            raise ValueError(f"the answer has more than {MAX_ANSWER:,} characters")
        raise ValueError(problem or "the answer holds no JSON object")
    return best


def _without_thoughts(text: str) -> str:
    """What was answered, without what was thought aloud before it."""
    ends = _thought_ends(text)
    if _thought(text):
        return text[ends.end() :] if ends else ""
    start = _start(text)
    # Some templates open the thought themselves, so that only its end is seen.
    return text[ends.end() :] if ends and (start is None or ends.start() < start.start()) else text


def _object_with(value: Any, keys: Collection[str]) -> JsonObject | None:
    """The value itself, the one object in a list, or the one in an object."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    for candidate in (value, *(value.values() if isinstance(value, dict) and len(value) == 1 else ())):
        if isinstance(candidate, dict):
            lowered = {str(key).strip().lower(): each for key, each in candidate.items()}
            if not lowered.keys().isdisjoint(keys):
                return lowered
    return None


class _Reader:
    """Reads one value. Where the text ends before it, what is complete of its lists and outermost object is kept."""

    def __init__(self, text: str, position: int) -> None:
        self.position = position
        self.is_cut_off = False
        self.cut_off_in = ""
        self._text = text

    def value(self, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            raise ValueError("the answer is nested too deeply")
        self._skip(_blank)
        first = self._text[self.position : self.position + 1]
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._list(depth)
        if first == '"':
            return self._string()
        return self._scalar()

    def _object(self, depth: int) -> JsonObject:
        self.position += 1
        found: JsonObject = {}
        while True:
            self._skip(_space)
            if self._take("}"):
                return found
            if self._at_end():
                return found
            if not self._text.startswith('"', self.position):
                raise ValueError("the answer is not JSON: a key is not in quotes")
            key = self._string()
            self._skip(_blank)
            if self._at_end():
                return found
            if not self._take(":"):
                raise ValueError("the answer is not JSON: no colon follows a key")
            value = self.value(depth + 1)
            if self._at_end(inside=False):
                self.cut_off_in = str(key) if depth <= 1 else self.cut_off_in
                if isinstance(value, list) and depth <= 1:
                    found[key] = value
                return found
            found[key] = value

    def _list(self, depth: int) -> list[Any]:
        self.position += 1
        found: list[Any] = []
        while True:
            self._skip(_space)
            if self._take("]"):
                return found
            if self._at_end():
                return found
            value = self.value(depth + 1)
            if self._at_end(inside=False):
                # Of a list around the answer, the answer counts as far as it goes; an item counts whole or not at all.
                return [value] if depth == 0 and not found else found
            found.append(value)

    def _string(self) -> Any:
        match = _string(self._text, self.position)
        if match is None:
            self.position, self.is_cut_off = len(self._text), True
            return ""
        self.position = match.end()
        try:
            return json.loads(match[0], strict=False)
        except ValueError:
            raise ValueError("the answer is not JSON: a text holds an escape that is none") from None

    def _scalar(self) -> Any:
        if match := _number(self._text, self.position):
            self.position = match.end()
            self._at_end()
            return _as_number(match[0])
        if match := _word(self._text, self.position):
            self.position = match.end()
            if not self._at_end() and match[0].lower() not in _WORDS:
                raise ValueError("the answer is not JSON: a text is not in quotes")
            return _WORDS.get(match[0].lower())
        if self._at_end() or self._text[self.position :].strip() in ("-", "+", "."):
            self.position, self.is_cut_off = len(self._text), True
            return None
        raise ValueError("the answer is not JSON: a value is missing")

    def _skip(self, pattern: Any) -> None:
        self.position = pattern(self._text, self.position).end()

    def _take(self, character: str) -> bool:
        found = self._text.startswith(character, self.position)
        self.position += found
        return found

    def _at_end(self, *, inside: bool = True) -> bool:
        """Whether the text has ended in the middle of a value; `inside` says that one is open here."""
        if inside and self.position >= len(self._text):
            self.is_cut_off = True
        return self.is_cut_off


def _as_number(written: str) -> int | float | None:
    if len(written) > _LONGEST_NUMBER:
        raise ValueError("the answer holds a number that is too long")
    number = float(written)
    if number in (float("inf"), float("-inf")):
        return None
    return int(number) if number.is_integer() else number
