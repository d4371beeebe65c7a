"""Which messages are evidence: not those that only ask, in any script, nor those that repeat the query."""

import pytest

from recollect.domain.recall.query import asked_again, read_query, repeats, tells_of
from tests.unit.made_rows import T0, answered, corpus_of, found, remembered, said

LIVE = "Where do I live now?"


def words(query: str) -> frozenset[str]:
    return frozenset(read_query(query, T0).words)


@pytest.mark.parametrize(
    ("query", "text", "tells"),
    [
        (LIVE, "Hi! Where do I live now?", False),
        (LIVE, "Where do I live now? Thanks!", False),
        (LIVE, "Hello. Could you say where I live now?", False),
        (LIVE, "Where do I live now, please?", False),
        (LIVE, "I live in Bern now.", True),
        (LIVE, "I live in Bern now. Do you live there too?", True),
        (LIVE, "I live in Bern, do you like it?", True),
        ("Which pet do I have?", "We brought home a puppy called Rex yesterday. A nice pet, no?", True),
        ("我现在住在哪里？", "你好。我现在住在哪里？", False),  # noqa: RUF001
        ("我现在住在哪里？", "我现在住在伯尔尼。你呢？", True),  # noqa: RUF001
        ("أين أعيش الآن؟", "مرحبا. أين أعيش الآن؟", False),
        ("Ո՞րտեղ եմ ապրում", "Ո՞րտեղ եմ ապրում", False),
    ],
)
def test_a_message_that_only_asks_for_what_is_asked_tells_nothing(query: str, text: str, tells: bool) -> None:
    assert tells_of(text, words(query)) is tells


@pytest.mark.parametrize(
    ("text", "is_repeated"),
    [
        ("where do i live now", True),
        ("So, where do I live now", True),
        ("I live in Bern now", False),
        ("Now I do live where the river is", False),
    ],
)
def test_a_message_that_is_almost_the_query_repeats_it(text: str, is_repeated: bool) -> None:
    assert repeats(text, LIVE) is is_repeated


@pytest.mark.parametrize(
    ("query", "statement"),
    [
        ("Is Marta a nurse in Porto?", "Marta is a nurse in Porto"),
        ("What is the name of my dog?", "The name of my dog is Rex"),
    ],
)
def test_an_answer_in_the_words_of_its_question_is_no_repetition(query: str, statement: str) -> None:
    assert not repeats(statement, query)
    assert asked_again(statement, query, words(query)) == 0


def test_a_question_counts_the_less_the_more_it_asks_what_the_query_asks() -> None:
    same, other = LIVE, "Where do I live now, and what does the house of my sister in Porto cost?"
    assert asked_again(same, LIVE, words(LIVE)) == 1
    assert 0 < asked_again(other, LIVE, words(LIVE)) < 0.5


def test_a_statement_comes_before_a_question_that_has_more_of_the_query() -> None:
    rows = (
        said(1, "Hi! Where do I live now?"),
        answered(2, "Let me think."),
        said(3, "We live in Bern since May"),
        said(4, "Where do I live now? Thanks!"),
        remembered("fa-1", "Ann lives in Bern", "t1:3"),
    )
    first, *others = [hit.row.row_id for hit in found(corpus_of(rows), LIVE)]
    assert (first, sorted(others)) == ("fa-1", ["t1:1", "t1:4"])


def test_where_people_talk_to_each_other_a_question_keeps_its_place() -> None:
    rows = (said(1, "What got you into running?", "Bob"), said(2, "My doctor did", "Ann"))
    hits = found(corpus_of(rows), "What got Ann into running?")
    assert [hit.why.get("question") for hit in hits] == [None, None]
    assert any("question" in hit.why for hit in found(corpus_of(rows[:1]), "What got Ann into running?"))
