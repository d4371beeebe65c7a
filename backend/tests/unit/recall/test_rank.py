"""Each part of the score lifts what it should, and the score is always a number."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.hits import Selection
from recollect.domain.recall.query import read_query
from recollect.domain.recall.rank import score
from recollect.domain.recall.rows import NOTE, IndexRow, Vectors
from recollect.domain.recall.weights import Weights
from tests.unit.awkward_text import texts, unhurried
from tests.unit.made_rows import MINUTE, T0, answered, corpus_of, found, said, scores_of, unit

OFF = replace(Weights(**{each.name: 0 for each in fields(Weights)}), centred=True)  # type: ignore[arg-type]
HOUR = 60 * MINUTE
DAY_MS = 24 * HOUR


def order(
    corpus: Corpus, query: str, vector: Vectors | None = None, weights: Weights | None = None
) -> list[str]:
    total = scores_of(corpus, query, vector, weights).total
    return [corpus.rows[place].row_id for place in np.argsort(-total, kind="stable")]


def part(corpus: Corpus, name: str, query: str, **given: object) -> list[float]:
    found = scores_of(corpus, query, **given).parts.get(name)  # type: ignore[arg-type]
    return [0.0] * len(corpus) if found is None else [round(float(each), 4) for each in found]


def apart(number: int, text: str, sender: str = "Ann", **given: object) -> IndexRow:
    """A turn with no neighbours."""
    return said(number, text, sender, thread=f"t{number}", **given)


def test_a_row_that_holds_the_words_comes_before_one_that_does_not() -> None:
    assert order(corpus_of([apart(1, "The cat slept"), apart(2, "The dog slept")]), "dog")[0] == "t2:2"


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("and who are they?", "t1:1"),  # no word of its own: the message before it tells what is meant
        ("where does the tortoise sleep?", "t2:2"),  # another subject
        ("when does it eat?", "t3:3"),  # of the same subject the row with its own word
    ],
)
def test_words_of_the_exchange_before_count_less_than_the_messages_own(message: str, first: str) -> None:
    rows = [
        apart(1, "dogs bark"),
        apart(2, "the tortoise sleeps"),
        apart(3, "dogs eat"),
        apart(4, "cats purr"),
    ]
    corpus, query = (
        corpus_of(rows),
        read_query(message, T0, ("tell me about the dogs that bark", "cats purr")),
    )
    total = score(corpus, corpus.view(), query, None).total
    assert corpus.rows[int(np.argmax(total))].row_id == first


def test_meaning_finds_what_the_words_do_not() -> None:
    rows = [apart(1, "A hound barked"), apart(2, "Rain fell"), apart(3, "Snow fell")]
    vectors = {"t1:1": unit(1, 0, 0), "t2:2": unit(0, 1, 0), "t3:3": unit(0, 0, 1)}
    assert order(corpus_of(rows, vectors), "dog", unit(1, 0.1, 0))[0] == "t1:1"


def test_what_stands_beside_the_words_comes_before_what_stands_elsewhere() -> None:
    rows = [
        said(1, "Tell me of your dog"),
        said(2, "He is called Rex", "Bob"),
        apart(9, "He is called Tom", "Bob"),
    ]
    assert order(corpus_of(rows), "dog")[:2] == ["t1:1", "t1:2"]


@pytest.mark.parametrize("query", ["in May 2023", "on 13 May 2023", "2023", "in May", "2023-05-13", "today"])
def test_what_was_said_at_the_time_that_is_named_is_lifted(query: str) -> None:
    rows = [apart(1, "x"), apart(2, "x", timestamp=T0 - 500 * 24 * HOUR)]
    lifted = part(corpus_of(rows), "date", f"What did I say {query}?")
    assert lifted[0] > lifted[1] == 0


def test_the_one_who_is_named_is_lifted() -> None:
    lifted = part(corpus_of([apart(1, "x"), apart(2, "x", "Bob")]), "speaker", "What does Bob like?")
    assert lifted[1] > lifted[0] == 0


def test_nobody_is_lifted_where_nobody_is_named() -> None:
    corpus = corpus_of([apart(1, "x"), apart(2, "x", "user"), apart(3, "x", "Bob")])
    assert part(corpus, "speaker", "What does the user like?") == [0, 0, 0]


def test_a_reply_shares_in_the_score_of_what_it_replies_to_where_replies_are_asked_for() -> None:
    corpus = corpus_of([said(1, "Where is my dog?"), answered(2, "In Porto"), said(3, "Fine")])
    inherited = part(corpus, "inherited", "What did you tell me about the dog?")
    assert inherited[1] > 0
    assert inherited[0] == inherited[2] == 0
    assert part(corpus, "inherited", "dog") == [0, 0, 0]


def test_what_the_person_said_comes_before_what_the_assistant_said() -> None:
    rows = [answered(1, "Your dog is Rex"), said(2, "My dog is Rex"), apart(9, "else")]
    assert order(corpus_of(rows), "dog")[0] == "t1:2"


def test_between_people_nobody_comes_first() -> None:
    assert part(corpus_of([said(1, "My dog"), said(2, "Your dog", "Bob")]), "user", "dog") == [0, 0]


def test_a_summary_wants_the_assistant_too() -> None:
    rows = [said(1, "My dog"), answered(2, "Your dog")]
    assert part(corpus_of(rows), "user", "dog")[0] > 0
    assert part(corpus_of(rows), "user", "summary of dog") == [0, 0]


def test_a_standing_instruction_is_lifted_where_the_person_gave_it_to_an_assistant() -> None:
    text = "Always answer in French."
    rows = [said(1, text), answered(2, text), said(3, "Hello"), apart(9, text)]
    lifted = part(corpus_of(rows), "instruction", "What is the weather?")
    assert lifted[0] > 0
    assert lifted[1:] == [0, 0, 0]


TALK = [
    said(1, "Where was your dog in May 2023? Always tell."),
    said(2, "I prefer 3 dogs, last week", "Bob"),
    said(1, "Always walk my dog, I prefer that", thread="t2"),
    answered(2, "Your 2 dogs walked yesterday", thread="t2"),
    said(9, "Else", thread="t3"),
]
TALK_VECTORS = {row.row_id: unit(*(float(n == each) for each in range(6)), 0.5) for n, row in enumerate(TALK)}
ALONE = ["words", "meaning", "date", "asking", "user", "instruction", "preference", "speaker"]
ASKED = "When and how many dogs did Bob walk in May 2023, as you recommended?"


def test_with_all_weights_at_zero_nothing_counts() -> None:
    scores = scores_of(corpus_of(TALK, TALK_VECTORS), ASKED, TALK_VECTORS["t1:1"], OFF)
    assert not scores.total.any()
    assert all(scores.why(place) == {} for place in range(len(TALK)))


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        *(([name], [name]) for name in ALONE),
        (["near_people", "near_assistant"], ["near_words", "near_meaning"]),
        (["reply"], ["inherited"]),
    ],
)
def test_a_part_counts_unless_its_weights_are_zero(weights: list[str], parts: list[str]) -> None:
    corpus, vector = corpus_of(TALK, TALK_VECTORS), unit(1, 0.2, 0, 0, 0, 0, 0.1)
    without = scores_of(corpus, ASKED, vector, replace(Weights(), **dict.fromkeys(weights, 0)))  # type: ignore[arg-type]
    everything = scores_of(corpus, ASKED, vector)
    for part in parts:
        assert any(part in everything.why(place) for place in range(len(TALK)))
        assert not any(part in without.why(place) for place in range(len(TALK)))


@pytest.mark.parametrize("weights", [Weights(), replace(Weights(), centred=False), replace(OFF, words=1)])
def test_the_parts_of_every_row_add_up_to_its_score(weights: Weights) -> None:
    scores = scores_of(corpus_of(TALK, TALK_VECTORS), ASKED, unit(1, 0.2, 0, 0, 0, 0, 0.1), weights)
    for place in range(len(TALK)):
        assert sum(scores.why(place).values()) == pytest.approx(float(scores.total[place]), abs=1e-3)


def test_another_thread_leaves_the_order_within_a_thread_alone() -> None:
    rows = [said(n, text) for n, text in enumerate(["my dog Rex", "the dog", "a cat", "rain and snow"])]
    before = order(corpus_of(rows), "dog Rex")
    more = [*rows, *(said(n, f"other words {n}", "Bob", thread="t2") for n in range(40))]
    after = [each for each in order(corpus_of(more), "dog Rex") if each.startswith("t1")]
    assert before[:2] == after[:2] == ["t1:0", "t1:1"]


def test_a_note_is_ranked_beside_turns() -> None:
    note = IndexRow("n#1", NOTE, "Rex is a dog", T0, sender="Pets", path="notes/Pets.md")
    assert order(corpus_of([apart(1, "x"), note, apart(2, "y")]), "dog")[0] == "n#1"


@pytest.mark.parametrize(
    "rows", [[apart(1, "dog")], [apart(1, "dog"), apart(2, "dog")]], ids=["one row", "equal rows"]
)
def test_a_word_that_every_row_holds_is_found_all_the_same(rows: list[IndexRow]) -> None:
    assert found(corpus_of(rows), "dog", Selection("keyword"))


def test_an_embedded_match_is_not_behind_an_equal_one_that_waits_for_its_vector() -> None:
    rows = [
        apart(1, "The dog is Rex"),
        apart(2, "The dog is Rex", "Bob"),
        apart(3, "Rain"),
        apart(4, "Hound"),
    ]
    vectors = {"t1:1": unit(0.8, 0.6), "t3:3": unit(0, 1), "t4:4": unit(1, 0)}
    total = scores_of(corpus_of(rows, vectors), "dog", unit(1, 0)).total
    assert total[0] >= total[1] - 1e-5


def test_a_row_that_waits_for_its_vector_is_found_by_its_words_before_what_has_none_of_them() -> None:
    rows = [apart(1, "The dog is Rex"), apart(2, "Rain fell"), apart(3, "Snow fell")]
    vectors = {"t2:2": unit(0.7, 0.7), "t3:3": unit(0, 1)}
    assert order(corpus_of(rows, vectors), "dog", unit(1, 0))[0] == "t1:1"


_vectors = st.sampled_from([unit(1, 0, 0), unit(0, 1, 0), unit(1, 1, 1), unit(-1, 0, 0), unit(0, 0, 0)])
_queries = texts | st.sampled_from(["dog", "", "zebra", "the", "summary", ASKED])


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "dog", "ok?"]) | texts, st.none() | _vectors), min_size=1, max_size=8
    ),
    _queries,
    st.none() | _vectors,
)
@unhurried
def test_scores_are_always_numbers(
    given: list[tuple[str, Vectors | None]], query: str, vector: Vectors | None
) -> None:
    rows = [said(n, text, "Bob" if n % 2 else "Ann") for n, (text, _) in enumerate(given)]
    corpus = corpus_of(
        rows, {row.row_id: each for row, (_, each) in zip(rows, given, strict=True) if each is not None}
    )
    scores = scores_of(corpus, query, vector)
    assert np.isfinite(scores.total).all()
    assert all(np.isfinite(each).all() for each in scores.parts.values())


def test_an_empty_corpus_has_no_scores() -> None:
    assert scores_of(Corpus(), "dog").total.tolist() == []


def test_what_was_said_on_a_near_day_in_the_words_of_the_query_comes_first() -> None:
    tuesday = T0 - 4 * DAY_MS  # T0 is a Saturday.
    rows = [
        said(1, "a meeting", timestamp=tuesday - 7 * DAY_MS, thread="a"),
        said(2, "a long meeting that went on and on without end", timestamp=tuesday, thread="b"),
        said(3, "lunch", timestamp=tuesday, thread="c"),
        said(4, "the meeting", timestamp=tuesday + DAY_MS, thread="d"),
    ]
    first, *_, last = order(corpus_of(rows), "the meeting last Tuesday")
    assert (first, last) == ("b:2", "c:3")


def test_the_name_of_a_near_day_is_looked_for_where_nothing_was_said_on_it() -> None:
    corpus = corpus_of([said(1, "I saw Rex yesterday", thread="a"), said(2, "I saw Rex", thread="b")])
    later = read_query("Rex yesterday", T0 + 90 * DAY_MS)
    words = score(corpus, corpus.view(), later, None).parts["words"]
    assert words[0] > words[1]
    on_the_day = read_query("Rex yesterday", T0 + DAY_MS)
    words = score(corpus, corpus.view(), on_the_day, None).parts["words"]
    assert words[0] <= words[1]


@pytest.mark.parametrize(
    "when",
    [
        "2023-05-09",
        "on 2023-05-09",
        "on 9 May 2023",
        "9.5.2023",
        "on 05/09/2023",
        "on 09/05/2023",
        "2023年5月9日の",
    ],
)
def test_what_was_said_on_the_day_that_is_named_comes_first(when: str) -> None:
    rows = [
        said(number, f"the meeting about {topic}", timestamp=T0 + (number - 5) * DAY_MS, thread=f"t{number}")
        for number, topic in enumerate(("tea", "dogs", "May", "9 cats", "2023"), 1)
    ]
    vectors = {row.row_id: unit(1, number) for number, row in enumerate(rows)}
    corpus = corpus_of(rows, vectors)
    scores = scores_of(corpus, f"the meeting {when}", unit(1, 9))
    assert corpus.rows[int(scores.total.argmax())].row_id == "t1:1"


def test_where_a_time_is_all_that_is_asked_for_nothing_else_decides() -> None:
    rows = [
        said(1, "tea", timestamp=T0 - DAY_MS, thread="a"),
        said(2, "we talk of what we did on 12 May", thread="b"),
    ]
    assert order(corpus_of(rows), "What did we talk about on 12 May 2023?")[0] == "a:1"


def test_the_words_of_a_date_are_looked_for_where_nothing_was_said_on_it() -> None:
    rows = [said(1, "the deadline is 8 June 2025", thread="a"), said(2, "the deadline, again", thread="b")]
    assert order(corpus_of(rows), "the deadline of 8 June 2025")[0] == "a:1"


def test_with_an_assistant_what_the_person_only_asked_comes_after_what_they_stated() -> None:
    asked, stated = said(1, "Is my boat in Porto?"), said(1, "My boat is in Porto.", thread="t2")
    rows = (asked, answered(2, "Hm"), stated, answered(2, "Hm", thread="t2"))
    assert [hit.row.row_id for hit in found(corpus_of(rows), "boat in Porto")] == ["t2:1", "t1:1"]


def test_words_count_by_the_share_of_the_query_that_they_cover() -> None:
    rows = [apart(n, f"something else {n}") for n in range(3, 12)]
    rows += [apart(1, "We brought a grey tabby home"), apart(2, "The show was called off")]
    vectors = {row.row_id: unit(0, 0, 1) for row in rows} | {"t1:1": unit(1, 0, 0), "t2:2": unit(1, 1, 1)}
    corpus, query = corpus_of(rows, vectors), "Which name does my pet answer to when called?"
    assert order(corpus, query, unit(1, 0, 0))[0] == "t1:1"
    assert order(corpus, query, unit(1, 0, 0), replace(Weights(), enough=0))[0] == "t2:2"
    assert order(corpus, "called off", unit(1, 0, 0))[0] == "t2:2"
    assert order(corpus, query)[0] == "t2:2", "without vectors all goes by words"
