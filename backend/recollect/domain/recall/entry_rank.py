"""How entries take part in ranking, and when one only repeats its source messages."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import date

import numpy as np
import numpy.typing as npt

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.corpus_view import EntrySources, View
from recollect.domain.recall.dates import Span, day_of, month_span
from recollect.domain.recall.rows import IndexRow
from recollect.domain.recall.words import words_in

Floats = npt.NDArray[np.float32]
Times = npt.NDArray[np.int64]
"""UTC milliseconds."""
_NEVER = 1 << 62
_MOST_OVER = 50
"""So many of what no longer holds, the best first, are compared with what holds instead."""
_ALIKE = np.float32(0.5)
"""A query that is about one entry is about another that has so much of its relevance."""
_IN_SIGHT = np.float32(0.2)
"""What a person changed since concerns a text whose relevance it has so much of."""
_SHORT, _MOST_ANSWERS = 40, 30
"""Words of an answer that may say what one entry says, and no more; and how many of these are looked at."""
_A_LITTLE = np.float32(0.001)
_RESTATED = 0.5
"""Share of an entry's words in a turn from which the entry repeats the turn."""


def brought(corpus: Corpus, view: View, values: Floats, holds: Floats) -> Floats:
    """What a turn gets of the best fact that came from it, and loses where one that does not hold is better."""
    entry_sources, zero = corpus.entry_sources(view), np.float32(0)
    is_episode, is_over = corpus.is_episode[: view.size], holds < 0
    gained = entry_sources.best_of_entries(np.where(is_episode | is_over, zero, values))
    lost = entry_sources.best_of_entries(np.where(is_over, values, zero))
    shifted: Floats = np.where(lost > gained, gained - lost, gained).astype(np.float32)
    return shifted


Succession = tuple[int, int]
"""The place of an entry, and that of the one that holds instead."""


def successions(corpus: Corpus, view: View) -> list[Succession]:
    """Every entry that names another in its place, where both are there."""
    ended = np.flatnonzero((corpus.until[: view.size] > 0) & view.is_entry & view.there)
    named = ((place, view.rows[place].superseded_by) for place in ended.tolist())
    found = ((place, corpus.places.get(successor, view.size)) for place, successor in named if successor)
    return [(place, after) for place, after in found if after < view.size and view.there[after]]


