"""How recall is counted: the share of a question's evidence that a search brings back.

Hits may be of one message or of several, so places are counted in messages and sizes in returned text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

CHARACTERS_A_TOKEN = 4
TOKEN_BUDGET = 1000


@dataclass(frozen=True, slots=True)
class Hit:
    """What counts of a search hit: the text it returned, and the messages that it stands for."""

    text: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares from 0 to 1: of one question, or the mean of several."""

    at_5: float
    at_10: float
    at_20: float
    reciprocal_rank: float
    within_budget: float
    """Recall of the hits that fit into `TOKEN_BUDGET` tokens."""


def distinct_ids(hits: Iterable[Hit]) -> list[str]:
    """The hits' message ids laid end to end in rank order, each where it first stands."""
    return list(dict.fromkeys(message_id for hit in hits for message_id in hit.message_ids))


def recall_at(hits: Iterable[Hit], evidence: frozenset[str], places: int) -> float:
    """The share of the evidence among the first `places` distinct ids: a hit of five messages uses up five."""
    return share(distinct_ids(hits)[:places], evidence)


def reciprocal_rank(hits: Iterable[Hit], evidence: frozenset[str]) -> float:
    """One over the place of the first evidence among the distinct ids; 0 where there is none."""
    ranks = (rank for rank, message_id in enumerate(distinct_ids(hits), 1) if message_id in evidence)
    return 1 / rank if (rank := next(ranks, 0)) else 0.0


def recall_within(hits: Iterable[Hit], evidence: frozenset[str], tokens: int) -> float:
    """The share of the evidence in the hits whose texts, in rank order, fit; the first that does not is the end."""
    return share(distinct_ids(_fitting(hits, tokens * CHARACTERS_A_TOKEN)), evidence)


def score(hits: Sequence[Hit], evidence: frozenset[str]) -> Scores:
    """Everything that is counted of one question. It must have evidence."""
    return Scores(
        at_5=recall_at(hits, evidence, 5),
        at_10=recall_at(hits, evidence, 10),
        at_20=recall_at(hits, evidence, 20),
        reciprocal_rank=reciprocal_rank(hits, evidence),
        within_budget=recall_within(hits, evidence, TOKEN_BUDGET),
    )


def mean(scores: Sequence[Scores]) -> Scores:
    """The mean over questions, each of the same weight. There must be one at least."""
    count = len(scores)
    return Scores(
        at_5=sum(each.at_5 for each in scores) / count,
        at_10=sum(each.at_10 for each in scores) / count,
        at_20=sum(each.at_20 for each in scores) / count,
        reciprocal_rank=sum(each.reciprocal_rank for each in scores) / count,
        within_budget=sum(each.within_budget for each in scores) / count,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that is not exceeded by `share` of them. There must be one at least."""
    ordered = sorted(values)
    return ordered[max(ceil(len(ordered) * share), 1) - 1]


def share(found: Iterable[str], evidence: frozenset[str]) -> float:
    """How much of the evidence was found. There must be some."""
    return len(evidence.intersection(found)) / len(evidence)


def _fitting(hits: Iterable[Hit], characters: int) -> list[Hit]:
    taken = []
    for hit in hits:
        characters -= len(hit.text)
        if characters < 0:
            break
        taken.append(hit)
    return taken
