"""Recall, counted by hand."""

import pytest
from recall_metrics import (
    Hit,
    Scores,
    recall_at,
    recall_within,
    score,
)


def hits(*groups: str) -> list[Hit]:
    """One hit a group; its letters are the ids of its messages."""
    return [Hit("some text", tuple(group)) for group in groups]


def sized(*lengths: int) -> list[Hit]:
    """One hit a length, for the messages a, b, c, …"""
    return [Hit("x" * length, (chr(ord("a") + number),)) for number, length in enumerate(lengths)]


def evidence(letters: str) -> frozenset[str]:
    return frozenset(letters)


@pytest.mark.parametrize(
    ("groups", "wanted", "places", "expected"),
    [
        (("abcde", "f"), "f", 5, 0.0),
        (("abcde", "f"), "f", 6, 1.0),
        (("a", "bcd"), "cd", 3, 0.5),
        (("ab", "ab", "ba", "c"), "c", 3, 1.0),
        (("aab",), "ab", 2, 1.0),
        (("a", "x", "y", "z"), "abcd", 10, 0.25),
    ],
    ids=["five places", "six places", "cut within a hit", "repeats", "named twice", "share of the evidence"],
)
def test_recall_is_the_share_of_the_evidence_among_the_first_distinct_ids(
    groups: tuple[str, ...], wanted: str, places: int, expected: float
) -> None:
    assert recall_at(hits(*groups), evidence(wanted), places) == expected


def test_a_hit_that_stands_for_no_message_takes_no_place_but_takes_tokens() -> None:
    found = [Hit("x" * 4000, ()), Hit("y", ("a",))]
    assert recall_at(found, evidence("a"), 1) == 1
    assert recall_within(found, evidence("a"), 1000) == 0


@pytest.mark.parametrize(
    ("lengths", "wanted", "expected"),
    [
        ((2000, 2000), "ab", 1.0),
        ((2000, 2001), "ab", 0.5),
        ((100, 4000, 1), "c", 0.0),
        ((4001, 1), "ab", 0.0),
        ((4000, 0), "b", 1.0),
    ],
    ids=["fits exactly", "one too many", "none after the first that is too long", "first too long", "empty"],
)
def test_a_budget_ends_at_the_first_hit_that_does_not_fit(
    lengths: tuple[int, ...], wanted: str, expected: float
) -> None:
    assert recall_within(sized(*lengths), evidence(wanted), 1000) == expected


def test_the_score_of_a_question_holds_every_count() -> None:
    found = [Hit("x" * 500, (letter,)) for letter in "abcdefghijklmnopqrstuvwxyz"]
    assert score(found, evidence("egkz")) == Scores(
        at_5=0.25, at_10=0.5, at_20=0.75, reciprocal_rank=0.2, within_budget=0.5
    )
