"""An owner's rows with their scores: what hits are chosen from."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from recollect.memory.corpus import Corpus
from recollect.memory.corpus_view import View
from recollect.memory.hits import Chosen, Selection, choose
from recollect.memory.index_row import TURN
from recollect.memory.rank import Scores


@dataclass(frozen=True, slots=True)
class Ranked:
    """An owner's rows at one moment, scored."""

    corpus: Corpus
    view: View
    scores: Scores
    words: tuple[str, ...]

    def choose(self, selection: Selection, without: Set[int]) -> Chosen:
        return choose(self.corpus, self.view, self.scores, self.words, selection, without)

    def turns_at(self, places: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Of the rows at these places, those that are turns: the thread, and the position in it."""
        rows = ((place, self.view.rows[place]) for place in places)
        return {place: (row.thread_id, row.position) for place, row in rows if row.type == TURN}

    def entries_at(self, places: Sequence[int]) -> dict[int, str]:
        """Of the rows at these places, those that are entries, by their ids."""
        rows = ((place, self.view.rows[place]) for place in places)
        return {place: row.row_id for place, row in rows if row.is_entry}

    def turns_of(self, threads: Set[str]) -> dict[int, tuple[str, int]]:
        rows = self.view.rows
        return self.turns_at([place for place in range(self.view.size) if rows[place].thread_id in threads])
