"""Drafts of one cell that say the same, made one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from recollect.domain.extraction.draft import Draft
from recollect.domain.extraction.negation import is_negated
from recollect.domain.recall.words import words_in

_ALIKE = 0.8
"""Share of common words from which two texts of one kind, about one subject, say the same."""
_numbers = re.compile(r"\d+").findall


def merged(drafts: Sequence[Draft], order: Mapping[str, int]) -> list[Draft]:
    """The drafts in their order, what is said twice once, with all the turns that say it."""
    kept: list[Draft] = []
    words: list[frozenset[str]] = []
    for draft in drafts:
        own = frozenset(words_in(draft.text))
        place = next((n for n, other in enumerate(kept) if _say_the_same(draft, own, other, words[n])), None)
        if place is None:
            kept.append(draft)
            words.append(own)
        else:
            turns = {*kept[place].turn_ids, *draft.turn_ids}
            kept[place] = replace(kept[place], turn_ids=tuple(sorted(turns, key=lambda turn: order[turn])))
    return kept


def _say_the_same(draft: Draft, words: frozenset[str], other: Draft, others: frozenset[str]) -> bool:
    if (draft.kind, draft.subject, draft.attribute) != (other.kind, other.subject, other.attribute):
        return False
    if is_negated(draft.text, draft.value) != is_negated(other.text, other.value):
        return False
    if draft.text == other.text or (draft.attribute != "did" and draft.value and draft.value == other.value):
        return draft.about == other.about
    if _numbers(draft.text) != _numbers(other.text) or _negated(words) != _negated(others):
        return False
    return len(words & others) >= _ALIKE * len(words | others)


def _negated(words: frozenset[str]) -> bool:
    return not words.isdisjoint(("not", "never", "cannot", "不", "没"))
