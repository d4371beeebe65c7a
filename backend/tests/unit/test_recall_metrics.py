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


def test_a_hit_of_several_messages_uses_up_as_many_places() -> None:
    found = hits("abcde", "f")
    assert recall_at(found, evidence("f"), 5) == 0
    assert recall_at(found, evidence("f"), 6) == 1


def test_a_hit_can_be_cut_in_the_middle_by_the_last_place() -> None:
    assert recall_at(hits("a", "bcd"), evidence("cd"), 3) == 0.5


def test_a_repeat_uses_up_no_place() -> None:
    assert recall_at(hits("ab", "ab", "ba", "c"), evidence("c"), 3) == 1


def test_a_message_named_twice_by_one_hit_counts_once() -> None:
    assert recall_at(hits("aab"), evidence("ab"), 2) == 1


def test_recall_is_the_share_of_the_evidence_not_of_the_hits() -> None:
    assert recall_at(hits("a", "x", "y", "z"), evidence("abcd"), 10) == 0.25


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


def test_a_budget_that_is_used_up_exactly_still_fits() -> None:
    assert recall_within(sized(2000, 2000), evidence("ab"), 1000) == 1


def test_one_character_more_than_the_budget_does_not_fit() -> None:
    assert recall_within(sized(2000, 2001), evidence("ab"), 1000) == 0.5


def test_the_first_hit_that_does_not_fit_is_the_end_even_if_a_later_one_would() -> None:
    assert recall_within(sized(100, 4000, 1), evidence("c"), 1000) == 0


def test_a_first_hit_larger_than_the_budget_leaves_nothing() -> None:
    assert recall_within(sized(4001, 1), evidence("ab"), 1000) == 0


def test_an_empty_text_fits_into_a_budget_that_is_used_up() -> None:
    assert recall_within(sized(4000, 0), evidence("b"), 1000) == 1


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
