"""Entries in the ranking: they bring their turns along, and change nothing else."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.entries.entry import EPISODES
from recollect.domain.recall.rows import IndexRow
from recollect.domain.recall.weights import Weights
from tests.unit.made_rows import MINUTE, T0, corpus_of, remembered, said, scores_of, unit

DAY = 24 * 60 * MINUTE
TALK = (
    said(1, "We moved there in spring"),
    said(2, "The weather is fine", "Bob"),
    said(9, "Lisbon has hills", thread="t2"),
    said(1, "Else", thread="t3"),
)
MOVE = remembered("fa-1", "Ann lives in Lisbon since March 2023", "t1:1")


def total(rows: tuple[IndexRow, ...], query: str, row_id: str, **given: object) -> float:
    corpus = corpus_of(rows)
    return float(scores_of(corpus, query, **given).total[corpus.places[row_id]])  # type: ignore[arg-type]


def test_an_entry_brings_the_turns_along_that_it_came_from() -> None:
    before, after = (total(rows, "Lisbon", "t1:1") for rows in (TALK, (*TALK, MOVE)))
    assert after > before
    corpus = corpus_of((*TALK, MOVE))
    assert scores_of(corpus, "Lisbon").why(corpus.places["t1:1"])["brought"] > 0


def test_a_turn_that_no_entry_came_from_is_not_brought() -> None:
    for other in ("t1:2", "t2:9", "t3:1"):
        assert total(TALK, "Lisbon", other) == total((*TALK, MOVE), "Lisbon", other)


def test_without_its_weight_nothing_is_brought() -> None:
    unbrought = replace(Weights(), brought=0)
    for row in TALK:
        assert total((*TALK, MOVE), "Lisbon", row.row_id, weights=unbrought) == total(
            TALK, "Lisbon", row.row_id
        )


_entries = st.lists(
    st.builds(
        lambda number, text, turn: remembered(f"fa-{number}", text, turn),
        st.integers(0, 50),
        st.text("aLisbon hills", min_size=1, max_size=20),
        st.sampled_from(["t1:1", "t1:2", "t2:9", "t9:1"]),
    ),
    max_size=8,
    unique_by=lambda row: row.row_id,
)


@given(_entries, st.sampled_from(["Lisbon hills", "weather", "When was it fine?"]))
def test_turns_score_the_same_with_entries_and_without_but_for_what_is_brought(
    entries: list[IndexRow], query: str
) -> None:
    vectors = {row.row_id: unit(1, n, 2) for n, row in enumerate((*TALK, *entries))}
    alone = corpus_of(TALK, {row.row_id: vectors[row.row_id] for row in TALK})
    asked, unbrought = unit(1, 1, 0), replace(Weights(), brought=0)
    plain = scores_of(alone, query, asked).total
    together = scores_of(corpus_of((*TALK, *entries), vectors), query, asked, unbrought).total
    assert together[: len(TALK)] == pytest.approx(plain, abs=1e-5)


def test_an_episode_points_at_none_of_its_turns() -> None:
    episode = replace(MOVE, row_id="ep-1", type=EPISODES)
    assert total((*TALK, episode), "Lisbon", "t1:1") == total(TALK, "Lisbon", "t1:1")


def test_what_is_superseded_comes_below_what_holds() -> None:
    old = remembered("fa-2", "Ann lives in Berlin", "t1:2", until=T0 + DAY)
    new = remembered("fa-3", "Ann lives in Lisbon", "t1:1", timestamp=T0 + DAY)
    rows, later = (*TALK, old, new), T0 + 2 * DAY
    assert total(rows, "Where does Ann live?", "fa-3", now=later) > total(
        rows, "Where does Ann live?", "fa-2", now=later
    )


def test_what_is_superseded_later_than_asked_holds_still() -> None:
    old = remembered("fa-2", "Ann lives in Berlin", "t1:2", until=T0 + DAY)
    corpus = corpus_of((*TALK, old))
    assert "validity" not in scores_of(corpus, "Berlin", now=T0).why(corpus.places["fa-2"])
    assert scores_of(corpus, "Berlin", now=T0 + DAY).why(corpus.places["fa-2"])["validity"] < 0


def test_what_held_at_the_time_that_is_named_comes_first() -> None:
    old = remembered("fa-2", "Ann lives in Berlin", "t1:2", timestamp=T0 - 300 * DAY, until=T0)
    new = remembered("fa-3", "Ann lives in Lisbon", "t1:1", timestamp=T0)
    rows, query = (*TALK, old, new), "Where did Ann live in February 2023?"
    assert total(rows, query, "fa-2", now=T0 + DAY) > total(rows, query, "fa-3", now=T0 + DAY)


def test_what_is_superseded_holds_its_turns_back() -> None:
    old = replace(MOVE, until=T0)
    assert total((*TALK, old), "Lisbon", "t1:1", now=T0 + DAY) < total(TALK, "Lisbon", "t1:1", now=T0 + DAY)


def test_a_turn_is_not_held_back_by_what_is_superseded_where_another_of_its_entries_answers() -> None:
    old = replace(MOVE, row_id="fa-9", until=T0)
    rows = (*TALK, MOVE)
    assert total((*rows, old), "Lisbon", "t1:1", now=T0 + DAY) >= total(rows, "Lisbon", "t1:1", now=T0 + DAY)


def test_what_holds_comes_before_what_has_the_place_of_another_fact_of_its_turn() -> None:
    turns = (said(1, "My friend Eve is a vet in Linz and has a dog"), said(2, "Eve works in Salzburg"))
    dog = remembered("fa-1", "Eve, a friend of Ann, has a dog", "t1:1")
    old = remembered(
        "fa-2", "Eve, a friend of Ann, is a vet in Linz", "t1:1", until=T0 + DAY, superseded_by="fa-3"
    )
    new = remembered("fa-3", "Eve, a friend of Ann, is a vet in Salzburg", "t1:2", timestamp=T0 + DAY)
    rows, query = (*turns, dog, old, new), "Which dog does my friend Eve have?"
    assert total(rows, query, "fa-1", now=T0 + 2 * DAY) > total(rows, query, "fa-3", now=T0 + 2 * DAY)


@pytest.mark.parametrize(
    ("query", "now", "first"),
    [
        ("Where does Ann live?", T0 + 2 * DAY, "t1:2"),
        ("Where did Ann live in April 2023?", T0 + 2 * DAY, "t1:1"),
        ("Where does Ann live?", T0 - 10 * DAY, "t1:1"),
    ],
    ids=["now", "at a time that is named", "asked earlier"],
)
def test_of_two_turns_the_one_comes_first_whose_fact_held_then(query: str, now: int, first: str) -> None:
    turns = (
        said(1, "I live in Berlin", timestamp=T0 - 60 * DAY),
        said(2, "I live in Lisbon", timestamp=T0),
        said(1, "Else", thread="t3"),
    )
    old = remembered("fa-2", "Ann lives in Berlin", "t1:1", timestamp=T0 - 60 * DAY, until=T0)
    new = remembered("fa-3", "Ann lives in Lisbon", "t1:2", timestamp=T0)
    ranked = sorted(("t1:1", "t1:2"), key=lambda turn: -total((*turns, old, new), query, turn, now=now))
    assert ranked[0] == first


def test_what_a_person_pinned_comes_first_of_what_answers() -> None:
    tea, coffee = (remembered(f"fa-{word}", f"Ann likes {word}", "t1:2") for word in ("tea", "coffee"))
    rows = (*TALK, tea, replace(coffee, pinned=True))
    assert total(rows, "What does Ann like?", "fa-coffee") > total(rows, "What does Ann like?", "fa-tea")
    assert total(rows, "tea", "fa-tea") > total(rows, "tea", "fa-coffee")


def test_the_parts_of_entries_and_of_what_they_bring_add_up() -> None:
    corpus = corpus_of((*TALK, MOVE, replace(MOVE, row_id="fa-9", until=T0 - 1)))
    scores = scores_of(corpus, "Where was Lisbon in May 2023?", now=T0)
    for place in range(len(corpus)):
        assert sum(scores.why(place).values()) == pytest.approx(float(scores.total[place]), abs=1e-3)


def test_a_corpus_of_entries_alone_is_ranked() -> None:
    other = remembered("fa-2", "Ann likes tea")
    corpus = corpus_of((replace(MOVE, sources=()), other), {"fa-1": unit(1, 0), "fa-2": unit(0, 1)})
    scores = scores_of(corpus, "Lisbon", unit(1, 0))
    assert np.isfinite(scores.total).all()
    assert scores.total[corpus.places["fa-1"]] > scores.total[corpus.places["fa-2"]]


def test_a_turn_that_comes_after_its_entry_is_brought_all_the_same() -> None:
    late = corpus_of((MOVE, *TALK))
    early = corpus_of((*TALK, MOVE))
    assert scores_of(late, "Lisbon").total[late.places["t1:1"]] == pytest.approx(
        float(scores_of(early, "Lisbon").total[early.places["t1:1"]])
    )


def test_an_entry_that_goes_brings_nothing_any_more() -> None:
    corpus = corpus_of((*TALK, MOVE))
    corpus.extend([], [], ["fa-1"])
    assert scores_of(corpus, "Lisbon").total[0] == pytest.approx(total(TALK, "Lisbon", "t1:1"))


HOMES = (
    remembered("fa-2", "bob lives in Berlin", "t1:1", until=T0 + DAY, superseded_by="fa-3"),
    remembered("ep-2", "8 May. bob: I live in Berlin now", "t1:1", kind=EPISODES),
    remembered("fa-3", "bob lives in Lisbon", "t2:1", timestamp=T0 + DAY),
)


class TestOfTwoThatSaidTheSameOfDifferentTimes:
    @pytest.mark.parametrize(
        ("old", "new", "query"),
        [
            ("I live in Berlin", "I live in Lisbon these days with a dog", "Where do I live?"),
            ("We live in Berlin, I live well, we live long", "I live in Lisbon", "live"),
        ],
    )
    def test_the_turn_of_what_holds_comes_first_however_well_the_words_of_the_other_fit(
        self, old: str, new: str, query: str
    ) -> None:
        turns = (said(1, old), said(1, new, thread="t2"), said(1, "Else", thread="t3"))
        rows, later = (*turns, *HOMES), T0 + 2 * DAY
        assert total(rows, query, "t2:1", now=later) > total(rows, query, "t1:1", now=later)

    def test_an_episode_does_not_make_up_for_a_fact_that_holds_no_more(self) -> None:
        turns = (said(1, "I live in Berlin"), said(1, "Else", thread="t3"))
        rows = (*turns, *HOMES[:2])
        corpus = corpus_of(rows)
        found = scores_of(corpus, "Where do I live?", now=T0 + 2 * DAY)
        assert found.why(corpus.places["t1:1"])["brought"] < 0

    def test_a_query_that_is_about_the_old_one_alone_finds_that_first(self) -> None:
        turns = (said(1, "I live in Berlin"), said(1, "I live in Lisbon", thread="t2"))
        rows, later = (*turns, *HOMES), T0 + 2 * DAY
        assert total(rows, "Berlin", "t1:1", now=later) > total(rows, "Berlin", "t2:1", now=later)


class TestOfSeveralInARow:
    """Berlin, then Lisbon, then Porto: only neighbours name each other."""

    TURNS = tuple(
        said(1, text, thread=f"t{place}")
        for place, text in enumerate(
            ("I live well, I live in Berlin", "I am in Lisbon", "I live in Porto"), 1
        )
    )
    ROWS = (
        *TURNS,
        remembered("fa-1", "bob lives in Berlin", "t1:1", until=T0 + 40 * DAY, superseded_by="fa-2"),
        remembered(
            "fa-2",
            "bob is in Lisbon",
            "t2:1",
            timestamp=T0 + 40 * DAY,
            until=T0 + 80 * DAY,
            superseded_by="fa-3",
        ),
        remembered("fa-3", "bob lives in Porto", "t3:1", timestamp=T0 + 80 * DAY),
    )
    NOW = T0 + 100 * DAY

    def test_the_last_comes_before_the_first_too(self) -> None:
        query = "Where do I live well?"
        assert total(self.ROWS, query, "t3:1", now=self.NOW) > total(self.ROWS, query, "t1:1", now=self.NOW)

    def test_a_month_without_a_year_is_the_last_one_of_that_name(self) -> None:
        began = datetime.fromtimestamp((T0 + 10 * DAY) / 1000, UTC)
        query = f"Where did I live in {began:%B}?"
        first, last = (total(self.ROWS, query, each, now=self.NOW) for each in ("t1:1", "t3:1"))
        assert first > last


class TestOfWhatNeverHeld:
    PERSONS = replace(
        remembered("fa-1", "bob lives in Potsdam", "t1:1", timestamp=T0 + 40 * DAY), edited=True
    )
    LATER = remembered(
        "fa-2",
        "bob lives in Lisbon",
        "t2:1",
        timestamp=T0 + 80 * DAY,
        until=T0 + 40 * DAY,
        superseded_by="fa-1",
    )

    @pytest.mark.parametrize("now", [T0, T0 + 50 * DAY, T0 + 90 * DAY])
    @pytest.mark.parametrize("when", ["", " in 2023", " in 2024"])
    def test_it_comes_below_what_a_person_wrote_whenever_is_asked_about(self, now: int, when: str) -> None:
        turns = (said(1, "I live in Berlin"), said(1, "I live in Lisbon", thread="t2"))
        rows, query = (*turns, self.PERSONS, self.LATER), f"Where does bob live{when}?"
        persons, others = total(rows, query, "fa-1", now=now), ("fa-2", "t1:1", "t2:1")
        assert all(persons > total(rows, query, other, now=now) for other in others)
