"""Ranking: every row of the owner gets every part of the score, each part scaled to the owner's own rows."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.corpus_view import Counts, EntrySources, Postings, View
from recollect.domain.recall.dates import Span, within
from recollect.domain.recall.entry_rank import (
    before_answers,
    behind_facts,
    brought,
    ends_of_turns,
    lifted,
    preferred,
    successions,
    told,
    validity,
)
from recollect.domain.recall.query import Query, asked_again, speakers_named
from recollect.domain.recall.weights import Weights
from recollect.domain.recall.words import is_question

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

_MOST_ASKING = 100
"""Only the best N turns are checked for questions and answers."""
_K1, _B = 0.7, 0.6
"""BM25: how soon a repeated word stops counting, and how much long rows are held back."""
_MOST_TELLING = 5
"""What only asks comes behind so many that tell something, and no further: the question itself may be what is sought."""
_NEAR_POWER = np.float32(1.5)
"""A neighbourhood is of many messages, most of which have something of what is asked: the best count more than others."""
_A_LITTLE = np.float32(0.001)
_DEFAULT = Weights()


@dataclass(slots=True)
class Scores:
    """The score of every row, and the parts it is the sum of."""

    total: Floats
    parts: dict[str, Floats] = field(default_factory=dict)
    stand_ins: EntrySources = field(default_factory=EntrySources.none)
    """Facts, and the turns that each of them stands for: one hit. A line of the profile and its facts likewise."""
    ended: dict[int, int] = field(default_factory=dict)
    """Turns of which nothing holds any more, by their places, and since when."""
    ended_in_part: dict[int, int] = field(default_factory=dict)
    """Turns whose fact about the query has ended, while another is still valid; by place, and since when."""
    wants_whole: bool = False
    """Whether a summary is asked for, or a time alone: what happened then."""
    instead_of: EntrySources = field(default_factory=EntrySources.none)
    """Entries that hold, and the rows that each of them comes before, because they do not hold any more."""

    def why(self, place: int) -> dict[str, float]:
        """The parts of one row's score; they add up to it."""
        return {name: round(float(part[place]), 4) for name, part in self.parts.items() if part[place]}


def score(
    corpus: Corpus,
    view: View,
    query: Query,
    vector: Floats | None,
    weights: Weights = _DEFAULT,
    *,
    now: int | None = None,
) -> Scores:
    """Score all rows of a view. Without a vector, or where a row has none yet, words speak for meaning.

    `now` is the moment of asking: what was superseded before it holds no more. Unset: whatever was superseded.
    """
    if not view.content.count:
        return Scores(np.zeros(view.size, np.float32))
    asking = _asking(corpus, view, query, weights)
    relevance = _relevance(corpus, view, query, vector, weights, asking)
    parts = {
        **relevance,
        **_dates(corpus, view, query, weights, relevance["words"]),
        **_circumstances(corpus, view, query, weights),
        **_precedence(corpus, view, query, weights),
    }
    total: Floats = np.sum(list(parts.values()), axis=0, dtype=np.float32)
    if (inherited := _inherited(corpus, view, query, weights, total)) is not None:
        parts["inherited"] = inherited
        total += inherited
    if view.is_entry.any():
        own = parts["words"] + parts.get("meaning", np.float32(0))
        succeeded = successions(corpus, view)
        holds = validity(corpus, view, succeeded, query.spans, now, weights.held, weights.superseded)
        parts |= {
            "validity": holds,
            "fact": np.float32(weights.fact) * corpus.is_statement[: view.size],
            # Of the best turn that an entry came from: who said it, and what stands around it.
            "turns": corpus.entry_sources(view).best_of_turns(total - own),
            "pinned": np.float32(weights.pinned) * (corpus.pinned[: view.size] & (parts["words"] > 0)),
            "brought": brought(corpus, view, np.float32(weights.brought) * own, holds),
        }
        for name in ("validity", "fact", "turns", "pinned", "brought"):
            total += parts[name]
        parts["instead"], over = preferred(corpus, view, succeeded, query.words, own, holds, total)
        total += parts["instead"]
        stand_ins = told(corpus, view, own)
        whole = query.wants_summary or _asks_for_a_time_alone(corpus, view, query, parts["words"])
        wholly, in_part, written = ends_of_turns(corpus, view, own, now)
        answers = before_answers(corpus, view, succeeded, own, holds)
        parts["sources"] = lifted(stand_ins.with_those_of(written), own, total)
        parts["sources"] += lifted(answers, own, total + parts["sources"])
        total += parts["sources"]
        over = over.with_those_of(written, answers)
        scores = Scores(total, parts, stand_ins, wholly, in_part, whole, over)
    else:
        scores = Scores(total, parts)
    if _goes_by_questions(query, weights):
        scores.parts["question"] = _behind(corpus, view, query, weights, asking, scores.total)
        scores.total += scores.parts["question"]
    return scores


