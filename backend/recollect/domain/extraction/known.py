"""What is known that a memcell may touch: it is shown to the model, which says what of it is replaced or ended."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest

from recollect.domain.entries.entry import FORESIGHT, KnownEntry, naming
from recollect.domain.entries.links import successor_ids
from recollect.domain.extraction.draft import CellText
from recollect.domain.extraction.prompts import KNOWN_CHARS
from recollect.domain.recall.words import words_in

MOST_READ = 1_000
"""Of an owner's facts, the newest are compared with the cell."""
_MOST_NEAR = 20
_MOST_LINES = 30
_MOST_CHARS = 1_500
_LOOKED_AT = 4_000
"""Characters of a message."""


def is_ahead(plan: KnownEntry, at: int) -> bool:
    """Whether its time was not over then, by its own words."""
    return plan.lapses is None or at <= plan.lapses


def listed(known: KnownEntry) -> str:
    """A known fact or plan as prompts show it: plans are marked, and facts name whom they are about."""
    if known.kind == FORESIGHT:
        return f"planned: {known.entry.text}"
    return naming(known.entry.extra.get("subject", "").strip(), known.entry.text)


def known_without(memcell_id: str, facts: Sequence[KnownEntry]) -> list[KnownEntry]:
    """Of these facts and plans, those that hold, as if nothing had been made of that cell yet.

    Among them is what was said after the cell, so that a late import of an old conversation does not override it.
    """
    mine = {fact.entry_id for fact in facts if fact.cell == memcell_id}
    return [
        fact
        for fact in facts
        if fact.entry_id not in mine and (fact.holds or not mine.isdisjoint(successor_ids(fact.entry)))
    ]


def nearest(
    cell: CellText, facts: Sequence[KnownEntry], page: Collection[str], alike: Sequence[str] = ()
) -> list[KnownEntry]:
    """The facts that share the rarest words with the cell and those `alike` in meaning, in turns; then those on the
    profile's page, of each category in turns. Plans among the `page` count as a category. As many as fit.
    """
    words = {fact.entry_id: frozenset(words_in(fact.entry.text)) for fact in facts}
    held_by = Counter(word for each in words.values() for word in each)
    said = {word for turn in cell.turns for word in words_in(turn.content[:_LOOKED_AT])}

    def score(fact: KnownEntry) -> float:
        shared = sorted(words[fact.entry_id] & said)
        return sum(
            math.log(1 + (len(facts) - held_by[word] + 0.5) / (held_by[word] + 0.5)) for word in shared
        )

    ranked = sorted(facts, key=lambda fact: (-score(fact), -fact.entry.when, fact.entry_id))
    by_id = {fact.entry_id: fact for fact in ranked}
    by_words = [fact.entry_id for fact in ranked if score(fact) > 0]
    near = in_turns([by_words, [name for name in alike if name in by_id]])[:_MOST_NEAR]
    categories: dict[str, list[str]] = {}
    for fact in ranked:
        if fact.entry_id in page:
            categories.setdefault(fact.category, []).append(fact.entry_id)
    chosen: list[KnownEntry] = []
    room = _MOST_CHARS
    for name in dict.fromkeys([*near, *in_turns(categories.values())]):
        room -= min(len(listed(by_id[name])), KNOWN_CHARS)
        if room >= 0 and len(chosen) < _MOST_LINES:
            chosen.append(by_id[name])
    return chosen


def in_turns(lists: Iterable[Sequence[str]]) -> list[str]:
    """The first of each list, then the second of each, and so on; each name once."""
    rounds = zip_longest(*lists)
    return list(dict.fromkeys(name for each in rounds for name in each if name is not None))
