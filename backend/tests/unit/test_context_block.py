"""Recalled memories stand in a prompt as quotations, one line each."""

import json

import pytest
from hypothesis import given

from recollect.domain.prompt import HEADING, Memory, memory_line, render_memories
from tests.unit.awkward_text import texts

MAY_8 = 1_778_248_980_000


def memory(text: str = "My sister Marta is moving to Porto!", **fields: object) -> Memory:
    given_fields: dict[str, object] = {
        "id": "t0:1", "digest": "d", "text": text, "sender": "Ann", "role": "user", "timestamp": MAY_8,
        "thread_id": "t0", "message_ids": ("m1",), "score": 1.0, **fields,
    }  # fmt: skip
    return Memory(**given_fields)  # type: ignore[arg-type]


def test_a_memory_is_one_line_that_says_when_and_who() -> None:
    assert memory_line(memory()) == '- 2026-05-08, Ann said: "My sister Marta is moving to Porto!"'


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"role": "assistant", "sender": "gpt"}, "the assistant said"),
        ({"sender": "user"}, "the user said"),
        ({"sender": ""}, "the user said"),
        ({"type": "note", "sender": "Packing list"}, 'the note "Packing list" says'),
    ],
)
def test_it_says_who_spoke(fields: dict[str, object], said: str) -> None:
    assert f"2026-05-08, {said}: " in memory_line(memory("It rains.", **fields))


def test_a_correction_is_marked() -> None:
    assert memory_line(memory(correction=True)).startswith("- corrected: 2026-05-08, Ann said: ")


def test_all_memories_stand_under_one_heading() -> None:
    lines = render_memories([memory(), memory("It rains.")]).split("\n")
    assert lines[0] == HEADING
    assert len(lines) == 3


def test_no_memories_are_no_text() -> None:
    assert render_memories([]) == ""


@given(texts, texts)
def test_no_text_and_no_name_gets_out_of_its_line(text: str, sender: str) -> None:
    line = memory_line(memory(text, sender=sender))
    assert len(line.splitlines()) == 1
    head, _, quoted = line.partition(": ")
    assert '"' not in head
    assert json.loads(quoted).split() == text.split()