def _goes_by_questions(query: Query, weights: Weights) -> bool:
    """Not where all that was talked about is wanted, questions too."""
    return bool(weights.question) and not query.wants_summary and not query.wants_order


def _asking(corpus: Corpus, view: View, query: Query, weights: Weights) -> Flags:
    """Bare questions: no row is measured or lifted by them. Among people a question belongs to its answer."""
    bare = corpus.only_asks[: view.size] & ~corpus.context(view).among_people
    return bare & _goes_by_questions(query, weights)


def _behind(
    corpus: Corpus, view: View, query: Query, weights: Weights, asking: Flags, total: Floats
) -> Floats:
    """What turns lose for asking what the query asks."""
    places = np.flatnonzero(view.there & ~view.is_entry & ~corpus.context(view).among_people)
    best = places[np.argsort(-total[places], kind="stable")][:_MOST_ASKING].tolist()
    asks, words = is_question(query.text), frozenset(query.words)
    shares = (asking & asks).astype(np.float32)
    rows = [(shares[at], view.rows[at].read_as) for at in best]
    shares[best] = [share or asked_again(text, query.text, words, asks=asks) for share, text in rows]
    lost = np.float32(weights.question) * shares
    only_ask = view.there & (asking | (shares >= 1))
    telling = (total + lost)[view.there & ~only_ask]
    if only_ask.any() and len(telling):
        told = np.sort(telling)[-_MOST_TELLING if asks else -1 :]
        over = (total + lost)[only_ask].max() - told[0] + _A_LITTLE
        lost -= np.maximum(over, np.float32(0)) * only_ask
    return lost + behind_facts(corpus, view, shares, total + lost)


def _relevance(
    corpus: Corpus, view: View, query: Query, vector: Floats | None, weights: Weights, asking: Flags
) -> dict[str, Floats]:
    """By words and by meaning: of the row itself, and of what stands around it."""
    context, is_hybrid = corpus.context(view), vector is not None and bool(view.embedded.any())
    alone = context.with_assistant | (corpus.of_person[: view.size] & ~context.among_people)
    near: Floats = np.where(alone, weights.near_assistant, weights.near_people).astype(np.float32)
    near[view.is_entry] = 0
    enough = weights.enough if is_hybrid else 0.0
    words, near_words = _by_words(corpus, view, query, weights, asking, enough)
    words[asking] = np.minimum(words[asking], np.float32(1))
    parts: dict[str, Floats] = {"words": np.float32(weights.words) * words, "near_words": near * near_words}
    if vector is not None and is_hybrid:
        meaning, near_meaning = _by_meaning(corpus, view, vector, asking, centred=weights.centred)
        meaning[asking] = np.minimum(meaning[asking], np.float32(1))
        parts["meaning"] = np.float32(weights.meaning) * _meaning_or_words(view, meaning, words)
        parts["near_meaning"] = np.float32(weights.near_meaning) * near * near_meaning
    return parts


def _dates(corpus: Corpus, view: View, query: Query, weights: Weights, words: Floats) -> dict[str, Floats]:
    """When it was said, where the query names a time; the day meant counts more for what has words of the query."""
    if not query.spans:
        return {}
    times = corpus.times[: view.size]
    on_date = np.float32(weights.date) * within(times, query.spans)
    is_meant = within(times, _meant(query))
    in_words = (words > 0) | (not (words * is_meant).any())
    then = np.where(in_words, np.float32(weights.meant), np.float32(weights.meant_alone))
    return {"date": np.maximum(on_date, then * is_meant)}


