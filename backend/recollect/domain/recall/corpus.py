"""One owner's searchable rows in memory: postings, vectors, neighbours.

It grows at its end: a row that changed is placed there again, and the place it had is left empty. Readers take
`view()` and see the corpus as it was then, whatever comes or goes meanwhile: what grows is written beyond the end of
every view first, and what a view refers to is replaced whole. One writer at a time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from recollect.domain.entries.entry import EPISODES, FACTS, FORESIGHT, PROFILE
from recollect.domain.identity import turn_number
from recollect.domain.recall.corpus_view import (
    SESSION_GAP_MS,
    Content,
    EntrySources,
    Flags,
    Neighbourhood,
    Places,
    Postings,
    Scalar,
    Sources,
    Terms,
    View,
    link,
    named_turn,
    neighbourhood,
    thread_name,
)
from recollect.domain.recall.query import is_bare_question
from recollect.domain.recall.rows import TURN, IndexRow, Vectors
from recollect.domain.recall.words import (
    is_instruction,
    is_preference,
    question_share,
    words_asked_for,
)

HEAD_WORDS = 60
"""A message lends its neighbours its first words only: a long one would drown them."""
_LONGEST = 20_000
"""Words. A text that is longer counts as no longer: one of them must not make all others seem short."""
_FEW = 10
"""The mean of a few texts says little of what the next ones have in common: it is held back by so many zeros."""
_FIRST_CAPACITY = 256
_MOST_NAMES = 1000
_ROLE_NAMES = frozenset({"", "user", "assistant", "system", "tool", "me"})
_NO_ROW = IndexRow("", "", "", 0)

Floats = npt.NDArray[np.float32]


class Corpus:
    """Each row is there once, by its id."""

    def __init__(self, dimensions: int = 0) -> None:
        self.places: dict[str, int] = {}
        """Where each row is, by its id."""
        self.postings: dict[str, Postings] = {}
        self.lengths = np.zeros(_FIRST_CAPACITY, np.int32)
        self.head_lengths = np.zeros(_FIRST_CAPACITY, np.int32)
        self.times = np.zeros(_FIRST_CAPACITY, np.int64)
        self.positions = np.zeros(_FIRST_CAPACITY, np.int64)
        """In the thread or the file."""
        self.threads = np.zeros(_FIRST_CAPACITY, np.int32)
        self.senders = np.zeros(_FIRST_CAPACITY, np.int32)
        self.of_person = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether a user said it, and not an assistant or a tool."""
        self.of_assistant = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.instructs = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether it is a standing instruction."""
        self.prefers = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.question_share = np.zeros(_FIRST_CAPACITY, np.float32)
        """How much of it asks."""
        self.only_asks = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether it is a turn that is a bare question."""
        self.is_entry = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.is_episode = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.is_statement = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether it is a fact, a plan or a line of the profile: an entry that says one thing."""
        self.shows_facts = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Whether it is a line of the profile that was made of facts."""
        self.until = np.zeros(_FIRST_CAPACITY, np.int64)
        """When an entry ceased to hold; 0 while it holds."""
        self.corrected = np.zeros(_FIRST_CAPACITY, np.int64)
        """When a person wrote over an entry."""
        self.pinned = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.thread_codes: dict[str, int] = {}
        self.sender_codes: dict[str, int] = {}
        self.names: Mapping[str, frozenset[str]] = {}
        """Those who speak, each with the words of their name; not the roles that clients use for names."""
        self.characters = 0
        """Of all texts."""
        self._text_bytes = 0
        self._posting_bytes = 0
        self._neighbourhood: tuple[tuple[int, int], Neighbourhood] | None = None
        self.asking: frozenset[str] = frozenset()
        """Ids of rows that count as questions, whatever marks they have, once they are added."""
        self._sources = Sources()
        self._entry_sources: tuple[tuple[int, int], EntrySources] | None = None
        self._centre: tuple[tuple[int, int, int], Floats, Floats] | None = None
        self._last_of_thread: dict[int, int] = {}
        self.dimensions = dimensions
        self.vectors: Vectors = np.zeros((_FIRST_CAPACITY if dimensions else 0, dimensions), np.float32)
        self.embedded: Flags = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._content = Content(
            0,
            0,
            np.zeros(_FIRST_CAPACITY, np.bool_),
            [],
            np.full(_FIRST_CAPACITY, -1, np.int32),
            np.full(_FIRST_CAPACITY, -1, np.int32),
            np.zeros(dimensions, np.float64),
        )

    def __len__(self) -> int:
        return self._content.count

    @property
    def rows(self) -> Sequence[IndexRow]:
        """By place."""
        return self._content.rows

    @property
    def empty_places(self) -> int:
        return self._content.size - self._content.count

    @property
    def empty_share(self) -> float:
        """How many of its places hold no row any more, from 0 to 1."""
        return self.empty_places / max(1, self._content.size)

    def view(self) -> View:
        content = self._content
        embedded = self.embedded[: content.size] & content.there[: content.size]
        return View(content, embedded, self.is_entry[: content.size], self.names)

    def context(self, view: View) -> Neighbourhood:
        """What stands around each row of a view."""
        known, moment = self._neighbourhood, (view.size, view.content.revision)
        if known is None or known[0] != moment:
            size = view.size
            threads = self.threads[:size]
            assisted = np.isin(threads, threads[self.of_assistant[:size] & view.there])
            made = neighbourhood(
                view,
                self.lengths[:size],
                self.head_lengths[:size],
                assisted,
                self.of_person[:size],
                self.senders[:size],
                threads,
            )
            known = self._neighbourhood = (moment, made)
        return known[1]

    def entry_sources(self, view: View) -> EntrySources:
        """Which turns of a view each of its entries came from."""
        known, moment = self._entry_sources, (view.size, view.content.revision)
        if known is None or known[0] != moment:
            size = view.size
            made = self._sources.resolved(self.threads[:size], self.positions[:size], view.there)
            known = self._entry_sources = (moment, made)
        return known[1]

    def around(self, place: int, view: View) -> list[int]:
        """A row and its neighbours, in their order."""
        steps = [int(step[place]) for step, _ in self.context(view).steps]
        return [each for each in (*reversed(steps[::2]), place, *steps[1::2]) if each >= 0]

    def centre(self, view: View) -> tuple[Floats, Floats]:
        """The mean of the vectors of turns and notes, and every row's product with it."""
        number = int(view.embedded.sum())
        known, moment = self._centre, (view.size, number, view.content.revision)
        if known is None or known[0] != moment:
            averaged = int((view.embedded & ~view.is_entry).sum())
            mean = (view.content.vector_sum / (averaged + _FEW)).astype(np.float32)
            known = self._centre = (moment, mean, self.vectors[: view.size] @ mean)
        return known[1], known[2]

    @property
    def bytes_used(self) -> int:
        """About how much memory it takes."""
        arrays = self.vectors.nbytes + 64 * len(self.times)
        return arrays + self._posting_bytes + self._text_bytes

    def extend(self, rows: Sequence[IndexRow], words: Sequence[str], gone: Collection[str] = ()) -> None:
        """Add rows, each with its index terms, and take away those of these ids; a row that is there is replaced.

        What replaces a row has no vector yet.
        """
        if len(rows) != len(words):
            raise ValueError(f"{len(rows)} rows with the words of {len(words)}")
        emptied = self._places_of({*gone, *(row.row_id for row in rows)})
        first, size = self._content.size, self._content.size + len(rows)
        self._reserve(size)
        terms = Terms(words)
        self.lengths[first:size] = np.minimum(terms.lengths, _LONGEST)
        self.head_lengths[first:size] = np.minimum(terms.lengths, HEAD_WORDS)
        self._content.there[first:size] = True
        unordered = {
            thread for place, row in enumerate(rows, first) if (thread := self._place(place, row)) is not None
        }
        for word, found in terms.postings(first, HEAD_WORDS):
            known = self.postings.get(word)
            self.postings[word] = found if known is None else known.followed_by(found)
            self._posting_bytes += 8 * len(found.rows) + (300 if known is None else 0)
        grown = replace(self._content, size=size, count=self._content.count + len(rows))
        self._content = self._relinked(grown, emptied, unordered)
        self.places.update({row.row_id: place for place, row in enumerate(rows, first)})
        for row_id in set(gone).difference(row.row_id for row in rows):
            self.places.pop(row_id, None)

    def set_vectors(self, row_ids: Sequence[str], vectors: Vectors) -> None:
        """Give rows their vectors; ids that are not here are left out."""
        if not self.dimensions:
            self._take_dimensions(vectors.shape[1])
        total = self._content.vector_sum.copy()
        for row_id, vector in zip(row_ids, vectors, strict=True):
            place = self.places.get(row_id)
            if place is not None and not self.embedded[place]:
                self.vectors[place] = vector
                if not self.is_entry[place]:
                    total += vector
                self.embedded[place] = True
        self._content = replace(self._content, vector_sum=total)

    def take_all_vectors(self, vectors: Vectors, has_vector: Flags) -> None:
        """The vectors of all rows at once, in their order: what `set_vectors` does, for a corpus just read."""
        if not vectors.shape[1] or not has_vector.any():
            return
        self._take_dimensions(vectors.shape[1])
        size = len(has_vector)
        self.vectors[:size] = vectors
        self.embedded[:size] = has_vector
        total = vectors[has_vector & ~self.is_entry[:size]].sum(axis=0, dtype=np.float64)
        self._content = replace(self._content, vector_sum=total)

    def vector_of(self, row_id: str) -> Vectors | None:
        """None for a row that is not here, or not embedded."""
        place = self.places.get(row_id)
        return None if place is None or not self.embedded[place] else self.vectors[place]

    def _places_of(self, row_ids: Collection[str]) -> Places:
        return np.array(sorted(self.places[row_id] for row_id in self.places.keys() & row_ids), np.int32)

    def _place(self, place: int, row: IndexRow) -> int | None:
        """Returns the thread if the row does not come at its end."""
        row = replace(row, asks=True) if row.row_id in self.asking else row
        thread = self._thread_code(thread_name(row))
        self.threads[place] = thread
        self.is_entry[place] = row.is_entry
        self.is_episode[place] = row.type == EPISODES
        self.is_statement[place] = row.type in (FACTS, FORESIGHT, PROFILE)
        self.shows_facts[place] = bool(row.shows)
        self.until[place] = row.until
        self.corrected[place] = row.corrected
        self.pinned[place] = row.pinned
        for name, turn_id in map(named_turn, row.sources):
            self._sources.add(place, self._thread_code(name), turn_number(turn_id) or 0)
        self.senders[place] = self.sender_codes.setdefault(row.sender, len(self.sender_codes))
        self.times[place] = row.timestamp
        self.positions[place] = row.position
        self.of_person[place] = row.role == "user"
        self.question_share[place] = question_share(row.read_as)
        self.only_asks[place] = row.type == TURN and is_bare_question(row.read_as)
        self.instructs[place] = row.role == "user" and is_instruction(row.text)
        self.prefers[place] = row.role == "user" and is_preference(row.text)
        self.of_assistant[place] = row.role == "assistant"
        if row.sender not in self.names and len(self.names) < _MOST_NAMES and _is_name(row):
            self.names = {**self.names, row.sender: frozenset(words_asked_for(row.sender))}
        self._content.rows.append(row)
        self.characters += len(row.text)
        self._text_bytes += _bytes_of(row)
        before, after = self._content.before, self._content.after
        before[place] = after[place] = -1
        last = self._last_of_thread.get(thread)
        if last is not None and self.positions[last] >= row.position:
            return thread
        if last is not None and abs(row.timestamp - self.times[last]) <= SESSION_GAP_MS:
            before[place] = last
            after[last] = place
        self._last_of_thread[thread] = place
        return None

    def _thread_code(self, name: str) -> int:
        return self.thread_codes.setdefault(name, len(self.thread_codes))

    def _relinked(self, content: Content, emptied: Places, unordered: Collection[int]) -> Content:
        """With these places empty, and the rows of their threads and of the unordered ones linked in their order."""
        threads = {*self.threads[emptied].tolist(), *unordered}
        if not threads:
            return content
        there, rows = content.there.copy(), list(content.rows)
        there[emptied] = False
        for place in emptied.tolist():
            self.characters -= len(rows[place].text)
            self._text_bytes -= _bytes_of(rows[place])
            rows[place] = _NO_ROW
        had_vectors = emptied[self.embedded[emptied] & ~self.is_entry[emptied]]
        self.embedded[emptied] = False
        before, after = content.before.copy(), content.after.copy()
        before[emptied] = after[emptied] = -1
        self._link(list(threads), there[: content.size], before, after)
        self._let_go_of_names(there[: content.size], emptied)
        return replace(
            content,
            count=content.count - len(emptied),
            there=there,
            rows=rows,
            before=before,
            after=after,
            vector_sum=content.vector_sum - self.vectors[had_vectors].sum(axis=0, dtype=np.float64),
            revision=content.revision + 1,
        )

    def _link(self, threads: Sequence[int], there: Flags, before: Places, after: Places) -> None:
        """Link the rows of these threads in the order of their positions."""
        for thread in threads:
            self._last_of_thread.pop(thread, None)
        of_them = np.isin(self.threads[: len(there)], threads)
        places = np.flatnonzero(of_them & there).astype(np.int32)
        lasts = link(before, after, places, self.threads[places], self.positions[places], self.times[places])
        self._last_of_thread.update(zip(self.threads[lasts].tolist(), lasts.tolist(), strict=True))

    def _let_go_of_names(self, there: Flags, emptied: Places) -> None:
        silent = set(self.senders[emptied].tolist()) - set(self.senders[: len(there)][there].tolist())
        if silent:
            self.names = {
                name: words for name, words in self.names.items() if self.sender_codes[name] not in silent
            }

    def _take_dimensions(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.vectors = np.zeros((len(self.times), dimensions), np.float32)
        self._content = replace(self._content, vector_sum=np.zeros(dimensions, np.float64))

    def _reserve(self, size: int) -> None:
        if size <= len(self.times):
            return
        capacity = max(size, len(self.times) * 3 // 2)
        for name in (
            "lengths", "head_lengths", "times", "positions", "threads", "senders", "of_person", "of_assistant",
            "instructs", "prefers", "question_share", "is_entry", "is_episode", "is_statement", "until", "pinned",
            "embedded", "shows_facts", "only_asks", "corrected",
        ):  # fmt: skip
            setattr(self, name, _grown(getattr(self, name), capacity))
        content = self._content
        self._content = replace(
            content,
            there=_grown(content.there, capacity),
            before=_grown(content.before, capacity),
            after=_grown(content.after, capacity),
        )
        if self.dimensions:
            self.vectors = _grown(self.vectors, capacity)


def _is_name(row: IndexRow) -> bool:
    return row.type == TURN and row.role != "assistant" and row.sender.lower() not in _ROLE_NAMES


def _bytes_of(row: IndexRow) -> int:
    """About how much memory a row takes besides its vector and its words."""
    return 700 + 2 * len(row.text)


def _grown(array: npt.NDArray[Scalar], capacity: int) -> npt.NDArray[Scalar]:
    larger = np.zeros((capacity, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
