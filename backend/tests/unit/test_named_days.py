"""What a model says of "yesterday" tells the day, and is still held to be said."""

import json

import pytest

from recollect.domain.extraction.answer import parse_memcell_answer
from recollect.domain.extraction.grounding import ground
from tests.unit.made_cells import NOON, cell_of, said, turn_of

DAY = 86_400_000


@pytest.mark.parametrize(
    ("words", "text", "told"),
    [
        ("I went to Rome yesterday.", "Ann went to Rome yesterday.", "Ann went to Rome on 7 May 2026."),
        ("I fly to Rome tomorrow.", "Tomorrow Ann flies to Rome.", "On 9 May 2026 Ann flies to Rome."),
        ("I need it by tomorrow.", "Ann needs it by tomorrow.", "Ann needs it by 9 May 2026."),
        ("I ran 5 km yesterday morning.", "Ann ran 5 km yesterday morning.", "Ann ran 5 km on the morning of 7 May 2026."),
        ("I liked yesterday's film Alien.", "Ann liked yesterday's film Alien.", "Ann liked yesterday's film Alien."),
        ("我昨天去了罗马。", "Ann昨天去了罗马。", "Ann2026年5月7日去了罗马。"),
    ],
)  # fmt: skip
def test_a_fact_tells_the_day(words: str, text: str, told: str) -> None:
    cell = said(words)
    fact = {"text": text, "turns": [1], "subject": "Ann", "attribute": "did", "value": ""}
    kept = ground(parse_memcell_answer(json.dumps({"facts": [fact]}), cell), cell)
    assert ([draft.text for draft in kept.drafts], kept.refused) == ([told], ())


def test_what_was_said_on_several_days_stays_as_it_is() -> None:
    cell = cell_of(
        turn_of(1, "user", "I went to Rome yesterday."), turn_of(2, "user", "To Rome, yes.", at=NOON + DAY)
    )
    fact = {"text": "Ann went to Rome yesterday.", "turns": [1, 2]}
    (draft,) = parse_memcell_answer(json.dumps({"facts": [fact]}), cell).drafts
    assert draft.text == "Ann went to Rome yesterday."


def test_at_the_end_of_all_times_there_is_no_tomorrow() -> None:
    cell = cell_of(turn_of(1, "user", "I go tomorrow.", at=253_402_300_799_000))
    (draft,) = parse_memcell_answer(
        json.dumps({"facts": [{"text": "Ann goes tomorrow.", "turns": [1]}]}), cell
    ).drafts
    assert draft.text == "Ann goes tomorrow."
