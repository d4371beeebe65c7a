"""JSON as models write it: with prose or a fence around it, malformed, or cut off in the middle."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import json_repair

from recollect.domain.model import JsonObject

MAX_ANSWER = 200_000
"""Of a longer answer, this much is read."""
_MAX_REPAIRED = 12_000
"""More than a model may answer. `json_repair` takes quadratic time for some texts."""
_MOST_STARTS = 200
_MOST_DEPTH = 12
_LONGEST_NUMBER = 40

_start = re.compile(r"[{\[]").search
_token = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[{}\[\],:]', re.DOTALL).finditer
_thought = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE).match
_thought_ends = re.compile(r"</think(?:ing)?>", re.IGNORECASE).search


@dataclass(frozen=True, slots=True)
class Found:
    """An object in an answer."""

    value: JsonObject
    cut_off_in: str | None = None
    """The key in whose value the answer ends; the value holds what is complete. None for a whole answer."""


def find_object(text: str, keys: Collection[str]) -> Found:
    """The last JSON object with one of the keys, whatever surrounds it. A truncated one keeps its complete values.

    Raises ValueError, in words that never quote the text, where there is none.
    """
    is_whole = len(text) <= MAX_ANSWER
    text = _without_thoughts(text[:MAX_ANSWER])
    found = _well_formed(text, keys) or _repaired(text, keys)
    if found is None and not is_whole:
        raise ValueError(f"the answer has more than {MAX_ANSWER:,} characters")
    if found is None:
        raise ValueError("the answer holds no JSON object that was asked for")
    return found


def _without_thoughts(text: str) -> str:
    """What was answered, without what was thought aloud before it."""
    ends = _thought_ends(text)
    if _thought(text):
        return text[ends.end() :] if ends else ""
    start = _start(text)
    # Some templates open the thought themselves, so that only its end is seen.
    return text[ends.end() :] if ends and (start is None or ends.start() < start.start()) else text


def _well_formed(text: str, keys: Collection[str]) -> Found | None:
    decoder = json.JSONDecoder(strict=False, parse_int=_number, parse_float=_number, parse_constant=_nothing)
    best: Found | None = None
    position = 0
    for _ in range(_MOST_STARTS):
        if (start := _start(text, position)) is None:
            break
        try:
            value, position = decoder.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            position = max(error.pos, start.end())
            continue
        except RecursionError:
            raise ValueError("the answer is nested too deeply") from None
        if (found := _object_with(value, keys)) is not None:
            best = Found(found)
    return best


def _repaired(text: str, keys: Collection[str]) -> Found | None:
    named = "|".join(map(re.escape, keys))
    start = re.search(rf'\{{\s*["\']?(?:{named})\b', text, re.IGNORECASE) or re.search(r"\{", text)
    if start is None:
        return None
    complete, cut_off_in = _complete_part(text[start.start() :])
    if len(complete) > _MAX_REPAIRED:
        raise ValueError("the answer is not JSON")
    try:
        found = _object_with(json_repair.loads(complete), keys)
    except (ValueError, RecursionError):
        raise ValueError("the answer is not JSON") from None
    return None if found is None else Found(found, cut_off_in)


def _complete_part(text: str) -> tuple[str, str | None]:
    """The object that the text begins with; where it is cut off, up to its last complete item, and in which key."""
    depth, complete, key, string = 0, 0, "", ""
    for token in _token(text):
        match token[0]:
            case "{" | "[":
                depth += 1
                if depth > _MOST_DEPTH:
                    raise ValueError("the answer is nested too deeply")
                complete = token.end() if depth <= 2 else complete
            case "}" | "]":
                depth -= 1
                if depth <= 0:
                    return text[: token.end()], None
                complete = token.end() if depth <= 2 else complete
            case ",":
                complete = token.start() if depth == 1 else complete
            case ":":
                key = string if depth == 1 else key
            case _:
                string = token[0].strip('"')
    return text[:complete], key


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


def _number(written: str) -> int | float | None:
    if len(written) > _LONGEST_NUMBER:
        raise ValueError("the answer holds a number that is too long")
    number = float(written)
    if number in (float("inf"), float("-inf")):
        return None
    return int(number) if number.is_integer() else number


def _nothing(name: str) -> None:
    """For Infinity and NaN."""
