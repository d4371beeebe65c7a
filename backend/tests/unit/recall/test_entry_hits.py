"""Entries among the hits: where they belong, what they show, and when they would only say a turn again."""

from dataclasses import replace

import pytest

from recollect.domain.entries.entry import PROFILE
from recollect.domain.recall.hits import Hit, Ranked, Scope, Selection
from recollect.domain.recall.query import read_query
from recollect.domain.recall.rows import IndexRow
from tests.unit.made_rows import T0, corpus_of, found, remembered, said, scores_of

TALK = (
    said(1, "My sister moved to Porto last week", tags=("home",)),
    said(2, "She is a nurse there", tags=("home",)),
    said(1, "Porto is rainy", "Bob", thread="t2", agent_id="tutor", tags=("work",)),
)
JOB = remembered("fa-1", "Marta works as a nurse in Porto since May 2023", "t1:1", "t1:2", sender="Marta")
MOVE = remembered("fa-2", "Ann's sister moved to Porto", "t1:1")


def hits(*entries: IndexRow, **scope: object) -> dict[str, Hit]:
    selection = Selection(scope=Scope(**scope))  # type: ignore[arg-type]
    return {hit.row.row_id: hit for hit in found(corpus_of((*TALK, *entries)), "Porto", selection)}


def test_an_entry_has_the_messages_the_thread_and_the_tags_of_its_turns() -> None:
    hit = hits(JOB, types=frozenset(["fact"]))["fa-1"]
    assert hit.message_ids == ["t1-m1", "t1-m2"]
    assert (hit.row.thread_id, hit.row.tags, hit.text) == ("t1", ("home",), JOB.text)


def test_an_entry_of_several_threads_is_in_none_of_them_alone() -> None:
    hit = hits(replace(JOB, sources=("t1#t-1", "t2#t-1")), types=frozenset(["fact"]))["fa-1"]
    assert (hit.row.thread_id, hit.row.agent_id) == ("", "")
    assert hit.message_ids == ["t1-m1", "t2-m1"]


@pytest.mark.parametrize("name", ["fact", "facts"])
def test_a_kind_is_asked_for_in_the_singular_and_the_plural(name: str) -> None:
    assert hits(JOB, types=frozenset([name])).keys() == {"fa-1"}


def test_an_entry_that_says_a_turn_again_gives_way_to_it() -> None:
    assert hits(MOVE).keys() == {"t1:1", "t2:1"}


def test_an_entry_that_says_a_turn_again_is_shown_where_it_is_asked_for() -> None:
    assert hits(MOVE, types=frozenset(["turn", "fact"])).keys() == {"t1:1", "t2:1", "fa-2"}


@pytest.mark.parametrize("mark", ["edited", "pinned"])
def test_an_entry_that_a_person_wrote_or_pinned_gives_way_to_no_turn(mark: str) -> None:
    assert hits(replace(MOVE, **{mark: True})).keys() == {"t1:1", "t2:1", "fa-2"}  # type: ignore[arg-type]


def test_an_entry_that_says_more_than_its_turns_stands_beside_them() -> None:
    news = remembered("fa-3", "Porto became the home town of Marta Silva, a nurse by profession", "t1:2")
    assert hits(news).keys() == {"t1:1", "t1:2", "t2:1", "fa-3"}


def test_an_entry_stands_for_a_turn_that_is_out_of_scope() -> None:
    assert "fa-2" in hits(replace(MOVE, timestamp=T0 - 10), until=T0)


@pytest.mark.parametrize(
    ("scope", "is_found"),
    [
        ({"tags": frozenset(["home"])}, True),
        ({"tags": frozenset(["work"])}, False),
        ({"thread_id": "t1"}, True),
        ({"thread_id": "t2"}, False),
        ({"agent_id": "tutor"}, False),
        ({"since": T0 + 1}, False),
    ],
)
def test_an_entry_is_where_its_turns_are(scope: dict[str, object], is_found: bool) -> None:
    assert ("fa-1" in hits(JOB, types=frozenset(["facts"]), **scope)) is is_found


def test_an_untagged_profile_is_everywhere_and_a_tagged_one_is_not() -> None:
    line = remembered("pr-1", "Ann knows Porto", kind=PROFILE)
    untagged = replace(line, sources=("t3#t-1",))
    rows = (*TALK, said(1, "Hm", thread="t3"), untagged, replace(line, row_id="pr-2", sources=JOB.sources))
    selection = Selection(scope=Scope(types=frozenset(["profile"]), tags=frozenset(["work"])))
    assert [hit.row.row_id for hit in found(corpus_of(rows), "Porto", selection)] == ["pr-1"]


def test_an_entry_that_came_from_a_turn_that_is_passed_over_is_passed_over() -> None:
    corpus = corpus_of((*TALK, JOB))
    selection = Selection(scope=Scope(types=frozenset(["facts"])))
    ranked = Ranked(corpus, corpus.view(), scores_of(corpus, "Porto"), read_query("Porto", T0).words)
    assert [hit.row.row_id for hit in ranked.choose(selection).hits] == ["fa-1"]
    assert ranked.choose(selection, {corpus.places["t1:2"]}).hits == []


def test_an_entry_of_which_no_turn_is_left_is_not_shown() -> None:
    assert hits(replace(JOB, sources=("t9#t-1",)), types=frozenset(["facts"])) == {}


def test_what_a_person_wrote_without_sources_is_shown() -> None:
    assert hits(replace(JOB, sources=())).keys() >= {"fa-1"}


def test_two_entries_that_tell_the_same_are_one_hit() -> None:
    line = replace(JOB, row_id="pr-1", type=PROFILE, sources=("t2#t-1",))
    (hit,) = hits(JOB, line, types=frozenset(["facts", "profile"])).values()
    assert set(hit.message_ids) == {"t1-m1", "t1-m2", "t2-m1"}


def test_a_turn_is_found_by_the_words_of_an_entry() -> None:
    news = remembered("fa-3", "Marta is employed by Hospital São João", "t1:2")
    selection = Selection("keyword", Scope(types=frozenset(["turn"])))
    assert [hit.row.row_id for hit in found(corpus_of((*TALK, news)), "hospital", selection)] == ["t1:2"]
