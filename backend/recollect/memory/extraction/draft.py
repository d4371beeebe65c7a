"""What extraction works on, and what it proposes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from recollect.memory.model import Turn

Kind = Literal["episodes", "facts", "foresight", "cases"]

FUNCTIONAL = frozenset(
    [
        "name", "age", "birthday", "lives_in", "comes_from", "works_as", "works_at", "studies", "partner",
        "relationship", "diet", "email", "phone", "time_zone", "native_language",
    ]
)  # fmt: skip
"""Attributes of which a subject has one at a time: another value supersedes the one before."""
OPPOSED = {
    "likes": ("likes", "dislikes"),
    "dislikes": ("likes", "dislikes"),
    **{attribute: (attribute,) for attribute in ("can", "has_pet", "allergic_to")},
}
"""Attributes of many values, of each of which either it is so or it is not; and which attributes tell of that."""
ATTRIBUTES = FUNCTIONAL | frozenset(
    ["has_pet", "has_child", "has_sibling", "has_parent", "owns", "likes", "dislikes", "prefers", "allergic_to", "avoids",
     "speaks", "plays", "can", "instruction", "did", "other"]
)  # fmt: skip
"""What a fact may be about. `instruction`: how the user wants to be answered. `avoids`: what somebody doesn't eat or drink."""


@dataclass(frozen=True, slots=True)
class CellText:
    """A memcell with all that extraction may know about it."""

    memcell_id: str
    user_id: str
    turns: tuple[Turn, ...]
    """In order. Texts are the turns' own words: what was injected into their prompts is not among them."""
    agent_id: str | None = None
    user_name: str = ""
    """What the user is called, as far as that is known; else empty, and statements name them by their sender id."""
    own_names: frozenset[str] = frozenset()
    """What the user says in these turns that they are called, where that was looked for."""
    time_zone: str = "UTC"
    """In which "yesterday" is yesterday."""
    recalled: Mapping[str, str] = field(default_factory=dict)
    """By the turn id of an answer: the memories that its prompt held. What only these support is no news."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory as it is proposed, before it is compared with what is known."""

    kind: Kind
    title: str
    """One line: of a fact, the fact itself."""
    text: str
    when: int
    """When it happened or was said, in UTC milliseconds."""
    turn_ids: tuple[str, ...]
    """The turns of the cell that support it."""
    subject: str = ""
    """Whom a fact is about, as they are named in the text."""
    attribute: str = ""
    """One of ATTRIBUTES."""
    value: str = ""
    """In short, what the attribute is: `Berlin`, `a nurse`."""
    about: tuple[int, int] | None = None
    """Foresight: from when to when it is planned; after that it lapses."""
    tools: tuple[str, ...] = ()
    """Cases: the tools that were used."""
    outcome: str = ""
    """Cases: `worked`, `failed` or `unclear`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that was not kept. `reason` never quotes it."""

    kind: Kind
    reason: str


CUT_OFF = "the answer is cut off here"
_IN_ANSWERS: tuple[Kind, ...] = ("episodes", "facts", "foresight")
"""The order in which an answer tells them."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What came out of a cell. The same cell gives the same drafts in the same order."""

    drafts: tuple[Draft, ...] = ()
    refused: tuple[Refused, ...] = ()

    def of(self, kind: Kind) -> tuple[Draft, ...]:
        return tuple(draft for draft in self.drafts if draft.kind == kind)

    def is_missing(self, kind: Kind) -> bool:
        """Nothing came of this kind, for the answer was cut off before or while it told."""
        cut = next((each.kind for each in self.refused if each.reason == CUT_OFF), None)
        if cut is None or self.of(kind):
            return False
        return kind == cut or kind in _IN_ANSWERS[_IN_ANSWERS.index(cut) :]