def _asks_for_a_time_alone(corpus: Corpus, view: View, query: Query, words: Floats) -> bool:
    """Something was said at the time that the query names, and nothing of it has a word of the query."""
    then = within(corpus.times[: view.size], query.spans) & view.counted
    return bool(then.any()) and not (words[then] > 0).any()


def _circumstances(corpus: Corpus, view: View, query: Query, weights: Weights) -> dict[str, Floats]:
    """Who said it, and whether it is the kind of text that answers."""
    size = view.size
    people = ~corpus.context(view).with_assistant
    asking = np.float32(weights.asking) * np.where(people, corpus.question_share[:size], np.float32(0))
    parts: dict[str, Floats] = {"asking": asking}
    named = speakers_named(query.words, view.names)
    if len(named) == 1:
        parts["speaker"] = np.float32(weights.speaker) * (
            corpus.senders[:size] == corpus.sender_codes[named[0]]
        )
    return parts


def _precedence(corpus: Corpus, view: View, query: Query, weights: Weights) -> dict[str, Floats]:
    """Where a person talks to an assistant, what they said themselves comes first, unless all is wanted."""
    if query.wants_summary:
        return {}
    size = view.size
    of_user = corpus.context(view).of_user
    parts: dict[str, Floats] = {"user": np.float32(weights.user) * of_user}
    if not query.wants_order:
        parts["instruction"] = np.float32(weights.instruction) * (of_user & corpus.instructs[:size])
        parts["preference"] = np.float32(weights.preference) * (of_user & corpus.prefers[:size])
    return parts


def _inherited(corpus: Corpus, view: View, query: Query, weights: Weights, total: Floats) -> Floats | None:
    """Where replies are wanted, a reply shares in the score of what it replies to."""
    if not query.of_assistant and not query.wants_summary:
        return None
    share: Floats = np.float32(weights.reply) * corpus.context(view).replies
    return share * total[view.before]


def _by_words(
    corpus: Corpus, view: View, query: Query, weights: Weights, asking: Flags, enough: float
) -> tuple[Floats, Floats]:
    """BM25 of every row, and of every row's neighbourhood taken together.

    The best has 1, or less where it holds less than the share `enough` of the query's information: of what its words,
    rare ones weighing more, bring together. Then a row's own words lose twice as fast as its neighbourhood's, which
    are of many rows.
    """
    size, counted = view.size, view.counted
    count = int(counted.sum())
    context = corpus.context(view)
    mean_lengths = _mean_lengths(corpus, view)
    words = np.zeros(size, np.float32)
    near = np.zeros(size, np.float32)
    wanted = near_wanted = 0.0
    at_the_time = (within(corpus.times[:size], _meant(query)) & view.there).any()
    own = dict.fromkeys(query.words if at_the_time else query.words + query.day_words, np.float32(1))
    counted_for = dict.fromkeys(query.answered_before, np.float32(weights.answered_before))
    counted_for |= dict.fromkeys(query.asked_before, np.float32(weights.asked_before))
    for word, share in (counted_for | own).items():
        rarity = near_rarity = _rarity(0, count)
        if (found := corpus.postings.get(word)) is not None:
            rows, counts, head_counts = _holding(found, view)
            here = counted[rows]
            rarity = _rarity(int(here.sum()) or len(rows), count)
            words[rows] += (
                share * np.float32(rarity) * _bm25(counts, corpus.lengths[rows], mean_lengths[rows])
            )
            lends = here & ~asking[rows]
            around, sums = context.spread(rows[lends], head_counts[lends])
            near_rarity = _rarity(len(around), count)
            near_lengths = context.near_lengths[around]
            near[around] += (
                share * np.float32(near_rarity) * _bm25(sums, near_lengths, context.mean_near_length)
            )
        if word in own:
            wanted, near_wanted = wanted + rarity, near_wanted + near_rarity
    near_share = np.maximum(_scaled(near, view, asking), np.float32(0)) ** _NEAR_POWER
    near_share *= _covered(_highest(near, view, asking), enough * near_wanted)
    highest = _highest(words, view, asking)
    return _share_of(highest, words) * _covered(highest, enough * wanted) ** 2, near_share


