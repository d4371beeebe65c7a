"""The baseline does what the formula says, and nothing more."""

from itertools import pairwise
from math import log

import pytest
from bm25_baseline import Bm25, words
from hypothesis import given
from hypothesis import strategies as st

TEXTS = ["the cat sat", "the dog sat", "the cat and the other cat met a dog"]


def by_the_book(texts: list[str], query: str, number: int) -> float:
    """Okapi's formula, written down once more and slowly."""
    documents = [words(text) for text in texts]
    mean = sum(len(document) for document in documents) / len(documents)
    total = 0.0
    for word in words(query):
        holding = sum(word in document for document in documents)
        idf = log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
        count = documents[number].count(word)
        total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(documents[number]) / mean))
    return total


def test_words_are_lower_cased_and_free_of_punctuation() -> None:
    assert words("Marta's CAFÉ, at 7:30 - parse_date!") == [
        "marta",
        "s",
        "café",
        "at",
        "7",
        "30",
        "parse_date",
    ]


def test_the_order_is_that_of_the_formula_computed_by_hand() -> None:
    # Lengths 3, 3, 9, mean 5. "cat" is in two of three: idf ln 1.6. Text 0: 2.2/(1+.84) = 1.196;
    # text 2: 2*2.2/(2+1.92) = 1.122. "met" is in text 2 alone: idf ln 2.667, 2.2/(1+1.92) = .753.
    assert Bm25(TEXTS).rank("cat", 10) == [0, 2]
    assert Bm25(TEXTS).rank("cat met", 10) == [2, 0]


@pytest.mark.parametrize(
    ("texts", "query", "ranked"),
    [
        (TEXTS, "elephant", []),
        (["same words", "same words", "same words"], "words", [0, 1]),
        ([], "anything", []),
        (["", "…"], "anything", []),
    ],
    ids=["no shared word", "equal scores in order, within the limit", "no texts", "no words"],
)
def test_only_texts_that_share_a_word_come_back(texts: list[str], query: str, ranked: list[int]) -> None:
    assert Bm25(texts).rank(query, 2) == ranked


@given(
    texts=st.lists(st.text("abc ", max_size=12), min_size=1, max_size=8), query=st.text("abcd ", max_size=6)
)
def test_it_ranks_as_the_formula_does(texts: list[str], query: str) -> None:
    ranked = Bm25(texts).rank(query, len(texts))
    scores = [by_the_book(texts, query, number) for number in ranked]
    assert all(one >= other - 1e-9 for one, other in pairwise(scores))
    shared = {number for number, text in enumerate(texts) if set(words(text)) & set(words(query))}
    assert set(ranked) == shared
