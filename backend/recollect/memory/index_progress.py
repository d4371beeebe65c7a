"""How far the index is behind the journal."""

from dataclasses import dataclass

from recollect.memory.model import Thread


@dataclass(frozen=True, slots=True)
class ThreadProgress:
    """One thread in one generation of the index. Positions up to `words_to` are found by their words."""

    thread: Thread
    thread_pk: int
    last_position: int
    """The last turn that is final and has only final ones before it."""
    words_to: int
    vectors_to: int
    header_revision: int
    revision: int
    refused: int
    """How many texts up to `vectors_to` the embedding model would not take."""
    is_stale: bool
    """What was indexed is no longer what the journal says: a turn was edited, or the tags changed."""

    @property
    def words_behind(self) -> bool:
        return self.words_to < self.last_position or self.is_stale

    @property
    def vectors_behind(self) -> bool:
        return self.vectors_to < self.words_to
