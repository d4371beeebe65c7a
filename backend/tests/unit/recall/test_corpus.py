"""One owner's rows in memory: however they arrive, they are ranked alike, and readers are not disturbed."""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.corpus_view import SESSION_GAP_MS, Content, View, neighbourhood
from recollect.domain.recall.query import Query, read_query
from recollect.domain.recall.rank import Floats, score
from recollect.domain.recall.rows import IndexRow, Vectors, words_of
from tests.unit.awkward_text import unhurried
from tests.unit.made_rows import MINUTE, T0, answered, corpus_of, said, unit

QUERIES = [
    read_query(text, T0)
    for text in (
        "Where is the dog of Ann?",
        "When did Bob see 北京 in May 2023?",
        "summary of cat",
        "user name",
        "zebra",
    )
]
ASKED = unit(1, 2, 3, 4)
_words = st.sampled_from(["dog", "cat", "Ann", "北京", "Where?", "always answer", "get_user_name", "3", ""])


@st.composite
def _rows(draw: st.DrawFn) -> list[IndexRow]:
    number = draw(st.integers(1, 25))
    rows, last = [], T0
    for n in range(number):
        last += draw(st.sampled_from([0, MINUTE, SESSION_GAP_MS, SESSION_GAP_MS + 1]))
        make = draw(st.sampled_from([said, said, answered]))
        text = " ".join(draw(st.lists(_words, min_size=1, max_size=6)))
        thread = draw(st.sampled_from(["t1", "t2"]))
        if make is said:
            rows.append(
                said(n, text, draw(st.sampled_from(["Ann", "Bob", "me"])), thread=thread, timestamp=last)
            )
        else:
            rows.append(answered(n, text, thread=thread, timestamp=last))
    return rows


def _vectors(rows: Sequence[IndexRow]) -> Vectors:
    values = np.random.default_rng(len(rows)).standard_normal((len(rows), 4)).astype(np.float32)
    return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True), np.float32)


def _totals(corpus: Corpus, view: View | None = None) -> list[Floats]:
    view = view or corpus.view()
    return [score(corpus, view, query, vector).total.copy() for query in QUERIES for vector in (None, ASKED)]


def _alike(one: Sequence[Floats], other: Sequence[Floats]) -> bool:
    return all(np.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))


def _grow(corpus: Corpus, rows: Sequence[IndexRow]) -> None:
    corpus.extend(rows, [words_of(row) for row in rows])


@unhurried
@given(_rows(), st.lists(st.integers(0, 25), max_size=5), st.permutations(range(25)), st.integers(0, 25))
def test_growing_in_pieces_gives_the_scores_of_all_at_once(
    rows: list[IndexRow], cuts: list[int], order: list[int], embedded: int
) -> None:
    vectors = _vectors(rows)
    chosen = [n for n in order if n < len(rows)][:embedded]
    at_once, in_pieces = Corpus(), Corpus()
    _grow(at_once, rows)
    has_vector = np.zeros(len(rows), np.bool_)
    has_vector[chosen] = True
    at_once.take_all_vectors(np.where(has_vector[:, None], vectors, np.float32(0)), has_vector)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    waiting = list(chosen)
    for begin, end in itertools.pairwise(edges):
        _grow(in_pieces, rows[begin:end])
        if end:
            _totals(in_pieces)
        arrived = [n for n in waiting if n < end][:2]
        waiting = [n for n in waiting if n not in arrived]
        for n in arrived:
            in_pieces.set_vectors([rows[n].row_id], vectors[n : n + 1])
    if waiting:
        in_pieces.set_vectors([rows[n].row_id for n in waiting], vectors[waiting])
    assert in_pieces.rows == at_once.rows
    assert _alike(_totals(at_once), _totals(in_pieces))


