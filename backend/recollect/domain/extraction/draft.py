"""What extraction works on: a memcell as it is stored, and the drafts proposed for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from recollect.domain.model import Thread, Turn
from recollect.domain.paths import file_name

Kind = Literal["episodes", "facts", "foresight", "cases"]

CATEGORIES = (
    "identity", "home", "work", "people", "health", "likes", "habits", "goals", "wishes to the assistant", "event",
)  # fmt: skip
"""Of facts, in the order of the profile's headings."""


OWNER = "user"
"""The subject of a fact that is about the user themselves."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """Words of a message that support a statement."""

    turn_id: str
    words: str


@dataclass(frozen=True, slots=True)
class CellText:
    """A memcell with all that extraction may know about it."""

    user_id: str
    turns: tuple[Turn, ...]
    """In order. Texts are the turns' own words: what was injected into their prompts is not among them."""
    user_name: str = ""
    """What the user is called, as far as that is known; else empty, and statements name them by their sender id."""
    time_zone: str = "UTC"
    """In which "yesterday" is yesterday."""
    recalled: str = ""
    """The memories and summaries that the prompts of its answers held. What only these support is no news."""
    language: str = ""
    """In which memories are written; empty: in that of the conversation."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory as it is proposed, before it is compared with what is known."""

    kind: Kind
    title: str
    """One line: of a fact, the fact itself."""
    text: str
    when: int
    """The `when` of its entry: the time of its messages, in UTC milliseconds. The day of a fact is `happened`."""
    turn_ids: tuple[str, ...]
    """The turns of the cell that support it."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """The `extra` of its entry, such as `subject`, without empty values."""
    quotes: tuple[Quoted, ...] = ()
    replaces: tuple[str, ...] = ()
    """Ids of known entries that this one takes the place of."""
    ends: tuple[str, ...] = ()
    """Ids of known entries that no longer hold, as this one says."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that was not kept. `reason` never quotes it."""

    kind: Kind
    reason: str


CUT_OFF = "the answer is cut off here"
_IN_ANSWERS: tuple[Kind, ...] = ("episodes", "facts", "foresight", "cases")
"""The order in which an answer tells them."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What came out of a cell. The same cell gives the same drafts in the same order."""

    drafts: tuple[Draft, ...] = ()
    refused: tuple[Refused, ...] = ()
    asks: tuple[str, ...] | None = None
    """The turns in which a person only asks; None where the answer does not say."""

    def of(self, kind: Kind) -> tuple[Draft, ...]:
        return tuple(draft for draft in self.drafts if draft.kind == kind)

    def is_missing(self, kind: Kind) -> bool:
        """Nothing came of this kind, for the answer was cut off before or while it told."""
        cut = next((each.kind for each in self.refused if each.reason == CUT_OFF), None)
        if cut is None or self.of(kind):
            return False
        return kind == cut or kind in _IN_ANSWERS[_IN_ANSWERS.index(cut) :]


@dataclass(frozen=True, slots=True)
class StoredCell:
    """Its turns, in order, without the names of their sources; with the place of each in the vault and what was recalled."""

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
        return CellText(self.thread.user_id, self.turns, user_name, time_zone or "UTC", self.recalled)

    def link(self, turn_id: str, *, from_space: bool = False) -> str:
        """To the turn in its transcript, from the owner's folder, or from the folder of the space."""
        folder = f"threads/{file_name(self.thread.thread_id)}/{self.parts[turn_id]:04d}#^{turn_id}"
        return f"users/{file_name(self.thread.user_id)}/{folder}" if from_space else folder
