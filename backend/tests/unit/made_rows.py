"""Rows and corpus_cache for the tests of search."""

from collections.abc import Mapping, Sequence

import numpy as np

from recollect.domain.entries.entry import FACTS
from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.hits import Hit, Ranked, Selection
from recollect.domain.recall.query import read_query
from recollect.domain.recall.rank import Scores, score
from recollect.domain.recall.rows import TURN, IndexRow, Vectors, source_of, words_of
from recollect.domain.recall.weights import Weights

T0 = 1_684_000_000_000
"""13 May 2023."""
MINUTE = 60_000


def said(number: int, text: str, sender: str = "Ann", *, thread: str = "t1", **given: object) -> IndexRow:
    """A turn between people, a minute after the one before."""
    fields: dict[str, object] = {
        "row_id": f"{thread}:{number}",
        "type": TURN,
        "text": text,
        "timestamp": T0 + number * MINUTE,
        "thread_id": thread,
        "position": number,
        "message_ids": (f"{thread}-m{number}",),
        "role": "user",
        "sender": sender,
    }
    return IndexRow(**{**fields, **given})  # type: ignore[arg-type]


def answered(
    number: int, text: str, sender: str = "assistant", *, thread: str = "t1", **given: object
) -> IndexRow:
    return said(number, text, sender, thread=thread, **{"role": "assistant", **given})


def remembered(name: str, text: str, *turns: str, kind: str = FACTS, **given: object) -> IndexRow:
    """An entry that came from these turns, each named as `thread:number`."""
    places = (turn.split(":") for turn in turns)
    fields: dict[str, object] = {
        "row_id": name,
        "type": kind,
        "text": text,
        "timestamp": T0,
        "sender": "Ann",
        "path": f"default/users/ann/{kind}/2023-05-13.md",
        "sources": tuple(source_of(thread, f"t-{number}") for thread, number in places),
    }
    return IndexRow(**{**fields, **given})  # type: ignore[arg-type]


def corpus_of(rows: Sequence[IndexRow], vectors: Mapping[str, Vectors] | None = None) -> Corpus:
    corpus = Corpus()
    corpus.extend(rows, [words_of(row) for row in rows])
    if vectors:
        corpus.set_vectors(list(vectors), np.stack(list(vectors.values())))
    return corpus


def unit(*values: float) -> Vectors:
    vector = np.array(values, np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


def scores_of(
    corpus: Corpus,
    query: str,
    vector: Vectors | None = None,
    weights: Weights | None = None,
    now: int | None = None,
) -> Scores:
    return score(corpus, corpus.view(), read_query(query, T0), vector, weights or Weights(), now=now)


def found(
    corpus: Corpus,
    query: str,
    selection: Selection | None = None,
    vector: Vectors | None = None,
    weights: Weights | None = None,
) -> list[Hit]:
    scores = scores_of(corpus, query, vector, weights)
    words = read_query(query, T0).words
    return Ranked(corpus, corpus.view(), scores, words).choose(selection or Selection()).hits
