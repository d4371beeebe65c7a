"""Long texts as JSON are the same bytes, written in pieces."""

import json
from typing import Any

import pytest

from recollect.domain.long_texts import LONG, json_text

LONG_TEXT = 'say "hi"\\ \n\x01 年月 \U0001f600' * (LONG // 8)


@pytest.mark.parametrize(
    "encoder",
    [
        json.JSONEncoder(ensure_ascii=False),
        json.JSONEncoder(ensure_ascii=False, separators=(",", ":")),
        json.JSONEncoder(sort_keys=True),
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        {"b": [LONG_TEXT, 1, None], "a": {"parts": ({"text": LONG_TEXT},)}, "short": ["x"], "none": {}},
        [{"role": "user", "content": "x" * (LONG // 4)}] * 9,
        "short",
    ],
    ids=["long texts", "many texts", "a short text"],
)
def test_a_long_text_is_written_as_json_writes_it(value: Any, encoder: json.JSONEncoder) -> None:
    assert json_text(value, encoder) == encoder.encode(value)
