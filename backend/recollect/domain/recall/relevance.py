"""Where relevance ends among the hits of a search. A score compares a text with the owner's other texts, so that a query
about nothing in them has a best hit too; whether any is worth showing takes a measure of its own.
"""

import math
from collections.abc import Sequence

import numpy as np

from recollect.domain.recall.hits import Hit, Ranked
from recollect.domain.recall.rows import Vectors

_OF_THE_BEST = 0.65
"""A hit with less of the best one's score is beside the point."""
_NEAR_IN_MEANING = 0.35
"""Cosine to the query."""
_MUCH_OF_THE_WORDS = 0.5
"""Share of the query's words that a text holds, rare ones weighing more."""


def relevant(ranked: Ranked, hits: Sequence[Hit], vector: Vectors | None) -> list[Hit]:
    """The hits up to where relevance ends; none where none of these is about the query.

    About it is what has much of its words, is near to it in meaning, or is of the time that it names.
    """
    if not hits:
        return []
    best = hits[0].score
    lowest = best - (1 - _OF_THE_BEST) * abs(best)
    kept = [hit for hit in hits if hit.score >= lowest]
    weights = _weights(ranked)
    is_found = ranked.scores.wants_whole or any(_is_about(ranked, hit, weights, vector) for hit in kept)
    return kept if is_found else []


def _is_about(ranked: Ranked, hit: Hit, weights: dict[str, float], vector: Vectors | None) -> bool:
    if hit.why.get("date", 0) > 0:
        return True
    corpus, view = ranked.corpus, ranked.view
    for place in hit.places:
        held = sum(weight for word, weight in weights.items() if _holds(ranked, word, place))
        if held >= _MUCH_OF_THE_WORDS * sum(weights.values()) > 0:
            return True
        if vector is not None and view.embedded[place]:
            near = float(corpus.vectors[place] @ vector)
            if near >= _NEAR_IN_MEANING:
                return True
    return False


def _weights(ranked: Ranked) -> dict[str, float]:
    """How rare each word of the query is among the owner's texts; one that none has, the rarest."""
    texts = ranked.view.content.count
    return {word: math.log(2 + texts / (1 + _count(ranked, word))) for word in ranked.words}


def _count(ranked: Ranked, word: str) -> int:
    found = ranked.corpus.postings.get(word)
    return 0 if found is None else int(np.searchsorted(found.rows, ranked.view.size))


def _holds(ranked: Ranked, word: str, place: int) -> bool:
    found = ranked.corpus.postings.get(word)
    if found is None:
        return False
    at = int(np.searchsorted(found.rows, place))
    return at < len(found.rows) and int(found.rows[at]) == place
