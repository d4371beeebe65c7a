"""The lines of a context block: recalled memories and offered skills, as quotations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from recollect.domain.entries.entry import CASES, ENTRY_KINDS, EPISODES, FACTS, FORESIGHT, PROFILE, SKILLS
from recollect.domain.llm import json_quoted, without_control_tokens
from recollect.domain.recall.rows import NOTE

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
    ended: int = 0
    """When it ceased to hold; 0 while it holds."""
    corrected: int = 0
    """When a person wrote over what was said; 0 where nobody did."""
    shows: Mapping[str, str] = field(default_factory=dict)
    """Of a line of the profile that was made of facts: the digest of each of these, by its id."""
    carries: tuple["Memory", ...] = ()
    """Of a fact: messages that it came from, whose words stand in its line."""


def render_memories(memories: Sequence[Memory]) -> str:
    """Nothing for none. Depends on the memories alone: dates are UTC, so that no time zone changes a sent block."""
    return "\n".join([HEADING, *map(memory_line, memories)]) if memories else ""


@dataclass(frozen=True, slots=True)
class OfferedSkill:
    """A skill of the thread's agent that its user may see."""

    name: str
    description: str
    origins: tuple[str, ...]
    """Ids of its file and its cases. If one is forgotten, prompts drop the skill."""


SKILLS_HEADING = "Skills of this agent, each in the SKILL.md of that name (quotations):"
_LONGEST_DESCRIPTION = 300


def render_skills(skills: Sequence[OfferedSkill]) -> str:
    """Their names and descriptions; nothing for none."""
    return "\n".join([SKILLS_HEADING, *map(_skill_line, skills)]) if skills else ""


def _skill_line(skill: OfferedSkill) -> str:
    words = " ".join(skill.description.split())
    told = words if len(words) <= _LONGEST_DESCRIPTION else f"{words[:_LONGEST_DESCRIPTION]}…"
    return f"- {without_control_tokens(_one_line(skill.name))}: {quoted_line(told)}"


def memory_line(memory: Memory) -> str:
    """Such as: - 2026-05-08, Ann said: "My sister Marta is moving to Porto!" """
    mark = "corrected: " if memory.correction else ""
    end = f", corrected {_day(memory.corrected)}" if memory.corrected else ""
    end += f", until {_day(memory.ended)}" if memory.ended else ""
    carried = "; ".join(_day_unless(memory, each) + _told(each) for each in memory.carries)
    return f"- {mark}{_day(memory.timestamp)}{end}, {_told(memory)}" + (f" ({carried})" if carried else "")


def _day_unless(fact: Memory, message: Memory) -> str:
    """Of a message that a fact carries: its day, unless that is the fact's."""
    day = _day(message.timestamp)
    return "" if day == _day(fact.timestamp) else f"{day}, "


def _told(memory: Memory) -> str:
    return f"{_said(memory)}: {quoted_line(' '.join(memory.text.split()))}"


def _day(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d")


def _said(memory: Memory) -> str:
    if memory.type in ENTRY_KINDS:
        return _KNOWN_AS[memory.type]
    if memory.type == NOTE:
        return f"the note {quoted_line(_one_line(memory.sender))} says"
    if memory.role == "assistant":
        return "the assistant said"
    name = without_control_tokens(_one_line(memory.sender))
    return f"{name} said" if name not in ("", "user", "me") else "the user said"


def _one_line(name: str) -> str:
    """A name from outside, without characters that could end the line or the quotation."""
    kept = "".join(c for c in name if c.isprintable() and c not in "\"':[]")
    return " ".join(kept.split())[:_LONGEST_SENDER]


def quoted_line(text: str) -> str:
    """As a JSON string: a quotation mark inside ends nothing. Line ends of any kind are escaped or gone."""
    quoted = json_quoted(text)
    return quoted.replace("\u2028", " ").replace("\u2029", " ").replace("\x85", " ")