def validity(
    corpus: Corpus,
    view: View,
    succeeded: Sequence[Succession],
    spans: Sequence[Span],
    now: int | None,
    held: float,
    superseded: float,
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
    is_over = _over(corpus, view, now)
    succeeds = np.zeros(view.size, np.bool_)
    succeeds[[after for place, after in succeeded if until[place] > since[place]]] = True
    is_early = succeeds & (bool(named) | (since > (now or _NEVER)))
    values = np.where(has_held, np.float32(held), np.float32(superseded) * (is_over | is_early))
    return np.where(view.is_entry, values, np.float32(0)).astype(np.float32)


def _over(corpus: Corpus, view: View, now: int | None) -> npt.NDArray[np.bool_]:
    """Entries that hold no more; one that was over when it began is."""
    until, since = corpus.until[: view.size], corpus.times[: view.size]
    return (until > 0) & (until <= np.maximum(now or _NEVER, since))


def _bounds(span: Span, now: int | None) -> tuple[int, int] | None:
    """From when to when; of a month of any year, the last that has begun."""
    if span.month is not None and now is not None:
        today = day_of(now)
        span = month_span(date(today.year - (span.month > today.month), span.month, 1))
    return None if span.begin is None or span.end is None else (span.begin, span.end)


def preferred(
    corpus: Corpus,
    view: View,
    succeeded: Sequence[Succession],
    asked: Sequence[str],
    own: Floats,
    holds: Floats,
    total: Floats,
) -> tuple[Floats, EntrySources]:
    """Score to add so that the entry valid at the time asked about ranks above the entry it replaces, with its turns
    where the query is about both; and each such entry with what it ranks above.

    That is also the replaced entry's turns, episodes mostly about them, and what an assistant said that repeats it.
    What a person wrote ranks above its own turns too: they may contradict it. A turn keeps its place where another
    valid fact of it answers better.
    """
    lacking: Floats = np.zeros(view.size, np.float32)
    pairs: list[tuple[int, int]] = []
    if not (holds < 0).any():
        return lacking, EntrySources.none()
    facts = view.is_entry & view.there & ~corpus.is_episode[: view.size]
    linked: dict[int, list[int]] = {}
    for pair in succeeded:
        for one, other in (pair, pair[::-1]):
            linked.setdefault(one, []).append(other)
    entry_sources = corpus.entry_sources(view)
    by_episodes = corpus.is_episode[entry_sources.entries]
    episodes, told = entry_sources.entries[by_episodes], entry_sources.turns[by_episodes]
    valid = facts & (holds >= 0)
    answered = entry_sources.best_of_entries(np.where(valid, own, np.float32(0)))
    has_valid = entry_sources.best_of_entries(valid.astype(np.float32)) > 0
    over = np.array([place for place in linked if facts[place] and holds[place] < 0], np.int64)
    about = np.maximum(own, entry_sources.best_of_turns(own))[over]
    answers = _short_answers(corpus, view, own)
    for place in over[np.lexsort((-corpus.until[over], -about))][:_MOST_OVER].tolist():
        said = entry_sources.of(place)
        telling = [each for turn in said for each in episodes[told == turn].tolist()]
        outdated = [turn for turn in said if not has_valid[turn] or 0 < own[place] >= answered[turn]]
        others = [place, *outdated, *(each for each in telling if own[place] >= _ALIKE * own[each])]
        for instead in _instead(place, linked, holds):
            turns = entry_sources.of(instead)
            repeating = _repeating(view, place, instead, answers, asked)
            below = [*others, *(each for each in repeating if corpus.times[each] < corpus.until[place])]
            shown = [instead]
            if view.rows[instead].edited:
                below += turns
            elif own[instead] > 0 and own[instead] >= _ALIKE * own[place]:
                shown += turns
            if below := [each for each in below if own[each] > 0 and each not in shown]:
                pairs += [(instead, each) for each in below]
                least = total[below].max() + 4 * _A_LITTLE
                lacking[shown] = np.maximum(lacking[shown], least - total[shown])
    return lacking, EntrySources.of_list(pairs)


def _short_answers(corpus: Corpus, view: View, own: Floats) -> dict[int, set[str]]:
    """The words of the most relevant short messages of assistants, by their places."""
    size = view.size
    short = corpus.of_assistant[:size] & view.there & (own > 0) & (corpus.lengths[:size] <= _SHORT)
    places = np.flatnonzero(short)
    best = places[np.argsort(-own[places], kind="stable")][:_MOST_ANSWERS].tolist()
    return {place: set(words_in(view.rows[place].text)) for place in best}


def _repeating(
    view: View, place: int, instead: int, answers: Mapping[int, Set[str]], asked: Sequence[str]
) -> list[int]:
    """Answers that say what an entry says: more than half of their words are its own or the query's, and one tells it
    from the entry that holds instead.
    """
    its = set(words_in(view.rows[place].text))
    telling = its.difference(words_in(view.rows[instead].text), asked)
    return [
        answer
        for answer, words in answers.items()
        if words & telling and len(words & its.union(asked)) > _RESTATED * len(words)
    ]


def _instead(place: int, linked: Mapping[int, Sequence[int]], holds: Floats) -> list[int]:
    """The entries valid at the time asked about in place of this one: its nearest valid successors and predecessors."""
    found: list[int] = []
    waiting, seen = [place], {place}
    while waiting and len(seen) <= _MOST_OVER:
        for other in linked.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                (waiting if holds[other] < 0 else found).append(other)
    return found


AS_WELL = np.float32(0.7)
"""A fact with so much of a turn's relevance says what is asked for as well as the turn does."""
_NOT_BESIDE = np.float32(0.25)
"""A fact with so much of the relevance of its turn, or of the score of an episode, is not beside the point."""


def told(corpus: Corpus, view: View, own: Floats) -> EntrySources:
    """What a fact, a plan or a line of the profile stands for: turns that it came from, unless it is beside the point, or
    was written by a person and does not answer as well; a line of the profile and the facts that it shows, the one for
    the other.

    Of several that came from one turn, the most relevant does.
    """
    lines = _lines_and_facts(corpus, view, own)
    pairs = corpus.entry_sources(view)
    entries, turns = pairs.entries, pairs.turns
    relevant = np.where(corpus.is_statement[: view.size], own, np.float32(0))
    relevant[lines.turns] = 0
    best = pairs.best_of_entries(relevant)
    answers = (relevant[entries] > 0) & (relevant[entries] >= best[turns])
    least = np.where(corpus.corrected[entries] == 0, _NOT_BESIDE, AS_WELL)
    answers &= relevant[entries] >= least * own[turns]
    return EntrySources.of_pairs(
        np.concatenate((entries[answers], lines.entries)), np.concatenate((turns[answers], lines.turns))
    )


def _lines_and_facts(corpus: Corpus, view: View, own: Floats) -> EntrySources:
    """The fact of a line of the profile stands for the line, or the best of several; a line that answers far better than
    each of several, for all of them.
    """
    pairs: list[tuple[int, int]] = []
    for line in np.flatnonzero(corpus.shows_facts[: view.size] & view.there).tolist():
        named = (corpus.places.get(name, view.size) for name in view.rows[line].shows)
        facts = [place for place in named if place < view.size and view.there[place]]
        best = max(facts, key=lambda place: float(own[place]), default=line)
        if len(facts) == 1 or (facts and own[best] >= AS_WELL * own[line]):
            pairs.append((best, line))
        else:
            pairs += [(line, fact) for fact in facts]
    return EntrySources.of_list(pairs)


def ends_of_turns(
    corpus: Corpus, view: View, own: Floats, now: int | None
) -> tuple[dict[int, int], dict[int, int], EntrySources]:
    """When what a turn says ceased to hold, or was corrected by a person since, by its facts and plans; 0 while it holds.

    First, by place: for turns with no valid entry left, the latest end. Second: for the other turns, the end of the entry that
    answers the query, unless a valid one answers it better. Third: what a person wrote instead, and the turns that it
    ends, with their episodes unless it is beside the point.
    """
    pairs, size, moment = corpus.entry_sources(view), view.size, now or _NEVER
    entries, turns = pairs.entries, pairs.turns
    made = corpus.is_statement[entries] & ~corpus.shows_facts[entries]
    until, corrected, is_over = (
        corpus.until[entries],
        corpus.corrected[entries],
        _over(corpus, view, now)[entries],
    )
    is_corrected = made & (corrected > corpus.times[turns]) & (corrected <= moment)
    over = made & (is_over | is_corrected)
    ended, holding = pairs.where(over), pairs.where(made & ~over)
    ends = np.where(is_corrected, corrected, until)[over]
    holds = np.zeros(size, np.bool_)
    holds[holding.turns] = True
    relevance = np.maximum(own, np.float32(0))
    lost, kept = ended.best_of_entries(relevance), holding.best_of_entries(relevance)
    latest: Times = np.zeros(size, np.int64)
    asked: Times = np.zeros(size, np.int64)
    np.maximum.at(latest, ended.turns, ends)
    answering = relevance[ended.entries] >= lost[ended.turns]
    np.maximum.at(asked, ended.turns[answering], ends[answering])
    wholly, in_part = np.where(holds, 0, latest), np.where(holds & (lost >= kept), asked, 0)
    is_about = (relevance[entries] > 0) | ((wholly > 0)[turns] & (relevance[entries] >= lost[turns]))
    instead = is_corrected & ~is_over & is_about & (wholly + in_part > 0)[turns]
    written, episodes = pairs.where(instead), pairs.where(corpus.is_episode[entries])
    retold = [
        (entry, episode)
        for entry, turn in zip(written.entries.tolist(), written.turns.tolist(), strict=True)
        for episode in (turn, *episodes.entries[episodes.turns == turn].tolist())
        if episode == turn or own[entry] >= _IN_SIGHT * own[episode]
    ]
    return _by_place(wholly), _by_place(in_part), EntrySources.of_list(retold)


def _by_place(times: Times) -> dict[int, int]:
    places = np.flatnonzero(times)
    return dict(zip(places.tolist(), times[places].tolist(), strict=True))


def before_answers(
    corpus: Corpus, view: View, succeeded: Sequence[Succession], own: Floats, holds: Floats
) -> EntrySources:
    """The most relevant facts that hold, and what an assistant said before they took the place of others or were
    corrected: it may repeat what held then, in whatever words.
    """
    changed, times = corpus.corrected[: view.size].copy(), corpus.times
    for place, after in succeeded:
        changed[after] = max(changed[after], corpus.until[place])
    facts = corpus.is_statement[: view.size] & view.there & (holds >= 0) & (own > 0)
    best: np.float32 = np.max(own, where=facts, initial=0)
    answers = np.flatnonzero(corpus.of_assistant[: view.size] & view.there)
    pairs: list[tuple[int, int]] = []
    for place in np.flatnonzero(facts & (changed > 0) & (own >= AS_WELL * best)).tolist():
        earlier = answers[(times[answers] < changed[place]) & (own[place] >= _IN_SIGHT * own[answers])]
        pairs += [(place, answer) for answer in earlier.tolist()]
    return EntrySources.of_list(pairs)


def behind_facts(corpus: Corpus, view: View, asked: Floats, total: Floats) -> Floats:
    """What episodes lose, in which people only asked (`asked` is 1 for their turns), to come behind the best fact or plan
    unless that is beside the point.
    """
    pairs, size = corpus.entry_sources(view), view.size
    said = pairs.where(corpus.of_person[pairs.turns])
    asks, tells = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    asks[said.entries], tells[said.entries[asked[said.turns] < 1]] = True, True
    best: np.float32 = np.max(total, where=corpus.is_statement[:size] & view.there, initial=-np.inf)
    behind = corpus.is_episode[:size] & asks & ~tells & (best >= _NOT_BESIDE * total)
    lost: Floats = np.where(behind, np.minimum(best - _A_LITTLE - total, np.float32(0)), np.float32(0))
    return lost


def lifted(pairs: EntrySources, own: Floats, total: Floats) -> Floats:
    """What an entry lacks to come before the rows that it is paired with; of several entries the most relevant first."""
    relevance = np.maximum(own[pairs.entries], np.float32(0))
    lacking = total[pairs.turns] - total[pairs.entries] + _A_LITTLE * (1 + relevance)
    gained: Floats = np.zeros_like(total)
    np.maximum.at(gained, pairs.entries, lacking)
    return gained


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
    told = _words_told(entry)
    return len(told & said) >= _RESTATED * len(told)


def _words_told(entry: IndexRow) -> set[str]:
    return set(words_in(entry.text)) - set(words_in(entry.sender))