def _mean_lengths(corpus: Corpus, view: View) -> Floats:
    """What each row's length is compared with: that of turns and notes, or that of entries."""
    lengths = corpus.lengths[: view.size]
    means: Floats = np.full(view.size, corpus.context(view).mean_length, np.float32)
    entries = view.is_entry & view.there
    if entries.any():
        means[entries] = max(1.0, float(lengths[entries].mean()))
    return means


def _holding(found: Postings, view: View) -> tuple[npt.NDArray[np.int32], Counts, Counts]:
    """Of the rows that hold a word, those of a view, with their counts."""
    end = int(np.searchsorted(found.rows, view.size))
    rows, counts, head_counts = found.rows[:end], found.counts[:end], found.head_counts[:end]
    if view.is_full:
        return rows, counts, head_counts
    there = view.there[rows]
    return rows[there], counts[there], head_counts[there]


def _rarity(holding: int, size: int) -> float:
    """What a word tells that so many of the rows hold, in bits but for a factor."""
    return float(np.log(1 + (size - holding + 0.5) / (holding + 0.5)))


def _bm25(counts: Counts | Floats, lengths: npt.NDArray[np.int32] | Floats, mean: float | Floats) -> Floats:
    """How much of a word's rarity each row gets: 1 for holding it once, in a row of mean length."""
    often = counts.astype(np.float32)
    damping = np.float32(_K1 * (1 - _B)) + np.float32(_K1 * _B) * (lengths.astype(np.float32) / mean)
    result: Floats = (np.float32(_K1 + 1) * often / (often + damping)).astype(np.float32)
    return result


def _covered(brought: float, wanted: float) -> np.float32:
    """From 0 to 1."""
    return np.float32(min(1.0, brought / wanted) if wanted > 0 else 1.0)


def _by_meaning(
    corpus: Corpus, view: View, vector: Floats, asking: Flags, *, centred: bool
) -> tuple[Floats, Floats]:
    """Cosines to the query, of every row and averaged over its neighbourhood; relative to the mean of all."""
    size = view.size
    vectors = corpus.vectors[:size]
    if centred:
        mean, to_mean = corpus.centre(view)
        asked = vector - mean
        asked /= max(float(np.linalg.norm(asked)), 1e-9)
        lengths = np.sqrt(np.maximum(1 - 2 * to_mean + float(mean @ mean), 1e-9))
        cosines = (vectors @ asked - np.float32(mean @ asked)) / lengths
    else:
        cosines = vectors @ vector
    of_many = view.embedded & view.counted
    unknown = cosines[of_many if of_many.any() else view.embedded].mean()
    cosines = np.where(view.embedded, cosines, unknown).astype(np.float32)
    lent = np.where(asking, unknown, cosines).astype(np.float32)
    near = np.maximum(_scaled(corpus.context(view).averaged(lent), view, asking), np.float32(0))
    return _scaled(cosines, view, asking), near**_NEAR_POWER


def _meant(query: Query) -> list[Span]:
    return [span for span in query.spans if span.is_meant]


def _meaning_or_words(view: View, meaning: Floats, words: Floats) -> Floats:
    """A row that waits for its vector gets what its words would bring the best row that has words and vector."""
    with_both = np.where(view.embedded, words, np.float32(0))
    best = int(with_both.argmax())
    telling = meaning[best] if with_both[best] else np.float32(1)
    waiting: Floats = telling * words / max(float(words.max()), 1e-9)
    return np.where(view.embedded, meaning, waiting)


def _share_of(highest: float, values: Floats) -> Floats:
    """From zero, so that a word which every row holds still counts; the best has 1. Entries may have more."""
    return values / np.float32(highest) if highest > 0 else values


def _highest(values: Floats, view: View, asking: Flags) -> float:
    """Of turns and notes that tell something; else of entries, else of all."""
    telling = np.where(asking, np.float32(0), values)
    return float(view.present(telling).max()) or float(telling.max()) or float(values.max())


def _scaled(values: Floats, view: View, asking: Flags) -> Floats:
    """From 0 for the lowest of the rows that are there, without those that only ask, to 1 for the highest."""
    telling = view.counted & ~asking
    present = values[telling] if telling.any() else view.present(values)
    low, high = float(present.min()), float(present.max())
    return (values - np.float32(low)) / np.float32(high - low) if high > low else np.zeros_like(values)
