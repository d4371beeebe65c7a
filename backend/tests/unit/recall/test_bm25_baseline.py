"""The baseline does what the formula says, and nothing more."""

from itertools import pairwise
from math import log

from bm25_baseline import Bm25, words
from hypothesis import given
from hypothesis import strategies as st


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


@given(
    texts=st.lists(st.text("abc ", max_size=12), min_size=1, max_size=8), query=st.text("abcd ", max_size=6)
)
def test_it_ranks_as_the_formula_does(texts: list[str], query: str) -> None:
    ranked = Bm25(texts).rank(query, len(texts))
    scores = [by_the_book(texts, query, number) for number in ranked]
    assert all(one >= other - 1e-9 for one, other in pairwise(scores))
    shared = {number for number, text in enumerate(texts) if set(words(text)) & set(words(query))}
    assert set(ranked) == shared
