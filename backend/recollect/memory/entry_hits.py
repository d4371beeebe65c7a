"""Entries as hits: what they take over from the turns they came from, and when they only say those again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.memory.corpus import Corpus
from recollect.memory.corpus_view import View
from recollect.memory.index_row import IndexRow
from recollect.memory.words import words_in

_RESTATED = 0.5
"""An entry of whose words a turn holds so many says that turn again."""
_LOOKED_AT = 4_000
"""Characters of a turn."""


@dataclass(frozen=True, slots=True)
class Cited:
    """The turns that one entry came from, with their places."""

    places: list[int]
    rows: list[IndexRow]

    @property
    def message_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for row in self.rows for each in row.message_ids))


def cited_by(corpus: Corpus, view: View, entry: int) -> Cited:
    places = corpus.citations(view).of(entry)
    return Cited(places, [view.rows[place] for place in places])


def with_sources(entry: IndexRow, cited: Cited) -> IndexRow:
    """With the message ids and the tags of its turns, and their thread and agent where all have the same."""
    rows = cited.rows
    if not rows:
        return entry
    threads, agents = {row.thread_id for row in rows}, {row.agent_id for row in rows}
    return replace(
        entry,
        message_ids=cited.message_ids,
        tags=tuple(dict.fromkeys(tag for row in rows for tag in row.tags)),
        thread_id=threads.pop() if len(threads) == 1 else "",
        agent_id=agents.pop() if len(agents) == 1 else "",
    )


def restates(entry: IndexRow, turns: Sequence[IndexRow]) -> bool:
    """Whether an entry says little that these turns do not say: names and dates in it are theirs already."""
    said = set(words_in(" ".join(f"{turn.sender} {turn.text[:_LOOKED_AT]}" for turn in turns)))
    told = set(words_in(entry.text)) - set(words_in(entry.sender))
    return len(told & said) >= _RESTATED * len(told)
