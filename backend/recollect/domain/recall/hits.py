"""An owner's rows with their scores: what hits are chosen from."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from recollect.domain.entries.entry import EPISODES, PROFILE
from recollect.domain.paths import AGENT
from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.corpus_view import View
from recollect.domain.recall.entry_rank import AS_WELL, restates, with_sources
from recollect.domain.recall.passages import best_passage
from recollect.domain.recall.rank import Floats, Scores
from recollect.domain.recall.rows import TURN, IndexRow, sameness

Mode = Literal["hybrid", "keyword", "vector"]
RowType = Literal[
    "turn", "stretch", "note", "episode", "episodes", "fact", "facts", "foresight", "profile", "case", "cases"
]
_SINGULAR = {"episodes": "episode", "facts": "fact", "cases": "case"}
STRETCH = "stretch"
"""A turn with those around it, as one hit."""
PASSAGE_CHARS = 800
"""Of a longer text its best passage is shown."""
_LEAST_PASSAGE_CHARS = 240
_BUDGET_SHARE = 8
"""Within a budget no hit takes more than this part of it."""
_WHOLE = 2.0
"""An episode with so many times the relevance of its best turn answers as a whole."""
_LOOK_FURTHER = 4
"""How many times `top_k` are looked at for hits that still fit."""
_SLICE = 2_000
"""So many rows are put in order at first, more where these say too little."""
_MERGED_IDS = 20
"""So many messages that say the same are named in one hit."""
_LEAST_MORE_TOKENS = 20
"""Less than this makes no passage longer."""
_SAMPLE_CHARS = 10_000
"""By so much of a text it is judged how many tokens its characters make."""
_CHARS_AT_ONCE = 50_000
"""Looked through in one go: other threads must not wait long."""
_unspaced = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
).findall


@dataclass(frozen=True, slots=True)
class Scope:
    """What a search is narrowed to, within its owner."""

    types: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    thread_id: str | None = None
    agent_id: str | None = None
    since: int | None = None
    until: int | None = None
    but_not: frozenset[str] = frozenset()
    """Types of rows that are left out."""

    def takes(self, row: IndexRow) -> bool:
        """Rows of any of the types, with any of the tags, from `since` until before `until`."""
        return self._takes_kind_and_time(row) and self._takes_place(row, self.tags)

    def takes_entry(self, entry: IndexRow, turns: Sequence[IndexRow]) -> bool:
        """An entry is where any of the turns is that it came from. A profile without tags is everywhere."""
        placed = turns or [entry]
        is_free = entry.type == PROFILE and not any(turn.tags for turn in placed)
        tags: frozenset[str] = frozenset() if is_free else self.tags
        return self._takes_kind_and_time(entry) and any(self._takes_place(turn, tags) for turn in placed)

    def asks_for(self, row: IndexRow) -> bool:
        """Whether its type is among those that are named."""
        return (
            row.type in self.types
            or _SINGULAR.get(row.type) in self.types
            or (row.type == TURN and STRETCH in self.types)
        )

    def _takes_kind_and_time(self, row: IndexRow) -> bool:
        return (
            (not self.types or self.asks_for(row))
            and row.type not in self.but_not
            and (self.since is None or row.timestamp >= self.since)
            and (self.until is None or row.timestamp < self.until)
        )

    def _takes_place(self, row: IndexRow, tags: frozenset[str]) -> bool:
        return (
            (not tags or not tags.isdisjoint(row.tags))
            and self.thread_id in (None, row.thread_id)
            and self.agent_id in (None, row.agent_id or AGENT)
        )


@dataclass(slots=True)
class Hit:
    """One row that was found. `text` is a passage of it where `passage` says from where to where."""

    row: IndexRow
    text: str
    score: float
    why: dict[str, float]
    message_ids: list[str]
    passage: tuple[int, int] | None = None
    embedded: bool = False
    """Whether it can be found by its meaning too, or by its words alone so far."""
    places: list[int] = field(default_factory=list)
    """Of all rows that it shows, or whose ids it has."""
    until: int = 0
    """When the row, or the part the query asks about, stops being valid; 0: unknown."""
    repeated: int = 0
    """How many other rows say the same; the ids of the first of them are among `message_ids`."""
    said: list["Hit"] = field(default_factory=list)
    """Of a fact, a plan or a line of the profile: the turns that it stands for, where it does not answer as well."""
    instead_of: list[str] = field(default_factory=list)
    """The ids of rows that it comes before because they do not hold any more, or may not."""

    @property
    def tokens(self) -> int:
        """About how many it takes, with what was said."""
        return sum(tokens(each.text) for each in (self, *self.said))


@dataclass(slots=True)
class Chosen:
    """Hits, and what was left out for want of tokens."""

    hits: list[Hit] = field(default_factory=list)
    too_long: int = 0
    """How many of those that were looked at did not fit any more."""


@dataclass(slots=True)
class Selection:
    """How hits are chosen from the scores."""

    mode: Mode = "hybrid"
    scope: Scope = field(default_factory=Scope)
    top_k: int = 10
    max_tokens: int | None = None
    passages: bool = True

    @property
    def longest(self) -> int:
        if self.max_tokens is None:
            return PASSAGE_CHARS
        share = max(_LEAST_PASSAGE_CHARS, 4 * self.max_tokens // _BUDGET_SHARE)
        return min(PASSAGE_CHARS, share, 4 * self.max_tokens)


def _merge(hit: Hit, row: IndexRow, places: list[int]) -> None:
    if hit.repeated < _MERGED_IDS:
        hit.message_ids += [each for each in row.message_ids if each not in hit.message_ids]
        hit.places += places
    hit.repeated += 1


def lengthen(hits: Sequence[Hit], words: Sequence[str], left: int) -> None:
    """Spend what is left of a budget on longer passages, the best hit first."""
    for hit in hits:
        if left < _LEAST_MORE_TOKENS:
            return
        if hit.passage is None:
            continue
        cost = tokens(hit.text)
        characters = int(4 * (cost + left) / _tokens_in_four(hit.row.text))
        text, passage = best_passage(hit.row.text, words, characters)
        if cost < tokens(text) <= cost + left:
            left -= tokens(text) - cost
            hit.text, hit.passage = text, passage


def _candidates(
    ranked: "Ranked", selection: Selection, without: Set[int]
) -> Iterator[tuple[list[int], IndexRow]]:
    """Rows with their places, the best first, without turns that a better entry tells; where stretches are wanted,
    turns with those around them that no better one has, the turn's own place first.
    """
    corpus, view, covered = ranked.corpus, ranked.view, set(without)
    told, shown = set[int](), set[int]()
    retold: dict[int, IndexRow] = {}
    for place in _best_first(ranked, selection):
        row = view.rows[place]
        if (ended := ranked.scores.ended.get(place)) is not None:
            row = replace(row, until=ended)
        if place in without or place in told:
            continue
        if row.is_entry:
            cited = corpus.entry_sources(view).of(place)
            if without.isdisjoint(cited) and _shows_entry(ranked, place, cited, shown, selection.scope):
                told.update(ranked.scores.stand_ins.of(place))
                if row.type == EPISODES:
                    retold |= dict.fromkeys(cited, row)
                yield [place, *cited], with_sources(row, [view.rows[each] for each in cited])
        elif place in retold and restates(row, [retold[place]]):
            continue
        elif STRETCH not in selection.scope.types or row.type != TURN:
            shown.add(place)
            yield [place], row
        elif place not in covered:
            around = [
                each
                for each in corpus.around(place, view)
                if each not in covered and selection.scope.takes(view.rows[each])
            ]
            covered.update(around)
            others = [each for each in around if each != place]
            yield [place, *others], _stretch([view.rows[each] for each in around], row)


def _shows_entry(ranked: "Ranked", place: int, cited: Sequence[int], shown: Set[int], scope: Scope) -> bool:
    """Not one that came from turns of which none is left; nor, unless it is asked for, or a person wrote or pinned it,
    one whose turns are hits and say the same: a fact, marked alike, or an episode or a case that answers no better.
    """
    rows = ranked.view.rows
    entry, turns = rows[place], [rows[each] for each in cited]
    if (entry.sources and not turns) or not scope.takes_entry(entry, turns):
        return False
    if entry.edited or entry.pinned or scope.asks_for(entry):
        return True
    if ranked.corpus.is_statement[place]:
        ended = ranked.scores.ended.keys() | ranked.scores.ended_in_part.keys()
        alike = shown & ended if entry.until else shown
        return alike.isdisjoint(cited)
    taken = [each for each in cited if scope.takes(rows[each])]
    if not taken or ranked.answers_as_a_whole(place, taken):
        return True
    return not restates(entry, [rows[each] for each in taken])


def _stretch(rows: Sequence[IndexRow], middle: IndexRow) -> IndexRow:
    """A turn with those around it, as one text that says who spoke."""
    return replace(
        middle,
        row_id=f"{middle.row_id}~",
        type=STRETCH,
        text="\n".join(f"{row.sender or row.role}: {row.text}" for row in rows),
        message_ids=tuple(each for row in rows for each in row.message_ids),
    )


def _shown(text: str, words: Sequence[str], selection: Selection) -> tuple[str, tuple[int, int] | None]:
    if not selection.passages:
        return text, None
    longest = selection.longest
    if selection.max_tokens is not None and not text.isascii():
        # Where a character is a token, a passage of the same cost has fewer of them.
        longest = max(1, int(longest / _tokens_in_four(text)))
    return best_passage(text, words, longest)


def _tokens_in_four(text: str) -> float:
    """About how many tokens four characters of a text make: one, up to four in scripts without spaces."""
    sample = text[:_SAMPLE_CHARS]
    return 1 + 3 * _wide(sample) / max(1, len(sample))


def tokens(text: str) -> int:
    """About how many tokens a model counts: four characters each; one each in scripts without spaces."""
    wide = _wide(text)
    return wide + (len(text) - wide + 3) // 4


def _wide(text: str) -> int:
    """How many of its characters are of a script without spaces."""
    if text.isascii():
        return 0
    return sum(
        len(_unspaced(text, begin, begin + _CHARS_AT_ONCE)) for begin in range(0, len(text), _CHARS_AT_ONCE)
    )


def _best_first(ranked: "Ranked", selection: Selection) -> Iterator[int]:
    """Those in scope; of equal ones the earlier, so that what comes first does not depend on how many are asked for."""
    scope, view = selection.scope, ranked.view
    eligible = _eligible(ranked, selection.mode)
    times = ranked.corpus.times[: view.size]
    if scope.since is not None:
        eligible &= times >= scope.since
    if scope.until is not None:
        eligible &= times < scope.until
    places = np.nonzero(eligible)[0]
    first = selection.top_k * _LOOK_FURTHER + _SLICE
    for some in _by_score(places, ranked.scores.total, first):
        for place in some:
            row = view.rows[place]
            if row.is_entry or scope.takes(row):
                yield place


def _by_score(places: npt.NDArray[np.int64], total: Floats, first: int) -> Iterator[list[int]]:
    """The places in the order of their scores: about the first ones, and once these are used up, the others."""
    values = total[places]
    if len(places) > first:
        edge = np.partition(values, -first)[-first]
        best = values >= edge
        yield from _by_score(places[best], total, len(places))
        places, values = places[~best], values[~best]
    yield places[np.argsort(-values, kind="stable")].tolist()


def _eligible(ranked: "Ranked", mode: Mode) -> npt.NDArray[np.bool_]:
    """Rows that the search goes by, and what holds instead of them; by words also the turns of a fact that holds them."""
    view, scores = ranked.view, ranked.scores
    words = scores.parts.get("words", np.zeros(view.size, np.float32))
    eligible = np.zeros(view.size, np.bool_)
    if mode != "vector":
        eligible |= (words > 0) & view.there
    if mode != "keyword" and "meaning" in scores.parts:
        eligible |= view.embedded
    if view.is_entry.any():
        if mode != "vector":
            of_facts = np.where(ranked.corpus.is_episode[: view.size], np.float32(0), words)
            eligible |= ranked.corpus.entry_sources(view).best_of_entries(of_facts) > 0
        eligible |= scores.instead_of.best_of_turns(eligible.astype(np.float32)) > 0
    return eligible


@dataclass(frozen=True, slots=True)
class Ranked:
    """An owner's rows at one moment, scored."""

    corpus: Corpus
    view: View
    scores: Scores
    words: tuple[str, ...]

    def answers_as_a_whole(self, place: int, turns: Sequence[int]) -> bool:
        """Whether an episode is far more relevant than each of its turns; or better, where all of it is wanted."""
        if self.scores.wants_whole:
            return bool(self.scores.total[place] > self.scores.total[turns].max())
        return self._relevance(place) >= _WHOLE * max(map(self._relevance, turns))

    def _relevance(self, place: int) -> float:
        """By its own words and meaning."""
        parts = self.scores.parts
        return sum(float(parts[name][place]) for name in ("words", "meaning") if name in parts)

    def choose(self, selection: Selection, without: Set[int] = frozenset()) -> Chosen:
        """The best first. What says the same as a better hit adds its message ids to that one, some of them at most.

        Rows at the places in `without` are passed over, and entries that came from them.
        """
        said: dict[tuple[str, ...], Hit] = {}
        left = selection.max_tokens
        tried = too_long = 0
        for places, row in _candidates(self, selection, without):
            if len(said) >= selection.top_k or tried >= selection.top_k * _LOOK_FURTHER or left == 0:
                break
            key = sameness(row)
            if (twin := said.get(key)) is not None:
                _merge(twin, row, places)
                continue
            tried += 1
            hit = self._hit(places, row, selection)
            if left is not None:
                if hit.tokens > left and hit.said:
                    too_long, hit.said = too_long + 1, []
                if hit.tokens > left:
                    too_long += 1
                    continue
                left -= hit.tokens
            said[key] = hit
        return Chosen(list(said.values()), too_long)

    def _hit(self, places: list[int], row: IndexRow, selection: Selection) -> Hit:
        place, rows, scores = places[0], self.view.rows, self.scores
        text, passage = _shown(row.text, self.words, selection)
        told = (each for each in scores.stand_ins.of(place) if not rows[each].is_entry)
        told = (each for each in told if self._relevance(place) < AS_WELL * self._relevance(each))
        return Hit(
            row=row,
            text=text,
            score=round(float(scores.total[place]), 4),
            why=scores.why(place),
            message_ids=list(row.message_ids),
            passage=passage,
            embedded=bool(self.view.embedded[place]),
            places=places,
            until=row.until or scores.ended_in_part.get(place, 0),
            said=[self._hit([at], rows[at], selection) for at in told if selection.scope.takes(rows[at])],
            instead_of=[rows[each].row_id for each in scores.instead_of.of(place)],
        )

    def turns_at(self, places: Iterable[int]) -> dict[int, tuple[str, int]]:
        """Of the rows at these places, those that are turns: the thread, and the position in it."""
        rows = ((place, self.view.rows[place]) for place in places)
        return {place: (row.thread_id, row.position) for place, row in rows if row.type == TURN}

    def entries_at(self, places: Iterable[int]) -> dict[int, str]:
        """Of the rows at these places, those that are entries, by their ids."""
        return {place: row.row_id for place in places if (row := self.view.rows[place]).is_entry}

    def turns_of(self, threads: Set[str]) -> dict[int, tuple[str, int]]:
        rows = enumerate(self.view.rows[: self.view.size])
        return self.turns_at(place for place, row in rows if row.thread_id in threads)
