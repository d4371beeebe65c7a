"""One owner's searchable rows in memory: postings, vectors, neighbours. Grows at its end; never shrinks.

Readers take `view()` and see the corpus as it was then, whatever is added meanwhile: what grows is written
beyond the end of every view first, and what a view refers to is replaced whole. One writer at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from recollect.memory.index_row import TURN, IndexRow, Vectors
from recollect.memory.neighbourhood import STRETCH_REACH, Neighbourhood, neighbourhood
from recollect.memory.postings import Postings, Terms
from recollect.memory.text_signs import (
    is_instruction,
    is_preference,
    is_question,
    question_share,
    tells_number,
    tells_time,
)
from recollect.memory.words import words_asked_for

HEAD_WORDS = 60
"""A message lends its neighbours its first words only: a long one would drown them."""
SESSION_GAP_MS = 3_600_000
"""A longer silence ends a neighbourhood."""
_FEW = 10
"""The mean of a few texts says little of what the next ones have in common: it is held back by so many zeros."""
_FIRST_CAPACITY = 256
_MOST_NAMES = 1000
_ROLE_NAMES = frozenset({"", "user", "assistant", "system", "tool", "me"})

Scalar = TypeVar("Scalar", bound=np.generic)
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class View:
    """The corpus at one moment: the first `size` rows, those with vectors marked, and those who speak in them."""

    size: int
    embedded: Flags
    vector_sum: npt.NDArray[np.float64]
    names: Mapping[str, frozenset[str]]


class Corpus:
    """Rows of one thread come in their order, and each row once."""

    def __init__(self, dimensions: int = 0) -> None:
        self.rows: list[IndexRow] = []
        self.places: dict[str, int] = {}
        """Where each row is, by its id."""
        self.postings: dict[str, Postings] = {}
        self.lengths = np.zeros(_FIRST_CAPACITY, np.int32)
        self.head_lengths = np.zeros(_FIRST_CAPACITY, np.int32)
        self.times = np.zeros(_FIRST_CAPACITY, np.int64)
        self.before = np.full(_FIRST_CAPACITY, -1, np.int32)
        """The row before each in its session, -1 for none."""
        self.after = np.full(_FIRST_CAPACITY, -1, np.int32)
        self.threads = np.zeros(_FIRST_CAPACITY, np.int32)
        self.senders = np.zeros(_FIRST_CAPACITY, np.int32)
        self.of_person = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether a user said it, and not an assistant or a tool."""
        self.of_assistant = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.asks = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether it holds a question."""
        self.instructs = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether it is a standing instruction."""
        self.prefers = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.tells_time = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.tells_number = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.question_share = np.zeros(_FIRST_CAPACITY, np.float32)
        """How much of it asks."""
        self.thread_codes: dict[str, int] = {}
        self.sender_codes: dict[str, int] = {}
        self.names: Mapping[str, frozenset[str]] = {}
        """Those who speak, each with the words of their name; not the roles that clients use for names."""
        self._size = 0
        """The rows that are complete."""
        self._text_bytes = 0
        self._posting_bytes = 0
        self._neighbourhood: tuple[int, Neighbourhood] | None = None
        self._centre: tuple[tuple[int, int], Floats, Floats] | None = None
        self._last_of_thread: dict[int, int] = {}
        self.dimensions = dimensions
        self.vectors: Vectors = np.zeros((_FIRST_CAPACITY if dimensions else 0, dimensions), np.float32)
        self.embedded: Flags = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.vector_sum = np.zeros(dimensions, np.float64)

    def __len__(self) -> int:
        return self._size

    def view(self) -> View:
        size = self._size
        return View(size, self.embedded[:size].copy(), self.vector_sum.copy(), self.names)

    def context(self, view: View) -> Neighbourhood:
        """What stands around each row of a view."""
        known = self._neighbourhood
        if known is None or known[0] != view.size:
            size = view.size
            threads = self.threads[:size]
            assisted = np.isin(threads, threads[self.of_assistant[:size]])
            made = neighbourhood(
                self.before[:size],
                self.after[:size],
                self.lengths[:size],
                self.head_lengths[:size],
                assisted,
                self.of_person[:size],
                self.asks[:size],
                self.senders[:size],
            )
            known = self._neighbourhood = (size, made)
        return known[1]

    def around(self, place: int, view: View) -> list[int]:
        """A row and its neighbours, in their order."""
        found = [place, *(int(step[place]) for step, _ in self.context(view).steps[: 2 * STRETCH_REACH])]
        return sorted(each for each in found if each >= 0)

    def centre(self, view: View) -> tuple[Floats, Floats]:
        """The mean of all vectors, and every row's product with it."""
        number = int(view.embedded.sum())
        known = self._centre
        if known is None or known[0] != (view.size, number):
            mean = (view.vector_sum / (number + _FEW)).astype(np.float32)
            known = self._centre = ((view.size, number), mean, self.vectors[: view.size] @ mean)
        return known[1], known[2]

    @property
    def bytes_used(self) -> int:
        """About how much memory it takes."""
        arrays = self.vectors.nbytes + 64 * len(self.times)
        return arrays + self._posting_bytes + self._text_bytes

    def extend(self, rows: Sequence[IndexRow], words: Sequence[str]) -> None:
        """Add rows at the end, each with its index terms."""
        if len(rows) != len(words):
            raise ValueError(f"{len(rows)} rows with the words of {len(words)}")
        first, size = self._size, self._size + len(rows)
        self._reserve(size)
        terms = Terms(words)
        self.lengths[first:size] = terms.lengths
        self.head_lengths[first:size] = np.minimum(terms.lengths, HEAD_WORDS)
        for place, row in enumerate(rows, first):
            self._place(place, row)
        for word, found in terms.postings(first, HEAD_WORDS):
            known = self.postings.get(word)
            self.postings[word] = found if known is None else known.followed_by(found)
            self._posting_bytes += 8 * len(found.rows) + (300 if known is None else 0)
        self._size = size

    def set_vectors(self, row_ids: Sequence[str], vectors: Vectors) -> None:
        """Give rows their vectors; ids that are not here are left out."""
        if not self.dimensions:
            self._take_dimensions(vectors.shape[1])
        for row_id, vector in zip(row_ids, vectors, strict=True):
            place = self.places.get(row_id)
            if place is not None and not self.embedded[place]:
                self.vectors[place] = vector
                self.vector_sum = self.vector_sum + vector
                self.embedded[place] = True

    def take_all_vectors(self, vectors: Vectors, has_vector: Flags) -> None:
        """The vectors of all rows at once, in their order: what `set_vectors` does, for a corpus just read."""
        if not vectors.shape[1] or not has_vector.any():
            return
        self._take_dimensions(vectors.shape[1])
        size = len(has_vector)
        self.vectors[:size] = vectors
        self.embedded[:size] = has_vector
        self.vector_sum = vectors[has_vector].sum(axis=0, dtype=np.float64)

    def _place(self, place: int, row: IndexRow) -> None:
        thread = self.thread_codes.setdefault(
            f"{row.type}\n{row.thread_id or row.path}", len(self.thread_codes)
        )
        self.threads[place] = thread
        self.senders[place] = self.sender_codes.setdefault(row.sender, len(self.sender_codes))
        self.times[place] = row.timestamp
        self.of_person[place] = row.role == "user"
        self.asks[place] = is_question(row.text)
        self.question_share[place] = question_share(row.text)
        self.instructs[place] = row.role == "user" and is_instruction(row.text)
        self.prefers[place] = row.role == "user" and is_preference(row.text)
        self.tells_time[place] = tells_time(row.text)
        self.tells_number[place] = tells_number(row.text)
        self.of_assistant[place] = row.role == "assistant"
        if row.sender not in self.names and len(self.names) < _MOST_NAMES and _is_name(row):
            self.names = {**self.names, row.sender: frozenset(words_asked_for(row.sender))}
        last = self._last_of_thread.get(thread)
        self.before[place] = self.after[place] = -1
        if last is not None and abs(row.timestamp - self.times[last]) <= SESSION_GAP_MS:
            self.before[place] = last
            self.after[last] = place
        self._last_of_thread[thread] = place
        self.places[row.row_id] = place
        self.rows.append(row)
        self._text_bytes += 700 + 2 * len(row.text)

    def _take_dimensions(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.vectors = np.zeros((len(self.times), dimensions), np.float32)
        self.vector_sum = np.zeros(dimensions, np.float64)

    def _reserve(self, size: int) -> None:
        if size <= len(self.times):
            return
        capacity = max(size, len(self.times) * 3 // 2)
        for name in (
            "lengths", "head_lengths", "times", "before", "after", "threads", "senders", "of_person", "of_assistant", "asks",
            "instructs", "prefers", "tells_time", "tells_number", "question_share", "embedded",
        ):  # fmt: skip
            setattr(self, name, _grown(getattr(self, name), capacity))
        if self.dimensions:
            self.vectors = _grown(self.vectors, capacity)


def _is_name(row: IndexRow) -> bool:
    return row.type == TURN and row.role != "assistant" and row.sender.lower() not in _ROLE_NAMES


def _grown(array: npt.NDArray[Scalar], capacity: int) -> npt.NDArray[Scalar]:
    larger = np.zeros((capacity, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