@unhurried
@given(_rows(), st.integers(1, 24), st.booleans())
def test_a_view_keeps_its_scores_whatever_is_added_later(
    rows: list[IndexRow], cut: int, with_vectors: bool
) -> None:
    vectors = _vectors(rows)
    cut = min(cut, len(rows))
    corpus = Corpus()
    _grow(corpus, rows[:cut])
    if with_vectors:
        corpus.set_vectors([row.row_id for row in rows[: cut // 2 + 1]], vectors[: cut // 2 + 1])
    view = corpus.view()
    before = _totals(corpus, view)
    _grow(corpus, [*rows[cut:], said(99, "Ann, a dog, always", "Ann Dog"), answered(100, "cat", thread="t2")])
    corpus.set_vectors([row.row_id for row in rows], vectors)
    _totals(corpus)
    assert _alike(before, _totals(corpus, view))


def test_readers_in_other_threads_see_whole_views_while_it_grows() -> None:
    batches = [
        [said(n, f"dog {n} cat", f"Speaker{n}", thread=f"t{n % 3}") for n in range(begin, begin + 50)]
        for begin in range(0, 3000, 50)
    ]
    expected = _expected_at_each_size(batches)
    corpus, done, failures = Corpus(), threading.Event(), list[str]()
    _grow(corpus, batches[0])

    def read() -> None:
        try:
            while not done.is_set():
                view = corpus.view()
                total = score(corpus, view, QUERIES[0], None).total
                if not np.allclose(total, expected[view.size], atol=1e-5):
                    failures.append(f"other scores at {view.size} rows")
        except Exception as error:  # noqa: BLE001 - whatever a reader meets, the test must tell
            failures.append(repr(error))

    _beside(read, lambda: _grow_by(corpus, batches[1:]), done)
    assert failures == []


class _Linked(np.ndarray[Any, np.dtype[np.int32]]):
    """Links of rows to which another one is added as soon as they were compared with anything."""

    def __lt__(self, other: Any) -> Any:
        return self._then_linked(super().__lt__(other))

    def __ge__(self, other: Any) -> Any:
        return self._then_linked(super().__ge__(other))

    def _then_linked(self, compared: Any) -> Any:
        self[-1] = len(self)
        return compared


def test_a_row_that_is_linked_while_surroundings_are_made_is_not_among_them() -> None:
    rows = 3
    after = np.array([1, 2, -1], np.int32).view(_Linked)
    before = np.array([-1, 0, 1], np.int32)
    lengths, flags = np.ones(rows, np.int32), np.zeros(rows, np.bool_)
    content = Content(rows, rows, ~flags, [], before, after, np.zeros(0))
    view = View(content, flags, flags, {})
    made = neighbourhood(view, lengths, lengths, flags, flags, *[np.zeros(rows, np.int32)] * 2)
    assert [step.tolist() for step, _ in made.steps[1::2]][:2] == [[1, 2, -1], [2, -1, -1]]


def _grow_by(corpus: Corpus, batches: Sequence[Sequence[IndexRow]]) -> None:
    for batch in batches:
        _grow(corpus, batch)


def _expected_at_each_size(batches: Sequence[Sequence[IndexRow]]) -> dict[int, Floats]:
    corpus, expected = Corpus(), {}
    for batch in batches:
        _grow(corpus, batch)
        expected[len(corpus)] = score(corpus, corpus.view(), QUERIES[0], None).total
    return expected


def _beside(read: Callable[[], None], write: Callable[[], None], done: threading.Event) -> None:
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        write()
    finally:
        done.set()
        for reader in readers:
            reader.join()


@st.composite
def _changes(draw: st.DrawFn, rows: Sequence[IndexRow]) -> list[tuple[list[IndexRow], list[str]]]:
    """Rows that replace or come back, and ids that go, some at a time."""
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        changed = draw(st.lists(st.sampled_from(rows), unique_by=lambda row: row.row_id, max_size=5))
        text = " ".join(draw(st.lists(_words, min_size=1, max_size=4)))
        gone = draw(st.lists(st.sampled_from(rows), max_size=5))
        steps.append(([replace(row, text=text) for row in changed], [row.row_id for row in gone]))
    return steps


@given(_rows().flatmap(lambda rows: st.tuples(st.just(rows), _changes(rows))))
@unhurried
def test_rows_that_change_or_go_leave_nothing_behind(
    given_rows: tuple[list[IndexRow], list[tuple[list[IndexRow], list[str]]]],
) -> None:
    rows, steps = given_rows
    vectors = dict(zip((row.row_id for row in rows), _vectors(rows), strict=True))
    changed = corpus_of(rows, vectors)
    there = {row.row_id: row for row in rows}
    for fresh, gone in steps:
        changed.extend(fresh, [words_of(row) for row in fresh], gone)
        there = {row_id: row for row_id, row in there.items() if row_id not in gone}
        there |= {row.row_id: row for row in fresh}
        if fresh:
            changed.set_vectors(
                [row.row_id for row in fresh], np.stack([vectors[row.row_id] for row in fresh])
            )
    kept = sorted(there.values(), key=lambda row: (row.thread_id, row.position))
    again = corpus_of(kept, {row.row_id: vectors[row.row_id] for row in kept})
    assert len(changed) == len(again) == changed.view().content.count
    assert {row_id: changed.rows[place] for row_id, place in changed.places.items()} == there
    assert (changed.characters, set(changed.names)) == (again.characters, set(again.names))
    at = [changed.places[row.row_id] for row in kept]
    for ours, expected in zip(_totals(changed), _totals(again), strict=True):
        np.testing.assert_allclose(ours[at], expected, atol=1e-5)
    for row in kept:
        around = changed.around(changed.places[row.row_id], changed.view())
        expected_around = again.around(again.places[row.row_id], again.view())
        assert [changed.rows[place] for place in around] == [again.rows[place] for place in expected_around]


def test_a_view_keeps_what_goes_after_it_was_taken() -> None:
    corpus = corpus_of([said(n, f"dog {n}") for n in range(5)])
    view = corpus.view()
    before = _totals(corpus, view)
    corpus.extend([said(3, "a cat now")], ["cat"], ["t1:1", "t1:2"])
    assert [row.text for row in view.rows[: view.size]] == [f"dog {n}" for n in range(5)]
    assert all(np.array_equal(*pair) for pair in zip(before, _totals(corpus, view), strict=True))
    assert (corpus.view().content.count, corpus.empty_share) == (3, 0.5)


def around(rows: Sequence[IndexRow], place: int) -> list[int]:
    corpus = corpus_of(rows)
    return corpus.around(place, corpus.view())


def test_neighbours_are_the_two_before_and_the_two_after() -> None:
    rows = [said(n, f"text {n}") for n in range(7)]
    assert around(rows, 3) == [1, 2, 3, 4, 5]
    assert around(rows, 0) == [0, 1, 2]
    assert around(rows, 6) == [4, 5, 6]


@pytest.mark.parametrize(("silence", "neighbours"), [(SESSION_GAP_MS, [0, 1]), (SESSION_GAP_MS + 1, [0])])
def test_a_silence_of_more_than_an_hour_parts_neighbours(silence: int, neighbours: list[int]) -> None:
    assert around([said(0, "a"), said(1, "b", timestamp=T0 + silence)], 0) == neighbours


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5).map(" ".join), max_size=8), st.integers(0, 8))
def test_postings_hold_every_row_of_every_word_once_and_in_order(terms: list[str], cut: int) -> None:
    corpus = Corpus()
    rows = [said(n, "text") for n in range(len(terms))]
    corpus.extend(rows[:cut], terms[:cut])
    corpus.extend(rows[cut:], terms[cut:])
    for word in "abc":
        expected = [(n, each.split().count(word)) for n, each in enumerate(terms) if word in each.split()]
        held = corpus.postings.get(word)
        assert (
            [] if held is None else list(zip(held.rows.tolist(), held.counts.tolist(), strict=True))
        ) == expected


