"""A memcell as the journal and the vault hold it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.memory.extraction.draft import CellText
from recollect.memory.file_names import file_name
from recollect.memory.known_entry import Source
from recollect.memory.model import Thread, Turn


@dataclass(frozen=True, slots=True)
class StoredCell:
    """Its turns, in order, with where each stands in the vault and what was recalled for the answers among them."""

    memcell_id: str
    thread: Thread
    turns: tuple[Turn, ...]
    parts: Mapping[str, int] = field(default_factory=dict)
    """By turn id: the part of the transcript that holds it. A turn that is not written yet is not among them."""
    recalled: str = ""
    """The memories and summaries that the prompts of its answers held."""

    @property
    def is_written(self) -> bool:
        return all(turn.turn_id in self.parts for turn in self.turns)

    def text(self, user_name: str, time_zone: str | None) -> CellText:
        """For extraction."""
        answers = [turn.turn_id for turn in self.turns if turn.role == "assistant"] if self.recalled else []
        return CellText(
            memcell_id=self.memcell_id,
            user_id=self.thread.user_id,
            turns=self.turns,
            agent_id=self.thread.agent_id,
            user_name=user_name,
            time_zone=time_zone or "UTC",
            recalled=dict.fromkeys(answers, self.recalled),
        )

    def source(self, turn_id: str) -> Source:
        return Source(self.thread.thread_id, turn_id)

    def link(self, turn_id: str, *, from_space: bool = False) -> str:
        """To the turn in its transcript, from the owner's folder, or from the folder of the space."""
        folder = f"threads/{file_name(self.thread.thread_id)}/{self.parts[turn_id]:04d}#^{turn_id}"
        return f"users/{file_name(self.thread.user_id)}/{folder}" if from_space else folder
