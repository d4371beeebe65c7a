"""The best rows are chosen: in scope, without repetitions, within a budget."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.hits import PASSAGE_CHARS, STRETCH, Hit, Ranked, Scope, Selection, tokens
from recollect.domain.recall.rank import Scores
from recollect.domain.recall.rows import NOTE, IndexRow
from tests.unit.awkward_text import unhurried
from tests.unit.made_rows import MINUTE, T0, answered, corpus_of, found, said, unit

DOGS = (
    said(1, "My dog is called Rex", tags=("home",)),
    said(2, "The weather is fine today"),
    said(1, "A dog barked all night", "Bob", thread="t2", agent_id="tutor", tags=("work", "home")),
    said(2, "Nothing else to say", "Bob", thread="t2", agent_id="tutor", timestamp=T0 + 90 * MINUTE),
    said(9, "The dog ran away", thread="t3", timestamp=T0 + 300 * MINUTE),
    IndexRow(
        "n#1", NOTE, "Dog food: two cans", T0 + 400 * MINUTE, sender="Shopping", path="notes/Shopping.md"
    ),
)


def in_scope(**scope: object) -> set[str]:
    selection = Selection(scope=Scope(**scope))  # type: ignore[arg-type]
    return {hit.row.row_id for hit in found(corpus_of(DOGS), "dog", selection)}


def ids(hits: list[Hit]) -> list[str]:
    return [hit.row.row_id for hit in hits]


def with_scores(*values: float) -> Scores:
    total = np.array(values, np.float32)
    return Scores(total, {"words": total})


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, {"t1:1", "t2:1", "t3:9", "n#1"}),
        ({"types": frozenset({"note"})}, {"n#1"}),
        ({"types": frozenset({"turn"})}, {"t1:1", "t2:1", "t3:9"}),
        ({"types": frozenset({"turn", "note"})}, {"t1:1", "t2:1", "t3:9", "n#1"}),
        ({"types": frozenset({"episode"})}, set()),
        ({"tags": frozenset({"home"})}, {"t1:1", "t2:1"}),
        ({"tags": frozenset({"work", "other"})}, {"t2:1"}),
        ({"thread_id": "t3"}, {"t3:9"}),
        ({"thread_id": "t4"}, set()),
        ({"agent_id": "tutor"}, {"t2:1"}),
        ({"since": T0 + 300 * MINUTE}, {"t3:9", "n#1"}),
        ({"until": T0 + 300 * MINUTE}, {"t1:1", "t2:1"}),
        ({"since": T0 + 2 * MINUTE, "until": T0 + 301 * MINUTE}, {"t3:9"}),
        ({"tags": frozenset({"home"}), "thread_id": "t1"}, {"t1:1"}),
        ({"tags": frozenset({"home"}), "agent_id": "tutor", "until": T0 + 2 * MINUTE}, {"t2:1"}),
        ({"tags": frozenset({"home"}), "types": frozenset({"note"})}, set()),
        ({"thread_id": "t1' or '1'='1"}, set()),
    ],
)
def test_a_scope_narrows_what_is_found(scope: dict[str, object], expected: set[str]) -> None:
    assert in_scope(**scope) == expected


_scopes = st.builds(
    Scope,
    types=st.frozensets(st.sampled_from(["turn", "note", STRETCH])),
    tags=st.frozensets(st.sampled_from(["home", "work", "no"])),
    thread_id=st.sampled_from([None, "t1", "t2", "no"]),
    agent_id=st.sampled_from([None, "tutor", "no"]),
    since=st.none() | st.integers(T0, T0 + 400 * MINUTE),
    until=st.none() | st.integers(T0, T0 + 400 * MINUTE),
)


@given(_scopes, st.sampled_from(["hybrid", "keyword"]))
def test_no_hit_and_no_part_of_one_lies_outside_the_scope(scope: Scope, mode: str) -> None:
    taken = {each for row in DOGS if scope.takes(row) for each in row.message_ids}
    for hit in found(corpus_of(DOGS), "dog", Selection(mode=mode, scope=scope)):  # type: ignore[arg-type]
        assert set(hit.message_ids) <= taken


def test_words_are_found_by_words_alone_and_meaning_by_meaning_alone() -> None:
    corpus = corpus_of(DOGS, {"t1:2": unit(1, 0), "t2:2": unit(0.9, 0.1), "t3:9": unit(0, 1)})
    asked = unit(1, 0)
    keyword = set(ids(found(corpus, "dog", Selection("keyword"), asked)))
    vector = ids(found(corpus, "dog", Selection("vector"), asked))
    hybrid = set(ids(found(corpus, "dog", Selection("hybrid"), asked)))
    assert keyword == {"t1:1", "t2:1", "t3:9", "n#1"}
    assert set(vector) == {"t1:2", "t2:2", "t3:9"}
    assert hybrid == keyword | set(vector)


def test_a_search_by_meaning_without_a_vector_finds_nothing() -> None:
    assert found(corpus_of(DOGS), "dog", Selection("vector")) == []


def test_hits_say_whether_their_meaning_is_known() -> None:
    corpus = corpus_of(DOGS, {"t3:9": unit(0, 1), "t1:2": unit(1, 0)})
    embedded = {hit.row.row_id: hit.embedded for hit in found(corpus, "dog", vector=unit(0, 1))}
    assert embedded == {"t3:9": True, "t1:2": True, "t1:1": False, "t2:1": False, "n#1": False}


def test_what_says_the_same_is_one_hit_with_the_ids_of_all() -> None:
    texts = ["My dog is Rex.", "my  dog is\nRex!", "“My dog is Rex”", "Another text"]
    (hit,) = found(corpus_of([said(n, text) for n, text in enumerate(texts)]), "dog")
    assert sorted(hit.message_ids) == ["t1-m0", "t1-m1", "t1-m2"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The dog weighs 12 kg", "The dog weighs 13 kg"),
        ("The dog weighs 1.5 kg", "The dog weighs 15 kg"),
        ("dog at -5 degrees", "dog at 5 degrees"),
        ("The dog codes C++", "The dog codes C#"),
        ("my dog 😀", "my dog 😡"),
        ("dog दिन", "dog दान"),
        ("dog ข้าว", "dog ขาว"),
        ("dog: a < b", "dog: a > b"),
    ],
)
def test_what_differs_in_little_that_matters_is_news(one: str, other: str) -> None:
    assert len(found(corpus_of([said(1, one), said(2, other), said(3, "Else")]), "dog")) == 2


def test_the_same_words_of_another_speaker_are_news() -> None:
    corpus = corpus_of([said(1, "A dog"), said(2, "A dog", "Bob"), answered(3, "A dog"), said(4, "Else")])
    assert len(found(corpus, "dog")) == 3


def test_thousands_of_repetitions_are_merged_in_bounded_time() -> None:
    corpus = Corpus()
    corpus.extend([said(n, "ok") for n in range(20_000)], ["ok"] * 20_000)
    begun = time.process_time()
    (hit,) = Ranked(corpus, corpus.view(), with_scores(*[1.0] * 20_000), ("ok",)).choose(Selection()).hits
    assert time.process_time() - begun < 1
    assert (len(hit.message_ids), len(set(hit.message_ids)), hit.repeated) == (21, 21, 19_999)


def test_thousands_of_repetitions_hide_nothing_that_says_more() -> None:
    rows = [said(n, "ok pelican") for n in range(2_400)]
    rows += [said(3_000 + n, f"the pelican flew far away to the island number {n}") for n in range(6)]
    hits = found(corpus_of([*rows, said(9_000, "Else")]), "pelican", Selection("keyword"))
    assert [hit.repeated for hit in hits] == [2_399, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("top_k", [1, 2, 3, 7, 20])
def test_asking_for_fewer_gives_the_first_of_more(top_k: int) -> None:
    corpus = corpus_of([said(n, f"dog {'abc'[n % 3]} number {n}") for n in range(50)] + [said(60, "Else")])
    everything = ids(found(corpus, "dog", Selection(top_k=50)))
    assert len(everything) == 50
    assert ids(found(corpus, "dog", Selection(top_k=top_k))) == everything[:top_k]


def test_of_equal_ones_the_earlier_comes_first_however_many_there_are() -> None:
    corpus = Corpus()
    corpus.extend([said(n, f"dog {n}") for n in range(5000)], ["dog"] * 5000)
    values = np.random.default_rng(7).choice([0.5, 1.0, 2.0], 5000).tolist()
    expected = [f"t1:{n}" for n in sorted(range(5000), key=lambda n: (-values[n], n))]
    for top_k in (1, 3, 10, 1000):
        chosen = Ranked(corpus, corpus.view(), with_scores(*values), ("dog",)).choose(Selection(top_k=top_k))
        assert ids(chosen.hits) == expected[:top_k]


LONG = "Nothing much happened on that day. " * 60
LONG_DOG = LONG + "The dog Rex ran to Porto. " + LONG


def test_of_a_long_text_the_passage_is_shown_with_its_place() -> None:
    (hit,) = found(corpus_of([said(1, LONG_DOG), said(2, "Else")]), "dog Rex")
    assert "The dog Rex ran to Porto." in hit.text
    assert len(hit.text) <= PASSAGE_CHARS
    assert hit.passage is not None
    assert hit.row.text[slice(*hit.passage)].strip() == hit.text


def test_whole_texts_are_shown_on_request() -> None:
    (hit,) = found(corpus_of([said(1, LONG_DOG), said(2, "Else")]), "dog", Selection(passages=False))
    assert (hit.text, hit.passage) == (LONG_DOG, None)


_texts = st.sampled_from(
    ["dog ", "dog likes 北京烤鸭。", "我的狗dog很可爱。" * 30, LONG_DOG, "dog " * 300, "สุนัข dog " * 40]
)


@given(st.lists(_texts, min_size=1, max_size=12), st.integers(1, 400), st.booleans())
@unhurried
def test_the_budget_is_never_exceeded(pieces: list[str], budget: int, passages: bool) -> None:
    rows = [said(n, f"{piece} {n}") for n, piece in enumerate(pieces)]
    selection = Selection(top_k=100, max_tokens=budget, passages=passages)
    hits = found(corpus_of([*rows, said(99, "Else")]), "dog", selection)
    assert sum(tokens(hit.text) for hit in hits) <= budget


@pytest.mark.parametrize(
    "text", [LONG_DOG, "今天天气很好。" * 200 + "我的dog很可爱。" + "今天天气很好。" * 200]
)
def test_a_budget_is_shared_by_several_hits(text: str) -> None:
    corpus = corpus_of([*(said(n, f"{n} {text}") for n in range(30)), said(99, "Else")])
    hits = found(corpus, "dog", Selection(top_k=100, max_tokens=1000))
    assert len(hits) >= 7
    assert sum(tokens(hit.text) for hit in hits) >= 800
    assert all("dog" in hit.text for hit in hits)


@pytest.mark.parametrize("budget", [10, 30, 59])
def test_a_small_budget_still_shows_something_of_a_long_text(budget: int) -> None:
    hits = found(corpus_of([said(1, LONG_DOG), said(2, "Else")]), "dog", Selection(max_tokens=budget))
    assert [tokens(hit.text) <= budget for hit in hits] == [True]
    assert "dog" in hits[0].text


def test_what_does_not_fit_leaves_its_place_to_what_does() -> None:
    corpus = corpus_of([said(1, "dog dog dog " + "long " * 50), said(2, "a short dog"), said(3, "Else")])
    hits = found(corpus, "dog", Selection(max_tokens=10, passages=False))
    assert ids(hits) == ["t1:2"]


TALK = {5: "The dog Rex barked", 8: "The dog slept"}


def talk() -> Corpus:
    rows = [said(n, TALK.get(n, f"Words number {n}"), "AB"[n % 2]) for n in range(12)]
    return corpus_of([*rows, said(30, "A dog after a long silence", timestamp=T0 + 500 * MINUTE)])


def stretches(**given: object) -> list[Hit]:
    selection = Selection(scope=Scope(types=frozenset({STRETCH}), **given))  # type: ignore[arg-type]
    return found(talk(), "the dog Rex barked", selection)


def test_a_stretch_is_a_turn_with_those_around_it_and_says_who_spoke() -> None:
    first = stretches()[0]
    assert first.row.type == STRETCH
    assert first.message_ids == [f"t1-m{n}" for n in range(3, 8)]
    assert first.text.split("\n")[1:3] == ["A: Words number 4", "B: The dog Rex barked"]


def test_no_message_is_in_two_stretches() -> None:
    together = [each for hit in stretches() for each in hit.message_ids]
    assert sorted(together) == sorted(set(together))
    assert {"t1-m5", "t1-m8", "t1-m30"} <= set(together)


def test_a_stretch_ends_where_the_scope_ends() -> None:
    first = stretches(since=T0 + 5 * MINUTE, until=T0 + 7 * MINUTE)[0]
    assert first.message_ids == ["t1-m5", "t1-m6"]


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("abcd", 1), ("abcde", 2), ("北京烤鸭", 4), ("ab北京", 3), ("สวัสดี", 6), ("한국", 2)],
)
def test_tokens_are_counted_by_script(text: str, count: int) -> None:
    assert tokens(text) == count
