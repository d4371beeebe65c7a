"""How entries take part in ranking: they bring their turns along, stand where those stand, and hold or no longer do."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from recollect.memory.corpus import Corpus
from recollect.memory.corpus_view import View
from recollect.memory.dates import Span

Floats = npt.NDArray[np.float32]
_NEVER = 1 << 62


def brought(corpus: Corpus, view: View, values: Floats, holds: Floats) -> Floats:
    """What a turn gets of the best entry that came from it, and loses where one that does not hold is better."""
    zero = np.float32(0)
    helped = _of_the_best(corpus, view, np.where(holds < 0, zero, values))
    held_back = _of_the_best(corpus, view, np.where(holds < 0, values, zero))
    gained: Floats = helped - np.where(held_back > helped, held_back, zero)
    return gained


def _of_the_best(corpus: Corpus, view: View, values: Floats) -> Floats:
    """Of episodes between people alone: with an assistant, one is made of so much that it points at nothing."""
    citations, is_episode = corpus.citations(view), corpus.is_episode[: view.size]
    by_episodes = citations.best_of_entries(np.where(is_episode, values, np.float32(0)))
    by_episodes[corpus.context(view).with_assistant] = 0
    by_others = citations.best_of_entries(np.where(is_episode, np.float32(0), values))
    return np.maximum(by_episodes, by_others)


def standing(corpus: Corpus, view: View, values: Floats) -> Floats:
    """What an entry gets of the best turn that it came from: who said it, and what stands around it."""
    return corpus.citations(view).best_of_turns(values)


def validity(
    corpus: Corpus, view: View, spans: Sequence[Span], now: int | None, held: float, superseded: float
) -> Floats:
    """Of an entry that held at a time that is named, `held`; of one that held no more or not yet, `superseded`.

    Not yet: it took the place of another later than is asked about.
    """
    until, since = corpus.until[: view.size], corpus.times[: view.size]
    has_held = np.zeros(view.size, np.bool_)
    named = [(span.begin, span.end) for span in spans if span.begin is not None and span.end is not None]
    for begin, end in named:
        has_held |= (since < end) & ((until == 0) | (until > begin))
    is_over = (until > 0) & (until <= (now or _NEVER))
    succeeds = np.isin(since, until[(until > 0) & view.is_entry])
    is_early = succeeds & (bool(named) | (since > (now or _NEVER)))
    values = np.where(has_held, np.float32(held), np.float32(superseded) * (is_over | is_early))
    return np.where(view.is_entry, values, np.float32(0)).astype(np.float32)
