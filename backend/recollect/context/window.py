"""How much of a thread a prompt holds. It shrinks in halves at an epoch's end, never by a turn at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.memory.model import Turn

DEFAULT_ANSWER_TOKENS = 1024
PER_MESSAGE = 8
"""Tokens a template may put around a message."""
BLOCK_TOKENS = 400
BLOCK_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Window:
    """What a prompt may hold."""

    max_turns: int
    tokens: int | None = None
    """For the prompt alone: the answer's are set aside. None: not known, so turns alone count."""

    def is_over(self, turns: int, tokens: int) -> bool:
        return turns > self.max_turns or (self.tokens is not None and tokens > self.tokens)

    def halved(self) -> "Window":
        return Window(self.max_turns, None if self.tokens is None else self.tokens // 2)

    def is_nearly_over(self, turns: int, tokens: int) -> bool:
        """Time to sum up what will leave."""
        return turns > self.max_turns * 3 // 4 or (self.tokens is not None and tokens > self.tokens * 3 // 4)


def answer_tokens(wanted: int | None, context_tokens: int | None) -> int:
    """What is set aside for the answer: what was asked for, else a quarter of the context at most."""
    if wanted is not None:
        return wanted
    if context_tokens is None:
        return DEFAULT_ANSWER_TOKENS
    return min(DEFAULT_ANSWER_TOKENS, context_tokens // 4)


def block_tokens(context_tokens: int | None) -> int:
    """How large a context block may be."""
    if context_tokens is None:
        return BLOCK_TOKENS
    return min(BLOCK_TOKENS, int(context_tokens * BLOCK_SHARE))


def half(turns: Sequence[Turn], tokens: Sequence[int], window: Window) -> int:
    """Where the newer half of a window begins: a place in `turns`, which end with the new ones.

    It is a user's turn or, in the chain of tool calls that follows the newest one, an answer that calls tools: so no
    result is parted from its call.
    """
    starts = [place for place, turn in enumerate(turns) if turn.role == "user"]
    newest = starts[-1] if starts else -1
    starts += [place for place, turn in enumerate(turns) if place > newest + 1 and turn.tool_calls]
    if not starts:
        return 0
    most_turns = max(1, window.max_turns // 2)
    most_tokens = None if window.tokens is None else window.tokens // 2
    kept = 0
    for place in range(len(turns) - 1, -1, -1):
        kept += tokens[place]
        too_many = len(turns) - place > most_turns or (most_tokens is not None and kept > most_tokens)
        if too_many:
            return next((start for start in starts if start > place), starts[-1])
    return 0


def planned_cut(turns: Sequence[Turn], tokens: Sequence[int], window: Window) -> int | None:
    """Where the window will be cut when it is full, as far as that can be said before; None: too early to say.

    The older half leaves: then as much room is free as what stays takes.
    """
    passed = 0
    for place, turn in enumerate(turns):
        by_turns = place >= window.max_turns // 2
        by_tokens = window.tokens is not None and passed >= window.tokens // 2
        if turn.role == "user" and place and (by_turns or by_tokens):
            return place
        passed += tokens[place]
    return None


def shares(turns: Sequence[Turn], tokens: int) -> list[int]:
    """How many of a prompt's tokens each turn has, by its length."""
    lengths = [len(turn.content.encode()) + 20 for turn in turns]
    total = max(1, sum(lengths))
    return [tokens * length // total for length in lengths]
