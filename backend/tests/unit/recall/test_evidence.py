"""Which messages are evidence: not those that only ask, in any script, nor those that repeat the query."""

import pytest

from recollect.domain.recall.query import asked_again, is_bare_question, read_query, repeats, tells_of
from recollect.domain.recall.weights import Weights
from tests.unit.made_rows import T0, answered, corpus_of, found, remembered, said, unit

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
    assert asked_again(statement, query, words(query), asks=True) == 0


def test_a_question_counts_the_less_the_more_it_asks_what_the_query_asks() -> None:
    same, other = LIVE, "Where do I live now, and what does the house of my sister in Porto cost?"
    assert asked_again(same, LIVE, words(LIVE), asks=True) == 1
    assert 0 < asked_again(other, LIVE, words(LIVE), asks=True) < 0.5


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


@pytest.mark.parametrize(
    ("text", "is_bare"),
    [
        ("Where do I work?", True),
        ("Hi! What is my daughter's name?", True),
        ("我现在住在哪里？", True),  # noqa: RUF001
        ("أين أعيش الآن؟", True),
        ("I have a dog, where is a park?", False),
        ("How do I set up alerts in GA4 to notify me when bounce rates go above 40%?", False),
        ("I work at Siemens.", False),
    ],
)
def test_a_short_question_is_bare_in_any_script_and_one_that_tells_of_something_is_not(
    text: str, is_bare: bool
) -> None:
    assert is_bare_question(text) is is_bare


MEANINGS = {
    "t1:1": unit(0.3, 1, 0, 0),
    "fa-1": unit(0.5, 1, 0, 0),
    "t2:1": unit(1, 0, 0, 0),
    "t2:2": unit(0, 0, 0, 1),
    "t3:1": unit(0.9, 0, 0.1, 0),
    "t3:2": unit(0, 0, 0, 1),
}


class TestOwnQuestions:
    """The fact's message has none of the query's words; the questions, and their answers, mean the same as the query."""

    TOLD = (said(1, "We moved to Bern last week"), remembered("fa-1", "Ann lives in Bern", "t1:1"))
    ASKED = (
        said(1, LIVE, thread="t2"),
        answered(2, "I don't know that.", thread="t2"),
        said(1, "Which town is mine?", thread="t3"),
        answered(2, "I can't tell.", thread="t3"),
    )

    def test_they_come_behind_whatever_tells_something(self) -> None:
        corpus = corpus_of((*self.TOLD, *self.ASKED), MEANINGS)
        hits = found(corpus, LIVE, vector=MEANINGS["t2:1"])
        assert hits[0].row.row_id == "fa-1"
        assert {hit.row.row_id for hit in hits[-2:]} == {"t2:1", "t3:1"}

    def test_they_come_behind_the_best_statement_where_the_query_is_no_question(self) -> None:
        corpus = corpus_of((*self.TOLD, *self.ASKED), MEANINGS)
        first, second, *_ = found(corpus, "Tell me of the town where I live", vector=MEANINGS["t3:1"])
        assert (first.row.row_id, second.row.row_id) == ("fa-1", "t3:1")

    def test_they_come_behind_however_many_parts_of_the_score_they_have(self) -> None:
        query = "What did I eat today?"
        rows = (
            said(1, query),
            answered(2, "No idea."),
            said(3, "Bob slept well", timestamp=T0 - 9 * 86_400_000),
        )
        assert [
            hit.row.row_id
            for hit in found(
                corpus_of(rows, {"t1:1": unit(1, 0), "t1:2": unit(0, 1), "t1:3": unit(0.1, 1)}),
                query,
                vector=unit(1, 0),
            )
        ][-1] == "t1:1"

    def test_no_other_row_is_measured_by_them_or_lifted(self) -> None:
        corpus, in_full = corpus_of((*self.TOLD, *self.ASKED), MEANINGS), Weights(enough=0)
        ranked = found(corpus, LIVE, vector=MEANINGS["t2:1"], weights=in_full)
        hits = {hit.row.row_id: hit.why for hit in ranked}
        assert hits["fa-1"]["words"] == pytest.approx(in_full.words)
        assert hits["fa-1"]["meaning"] >= 0.6
        assert "near_words" not in hits["t2:2"]
        assert hits["t2:2"].get("near_meaning", 0) <= 0

    def test_they_keep_their_place_where_all_that_was_talked_about_is_wanted(self) -> None:
        corpus = corpus_of((*self.TOLD, *self.ASKED), MEANINGS)
        hits = found(corpus, "Give me a summary of where I live", vector=MEANINGS["t2:1"])
        assert all("question" not in hit.why for hit in hits)

    def test_one_that_is_sought_itself_is_found(self) -> None:
        """By its words as any other; by a question behind no more than the five best statements."""
        others = [said(place, f"Note {place} of the day") for place in range(2, 40)]
        corpus = corpus_of((said(1, "Can you book a table at Rossi?"), *others), {})
        assert found(corpus, "Rossi")[0].row.row_id == "t1:1"
        hits = found(corpus, "Where did I want a table at Rossi?")
        assert "t1:1" in [hit.row.row_id for hit in hits[:6]]

    @pytest.mark.parametrize("told", [False, True])
    def test_an_episode_in_which_they_were_only_asked_comes_behind_the_fact(self, told: bool) -> None:
        text = "Where Ann lives now: she asked it, and the assistant did not know where Ann lives now."
        sources = ("t2:1", "t2:2", "t1:1") if told else ("t2:1", "t2:2")
        rows = (*self.TOLD, *self.ASKED, remembered("ep-1", text, *sources, kind="episodes"))
        hits = found(corpus_of(rows, {**MEANINGS, "ep-1": unit(1, 0.1, 0, 0)}), LIVE, vector=MEANINGS["t2:1"])
        assert [hit.row.row_id for hit in hits[:2]] == (["ep-1", "fa-1"] if told else ["fa-1", "ep-1"])