def test_names_are_those_of_people_and_not_of_roles() -> None:
    rows = [
        said(0, "a", "Ann Lee"),
        said(1, "b", "user"),
        said(2, "c", "Me"),
        said(3, "d", "王小明"),
        answered(4, "e", "GPT"),
        said(5, "f", ""),
    ]
    assert set(corpus_of(rows).names) == {"Ann Lee", "王小明"}


def test_a_chinese_name_is_recognised_in_a_query() -> None:
    corpus = corpus_of([said(0, "我喜欢狗", "王小明"), said(1, "我喜欢猫", "李大白")])
    query: Query = read_query("王小明喜欢什么", T0)
    speaker = score(corpus, corpus.view(), query, None).parts["speaker"]
    assert speaker[0] > speaker[1]


def test_vectors_of_rows_that_are_not_here_are_left_out() -> None:
    corpus = corpus_of([said(0, "a")])
    corpus.set_vectors(["nobody", "t1:0"], np.stack([unit(1, 0), unit(0, 1)]))
    assert corpus.view().embedded.tolist() == [True]
    assert corpus.vectors[0].tolist() == [0, 1]


def test_a_vector_that_comes_twice_counts_once() -> None:
    corpus = corpus_of([said(0, "a")])
    for _ in range(2):
        corpus.set_vectors(["t1:0"], unit(0, 1)[None])
    assert corpus.view().content.vector_sum.tolist() == [0, 1]
