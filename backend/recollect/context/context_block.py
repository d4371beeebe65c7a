"""Recalled memories as a context block shows them: one line each, quoted, so that nothing in them can pass for more."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from recollect.memory.index_row import NOTE
from recollect.memory.json_quotes import json_quoted
from recollect.memory.known_entry import CASES, ENTRY_KINDS, EPISODES, FACTS, FORESIGHT, PROFILE, SKILLS

_KNOWN_AS = {
    EPISODES: "what happened",
    FACTS: "known",
    FORESIGHT: "planned",
    PROFILE: "known of the user",
    CASES: "tried before",
    SKILLS: "learned",
}
HEADING = "Recalled from memory (quotations):"
_LONGEST_SENDER = 60


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that was recalled for a turn. `text` may be a passage of what was said."""

    id: str
    digest: str
    """Of all that was said: another one means that it was edited."""
    text: str
    sender: str
    role: str
    timestamp: int
    thread_id: str
    message_ids: tuple[str, ...]
    score: float
    type: str = "turn"
    correction: bool = False
    """It is in the prompt already, as it was before it was edited."""


def render_memories(memories: Sequence[Memory]) -> str:
    """Nothing for none. Depends on the memories alone: dates are UTC, so that no time zone changes a sent block."""
    return "\n".join([HEADING, *map(memory_line, memories)]) if memories else ""


def memory_line(memory: Memory) -> str:
    """Such as: - 2026-05-08, Ann said: "My sister Marta is moving to Porto!" """
    day = datetime.fromtimestamp(memory.timestamp / 1000, UTC).strftime("%Y-%m-%d")
    mark = "corrected: " if memory.correction else ""
    return f"- {mark}{day}, {_said(memory)}: {_quoted(' '.join(memory.text.split()))}"


def _said(memory: Memory) -> str:
    if memory.type in ENTRY_KINDS:
        return _KNOWN_AS[memory.type]
    if memory.type == NOTE:
        return f"the note {_quoted(_one_line(memory.sender))} says"
    if memory.role == "assistant":
        return "the assistant said"
    name = _one_line(memory.sender)
    return f"{name} said" if name not in ("", "user", "me") else "the user said"


def _one_line(name: str) -> str:
    """A name from outside, without anything that could end its place in the line."""
    kept = "".join(c for c in name if c.isprintable() and c not in "\"':[]")
    return " ".join(kept.split())[:_LONGEST_SENDER]


def _quoted(text: str) -> str:
    """As a JSON string: a quotation mark inside ends nothing. Line ends of any kind are escaped or gone."""
    quoted = json_quoted(text)
    return quoted.replace("\u2028", " ").replace("\u2029", " ").replace("\x85", " ")
