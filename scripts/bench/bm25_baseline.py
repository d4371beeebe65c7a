"""The baseline that recall is measured against: BM25 over single messages, and nothing else."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nsmallest
from math import log

K1 = 1.2
B = 0.75
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-cased runs of letters, digits and underscores."""
    return _WORD.findall(text.lower())


class Bm25:
    """Ranks texts by a query's words. Depends on the texts alone; equal scores keep the texts' order."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        tokens = [words(text) for text in texts]
        mean_length = sum(map(len, tokens)) / max(len(tokens), 1) or 1.0
        for number, document in enumerate(tokens):
            norm = K1 * (1 - B + B * len(document) / mean_length)
            for word, count in Counter(document).items():
                self._postings[word].append((number, count * (K1 + 1) / (count + norm)))
        self._documents = len(tokens)

    def rank(self, query: str, limit: int) -> list[int]:
        """The numbers of the best texts, best first; none that shares no word with the query."""
        scores: dict[int, float] = defaultdict(float)
        for word in words(query):
            postings = self._postings.get(word, [])
            weight = log(1 + (self._documents - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, saturated in postings:
                scores[number] += weight * saturated
        return nsmallest(limit, scores, key=lambda number: (-scores[number], number))
