"""What the journal knows of a chat besides its turns: requests, epochs, frozen blocks, prompts as they were sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.domain.model import JsonObject, NewTurn, Thread, Turn


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody sends to a thread to be answered. Without turns, what stands at its end is answered (again)."""

    space: str
    thread_id: str
    turns: tuple[NewTurn, ...]
    earlier: tuple[NewTurn, ...] = ()
    """What was said before them, elsewhere: it is stored first, and is said as soon as it is stored."""
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    choices: int = 1
    parent_id: str | None = None
    """The turn it follows; None: the thread's last one."""
    key: str | None = None
    """The client's Idempotency-Key."""
    digest: bytes = b""
    """Of all that was asked: the same key with another digest is a mistake."""
    skip_reason: str | None = None
    """Why memory leaves this exchange alone, if it does."""


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


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """What was sent beside a turn, with the memories in it: id to digest of the words."""

    text: str
    memories: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentTurn:
    """A turn of the prompt's path."""

    position: int
    turn: Turn
    block: ContextBlock | None = None


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
    """What was summed up for an epoch's end: all before `cut`, whose turns had this digest."""

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

    thread_id: str
    turn_id: str
    at: int
    cached_tokens: int | None
    evaluated_tokens: int | None
    time_to_first_token_ms: float | None
    cause: str | None
    """Why the prompt was no longer what the cache held."""


@dataclass(frozen=True, slots=True)
class AnswerText:
    """An answer, so far or as it ended."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[JsonObject, ...] = ()
