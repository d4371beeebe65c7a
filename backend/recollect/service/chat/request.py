"""What somebody asks of a chat."""

import hashlib
import json
from dataclasses import dataclass, field, replace

from recollect.domain.model import JsonObject, NewTurn


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What somebody asks. Without turns, the end of the thread (or of the branch `parent_id`) is answered again."""

    thread_id: str
    turns: tuple[NewTurn, ...] = ()
    earlier: tuple[NewTurn, ...] = ()
    """What was said before them elsewhere: it is stored first."""
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    preset: str | None = None
    backend: str | None = None
    model: str | None = None
    memory: bool = True
    extract_skills: bool = False
    parent_id: str | None = None
    key: str | None = None
    time_zone: str | None = None
    max_tokens: int | None = None
    options: JsonObject = field(default_factory=dict)
    choices: int = 1
    system_texts: tuple[str, ...] | None = None
    """A client's own system messages, in place of the preset's instructions."""
    resent: bytes | None = None
    """Digest of all that a client sent which resends its history: what of it is new differs from call to call."""

    def with_texts(self) -> "ChatRequest":
        """What the parts of a message say in words is its content, too: memory works on that."""
        return replace(
            self,
            turns=tuple(_with_text(turn) for turn in self.turns),
            earlier=tuple(_with_text(turn) for turn in self.earlier),
        )

    def digest(self) -> bytes:
        """Equal for requests that ask the same."""
        if self.resent is not None:
            return self.resent
        said = [
            [turn.role, turn.content, turn.parts, turn.tool_calls, turn.tool_call_id] for turn in self.turns
        ]
        return hashlib.sha256(json.dumps([said, self.parent_id], sort_keys=True).encode()).digest()[:16]


def _with_text(turn: NewTurn) -> NewTurn:
    if turn.content or not turn.parts:
        return turn
    texts = (part.get("text") for part in turn.parts if part.get("type") == "text")
    return replace(turn, content="\n".join(text for text in texts if isinstance(text, str)))
