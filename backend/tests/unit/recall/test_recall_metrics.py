"""Recall, counted by hand."""

import pytest
from recall_metrics import (
    Hit,
    Scores,
    distinct_ids,
    mean,
    percentile,
    recall_at,
    recall_within,
    reciprocal_rank,
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


def test_ids_are_laid_end_to_end_and_repeats_are_dropped_where_they_stand_again() -> None:
    assert distinct_ids(hits("ab", "bc", "a", "d")) == ["a", "b", "c", "d"]


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


def test_no_hits_recall_nothing() -> None:
    assert score([], evidence("a")) == Scores(0, 0, 0, 0, 0)


def test_a_hit_that_stands_for_no_message_takes_no_place_but_takes_tokens() -> None:
    found = [Hit("x" * 4000, ()), Hit("y", ("a",))]
    assert recall_at(found, evidence("a"), 1) == 1
    assert recall_within(found, evidence("a"), 1000) == 0


@pytest.mark.parametrize(
    ("groups", "wanted", "expected"),
    [
        (("a",), "a", 1.0),
        (("x", "a", "b"), "ab", 0.5),
        (("xyz", "a"), "a", 0.25),
        (("x", "x", "a"), "a", 0.5),
        (("x", "y"), "a", 0.0),
    ],
)
def test_the_reciprocal_rank_is_that_of_the_first_evidence_among_distinct_ids(
    groups: tuple[str, ...], wanted: str, expected: float
) -> None:
    assert reciprocal_rank(hits(*groups), evidence(wanted)) == expected


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


def test_the_budget_counts_text_that_is_returned_twice_twice() -> None:
    found = [Hit("x" * 3000, ("a",)), Hit("x" * 3000, ("a", "b"))]
    assert recall_within(found, evidence("ab"), 1000) == 0.5


def test_characters_are_counted_not_bytes() -> None:
    assert recall_within([Hit("語" * 4000, ("a",))], evidence("a"), 1000) == 1


def test_the_score_of_a_question_holds_every_count() -> None:
    found = [Hit("x" * 500, (letter,)) for letter in "abcdefghijklmnopqrstuvwxyz"]
    assert score(found, evidence("egkz")) == Scores(
        at_5=0.25, at_10=0.5, at_20=0.75, reciprocal_rank=0.2, within_budget=0.5
    )


def test_the_mean_gives_every_question_the_same_weight() -> None:
    one, other = Scores(1, 1, 1, 1, 0), Scores(0, 0.5, 1, 0.25, 0)
    assert mean([one, other]) == Scores(0.5, 0.75, 1, 0.625, 0)


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(1, 0.95, 1), (2, 0.5, 1), (3, 0.5, 2), (20, 0.95, 19), (21, 0.95, 20)]
)
def test_a_percentile_is_one_of_the_values(count: int, share: float, expected: float) -> None:
    assert percentile(range(count, 0, -1), share) == expected
