"""What of a message is evidence: a question that somebody asked once answers nothing, nor does what only repeats it."""

from collections.abc import Set
from difflib import SequenceMatcher
from functools import lru_cache

from recollect.domain.recall.query import telling_words
from recollect.domain.recall.words import asking_and_telling, is_question, words_in

_REPEATED = 0.9
"""A message and a query that have so much in common, word for word in their order, say the same."""
_OTHERWISE, _THE_SAME = 1 / 3, 2 / 3
"""A question and a query that have no more than the first share of their telling words in common ask different things;
with the second share they ask the same.
"""
_ONLY_ASKS = 0.1
"""What a question counts for that asks something else."""
_LONGEST = 400
"""Characters of a query that a message is compared with, and of a message."""


def tells_of(text: str, words: Set[str]) -> bool:
    """Whether a message tells something where these words are asked for, and does not only ask for them itself.

    Besides its questions it has a clause with one of these words and another one, or more other words than it asks, or
    it does not ask for these words at all.
    """
    if not is_question(text):
        return True
    asked, telling = _asked_and_told(text, words)
    new = frozenset[str]().union(*telling) - words
    return bool(new) and (
        any(not clause.isdisjoint(words) for clause in telling)
        or len(new) > len(asked)
        or asked.isdisjoint(words)
    )


def asked_again(text: str, query: str, words: Set[str]) -> float:
    """How much a message only asks what a query with these words asks, from 0 to 1; 0 where it tells something of it.

    A message that repeats a question, without a question mark perhaps, asks it.
    """
    if is_question(query) and repeats(text, query):
        return 1.0
    if tells_of(text, words):
        return 0.0
    asked, _ = _asked_and_told(text, words)
    share = len(asked & words) / max(1, len(asked), len(words))
    return min(1.0, max(_ONLY_ASKS, (share - _OTHERWISE) / (_THE_SAME - _OTHERWISE)))


def repeats(text: str, query: str) -> bool:
    """Whether a message is almost the query itself, word for word."""
    if max(len(text), len(query)) > min(_LONGEST, 2 * min(len(text), len(query))):
        return False
    matcher = SequenceMatcher(None, words_in(text), words_in(query), autojunk=False)
    return matcher.real_quick_ratio() >= _REPEATED and matcher.ratio() >= _REPEATED


Words = frozenset[str]


def _asked_and_told(text: str, words: Set[str]) -> tuple[Words, list[Words]]:
    """The telling words of its questions, and of each other clause. A clause with these words alone is of a question."""
    asking, telling = _clauses_in_words(text)
    repeating = (clause for clause in telling if clause <= words)
    return asking.union(*repeating), [clause for clause in telling if not clause <= words]


@lru_cache(maxsize=2_000)
def _clauses_in_words(text: str) -> tuple[Words, tuple[Words, ...]]:
    asking, telling = asking_and_telling(text)
    return frozenset(telling_words(" ".join(asking))), tuple(
        frozenset(telling_words(each)) for each in telling
    )
