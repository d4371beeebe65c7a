"""How entries take part in ranking, and when one only repeats its source messages."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.corpus_view import View
from recollect.domain.recall.dates import Span, day_of, month_span
from recollect.domain.recall.rows import IndexRow
from recollect.domain.recall.words import words_in

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer[Any]]
_NEVER = 1 << 62
_MOST_OVER = 50
"""So many of what no longer holds, the best first, are compared with what holds instead."""
_ALIKE = np.float32(0.5)
"""A query that is about one entry is about another that has so much of its relevance."""
_A_LITTLE = np.float32(0.001)


def brought(corpus: Corpus, view: View, values: Floats, holds: Floats) -> Floats:
    """What a turn gets of the best entry that came from it, and loses where a fact that does not hold is better.

    An episode tells the turn again, whatever holds: it makes up for no such fact.
    """
    entry_sources, zero = corpus.entry_sources(view), np.float32(0)
    is_episode, is_over = corpus.is_episode[: view.size], holds < 0
    by_episodes = entry_sources.best_of_entries(np.where(is_episode & ~is_over, values, zero))
    # With an assistant, an episode is made of so much that it points at nothing.
    by_episodes[corpus.context(view).with_assistant] = 0
    by_others = entry_sources.best_of_entries(np.where(is_episode | is_over, zero, values))
    held_back = entry_sources.best_of_entries(np.where(is_over, values, zero))
    gained: Floats = np.where(
        held_back > by_others, by_others - held_back, np.maximum(by_episodes, by_others)
    ).astype(np.float32)
    return gained


def happened(corpus: Corpus, view: View, dates: Floats, holds: Floats) -> Floats:
    """What a turn gets for the time that is asked about, where it tells of what happened then, whenever it was said."""
    tells = view.is_entry & ~corpus.is_episode[: view.size] & (holds >= 0)
    then = corpus.entry_sources(view).best_of_entries(np.where(tells, dates, np.float32(0)))
    gained: Floats = np.where(view.is_entry, np.float32(0), np.maximum(then - dates, np.float32(0)))
    return gained


def validity(
    corpus: Corpus, view: View, spans: Sequence[Span], now: int | None, held: float, superseded: float
) -> Floats:
    """Of an entry that held at a time that is named, `held`; of one that held no more or not yet, `superseded`.

    A month without a year is the last one that has begun. Not yet: it took the place of another later than is asked
    about. One that was over when it began has never held.
    """
    until, since = corpus.until[: view.size], corpus.times[: view.size]
    has_held = np.zeros(view.size, np.bool_)
    named = [bounds for span in spans if (bounds := _bounds(span, now)) is not None]
    for begin, end in named:
        has_held |= (since < end) & ((until == 0) | (until > np.maximum(begin, since)))
    is_over = (until > 0) & (until <= np.maximum(now or _NEVER, since))
    succeeds = np.isin(since, until[(until > since) & view.is_entry])
    is_early = succeeds & (bool(named) | (since > (now or _NEVER)))
    values = np.where(has_held, np.float32(held), np.float32(superseded) * (is_over | is_early))
    return np.where(view.is_entry, values, np.float32(0)).astype(np.float32)


def _bounds(span: Span, now: int | None) -> tuple[int, int] | None:
    """From when to when; of a month of any year, the last that has begun."""
    if span.month is not None and now is not None:
        today = day_of(now)
        span = month_span(date(today.year - (span.month > today.month), span.month, 1))
    return None if span.begin is None or span.end is None else (span.begin, span.end)


def preferred(corpus: Corpus, view: View, own: Floats, holds: Floats, total: Floats) -> Floats:
    """What an entry and its turns lack to come before another, its turns, and episodes about little else, whose place it
    has at the time asked about, where the query is about both. What a person wrote comes before its own turns too: they
    may say otherwise.
    """
    lacking: Floats = np.zeros(view.size, np.float32)
    if not (holds < 0).any():
        return lacking
    until, since, senders = (each[: view.size] for each in (corpus.until, corpus.times, corpus.senders))
    facts = view.is_entry & view.there & ~corpus.is_episode[: view.size]
    between, held = np.nonzero(facts & (holds < 0))[0], np.nonzero(facts & (holds >= 0) & (own > 0))[0]
    over = between[own[between] > 0]
    entry_sources = corpus.entry_sources(view)
    by_episodes = corpus.is_episode[entry_sources.entries]
    episodes, told = entry_sources.entries[by_episodes], entry_sources.turns[by_episodes]
    for place in over[np.argsort(-own[over], kind="stable")][:_MOST_OVER]:
        said = entry_sources.of(int(place))
        telling = [each for turn in said for each in episodes[told == turn].tolist()]
        others = [int(place), *said, *(each for each in telling if own[place] >= _ALIKE * own[each])]
        for instead in _instead(int(place), between, held, since, until, senders):
            turns = entry_sources.of(instead)
            if view.rows[instead].edited:
                shown, below = [instead], [*others, *turns]
            elif own[instead] >= _ALIKE * own[place]:
                shown, below = [instead, *turns], others
            else:
                continue
            lacking[shown] = np.maximum(lacking[shown], total[below].max() - total[shown] + _A_LITTLE)
    return lacking


def _instead(place: int, between: Ints, held: Ints, since: Ints, until: Ints, senders: Ints) -> list[int]:
    """What has the place of an entry at the time asked about: what came right after it or before, or after that."""
    found: list[int] = []
    waiting, seen = [place], {place}
    while waiting and len(seen) <= _MOST_OVER:
        each = waiting.pop()
        for others, reached in ((held, found), (between, waiting)):
            is_next = (since[others] == until[each]) | (until[others] == since[each])
            for other in others[is_next & (senders[others] == senders[place])].tolist():
                if other not in seen:
                    seen.add(other)
                    reached.append(other)
    return found


_RESTATED = 0.5
"""An entry of whose words a turn holds so many says that turn again."""
_LOOKED_AT = 4_000
"""Characters of a turn."""


def with_sources(entry: IndexRow, turns: Sequence[IndexRow]) -> IndexRow:
    """With the message ids and the tags of its turns, and their thread and agent where all have the same."""
    if not turns:
        return entry
    threads, agents = {turn.thread_id for turn in turns}, {turn.agent_id for turn in turns}
    return replace(
        entry,
        message_ids=tuple(dict.fromkeys(each for turn in turns for each in turn.message_ids)),
        tags=tuple(dict.fromkeys(tag for turn in turns for tag in turn.tags)),
        thread_id=threads.pop() if len(threads) == 1 else "",
        agent_id=agents.pop() if len(agents) == 1 else "",
    )


def restates(entry: IndexRow, turns: Sequence[IndexRow]) -> bool:
    """Whether an entry says little that these turns do not say: names and dates in it are theirs already."""
    said = set(words_in(" ".join(f"{turn.sender} {turn.text[:_LOOKED_AT]}" for turn in turns)))
    told = set(words_in(entry.text)) - set(words_in(entry.sender))
    return len(told & said) >= _RESTATED * len(told)
