"""How alike a query and what was found for it are, as a number that means the same for every query."""

from collections.abc import Sequence

import numpy as np

from recollect.memory.index_row import Vectors
from recollect.service.corpora import Corpora


class Likeness:
    """Cosines. The parts of a hit's score are scaled to the owner's rows, so that the best row is always at the top."""

    def __init__(self, corpora: Corpora) -> None:
        self._corpora = corpora

    async def of(self, space: str, user_id: str, vector: Vectors, row_ids: Sequence[str]) -> dict[str, float]:
        """Of the query's vector and each row's; a row that has none yet is left out."""
        corpus = (await self._corpora.get(space, user_id)).corpus
        if corpus.dimensions != len(vector):
            return {}
        places = [(row_id, corpus.places[row_id]) for row_id in row_ids if row_id in corpus.places]
        return {
            row_id: float(np.dot(corpus.vectors[place], vector))
            for row_id, place in places
            if corpus.embedded[place]
        }
