"""What the journal knows of a chat besides its turns: requests, epochs, frozen blocks, prompts as they were sent."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from recollect.domain.history_matching import text_parts
from recollect.domain.identity import place_of
from recollect.domain.long_texts import json_text
from recollect.domain.model import JsonObject, NewTurn, Thread, Turn

_sorted = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a client asks of a chat. Without turns, the end of the thread (or of the branch `parent_id`) is answered again."""

    thread_id: str
    turns: tuple[NewTurn, ...] = ()
    earlier: tuple[NewTurn, ...] = ()
    """What was said before them, elsewhere: it is stored first, as complete."""
    examples: int = 0
    """How many of `earlier`, from the first on, are examples for the model: nobody said them, and memory leaves them."""
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    preset: str | None = None
    backend: str | None = None
    model: str | None = None
    memory: bool = True
    left_alone: str | None = None
    """Why memory leaves it alone, where it is not the client who says so."""
    extract_skills: bool = False
    parent_id: str | None = None
    """The turn that it follows; None: the thread's last one."""
    key: str | None = None
    """The client's Idempotency-Key."""
    time_zone: str | None = None
    max_tokens: int | None = None
    may_be_shorter: bool = False
    """`max_tokens` is what the client can take: where the context has no room for so much, the answer gets less."""
    options: JsonObject = field(default_factory=dict)
    choices: int = 1
    system_texts: tuple[str, ...] | None = None
    """A client's own system messages, in place of the preset's instructions."""
    one_shot: bool = False
    """If it opens a thread: nobody named that, and nothing is said in it but this."""
    kept: JsonObject = field(default_factory=dict)
    """What the receipt keeps for whoever reads the answer again."""
    resent: bytes | None = None
    """Digest of everything sent, for clients that resend their history: the new part differs between retries."""

    def answer_limit(self, usual: int | None, context_tokens: int | None) -> int | None:
        """The most tokens an answer may have; `usual`, where the request doesn't say."""
        most = self.max_tokens or usual
        if not self.may_be_shorter or most is None or context_tokens is None or most <= context_tokens // 2:
            return most
        return max(1, context_tokens // 4)

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
        return hashlib.sha256(json_text([said, self.parent_id], _sorted).encode()).digest()[:16]


def _with_text(turn: NewTurn) -> NewTurn:
    if turn.content or not turn.parts:
        return turn
    return replace(turn, content="\n".join(text_parts(turn.parts)))


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request in the journal: its turns and its answers have their places."""

    thread: Thread
    turns: tuple[Turn, ...]
    answers: tuple[Turn, ...]
    """One for each choice; the last is the one that the thread goes on with."""

    @property
    def answer(self) -> Turn:
        return self.answers[-1]


@dataclass(frozen=True, slots=True)
class Epoch:
    """The stretch of turns over which a thread's prompt only grows."""

    number: int
    first_position: int
    reason: str
    system_digest: str
    backend: str
    """The backend and model whose cache holds it."""
    revision: int
    """Of the thread's words: an edit ends the epoch."""
    summary: str | None = None
    blocks_from: int = 0
    """Context blocks of turns before this position are not sent in it."""


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """What was sent beside a turn, with the memories in it: id to digest of the words."""

    text: str
    memories: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentTurn:
    """A turn of a prompt, with the context block that stands right before it."""

    turn: Turn
    block: ContextBlock | None = None

    @property
    def position(self) -> int:
        return place_of(self.turn)


@dataclass(frozen=True, slots=True)
class LastPrompt:
    """The prompt that a thread sent last."""

    position: int
    epoch: int
    messages: bytes
    """One message a line."""
    detail: JsonObject


@dataclass(frozen=True, slots=True)
class Conversation:
    """Everything of a thread that its next prompt is made of."""

    thread: Thread
    revision: int
    epoch: Epoch | None
    path: tuple[SentTurn, ...]
    """The turns before the new ones, oldest first: those of the epoch at least, as many as a window holds at most."""
    system_texts: tuple[str, ...]
    """System messages of the thread itself."""
    last_prompt: LastPrompt | None
    summary: "Summary | None" = None
    """For the end of this epoch."""
    is_answered_again: bool = False
    """Nothing new is said, and an answer to the path's last turn is in some branch already."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary for the end of an epoch: of all turns before `cut`, which had this digest."""

    cut: int
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A prompt on its way to the model, as it is written down."""

    epoch: Epoch
    opens_epoch: bool
    block: ContextBlock | None
    block_position: int | None
    """The turn that the block stands before."""
    messages: bytes
    new_from: int
    detail: JsonObject
    follows: int | None = None
    """The revision of the thread's last epoch when it was read, if there was one."""


@dataclass(frozen=True, slots=True)
class PromptReceipt:
    """What exactly was sent for a turn, and what came of it."""

    turn_id: str
    epoch: int
    messages: tuple[JsonObject, ...]
    payload: JsonObject | None
    """The request on the wire; None where it never left."""
    new_from: int
    detail: JsonObject
    at: int


@dataclass(frozen=True, slots=True)
class PromptCost:
    """What an answer's prompt cost, as its backend told; None for what it did not tell."""

    user_id: str
    thread_id: str
    turn_id: str
    at: int
    cached_tokens: int | None
    evaluated_tokens: int | None
    time_to_first_token_ms: float | None
    cause: str | None
    """Why the prompt did not match the cached one."""


@dataclass(frozen=True, slots=True)
class AnswerText:
    """An answer, so far or as it ended."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[JsonObject, ...] = ()
