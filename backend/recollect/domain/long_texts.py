"""Long texts as JSON, a piece at a time: one call for all of it would hold up every other thread."""

import json
from collections.abc import Iterator
from typing import Any

LONG = 256 * 1024
"""Characters. Fewer are written in less than two milliseconds."""
_PER_VALUE = 64
"""Cost of one value, in characters."""


def is_long(value: Any) -> bool:
    """Whether a JSON value holds long texts, or many values. Looks at no more of it than that takes."""
    left, waiting = LONG, [value]
    while waiting and left >= 0:
        each = waiting.pop()
        if isinstance(each, str | bytes):
            left -= len(each)
        elif isinstance(each, dict | list | tuple):
            left -= _PER_VALUE * len(each)
            waiting += each.values() if isinstance(each, dict) else each
    return left < 0


def json_text(value: Any, encoder: json.JSONEncoder) -> str:
    """What `encoder.encode` gives."""
    return "".join(_pieces(value, encoder)) if is_long(value) else encoder.encode(value)


def _pieces(value: Any, encoder: json.JSONEncoder) -> Iterator[str]:
    if not is_long(value):
        yield encoder.encode(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), LONG):
            yield encoder.encode(value[start : start + LONG])[1:-1]
        yield '"'
    elif isinstance(value, dict):
        keys = sorted(value) if encoder.sort_keys else list(value)
        for number, key in enumerate(keys):
            yield f"{encoder.item_separator if number else '{'}{encoder.encode(key)}{encoder.key_separator}"
            yield from _pieces(value[key], encoder)
        yield "}"
    else:
        for number, item in enumerate(value):
            yield encoder.item_separator if number else "["
            yield from _pieces(item, encoder)
        yield "]"
