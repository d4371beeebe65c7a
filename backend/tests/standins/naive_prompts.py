"""Chats straight to a llama.cpp, with prompts as others lay them out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cache_chat import ANSWER_TOKENS, clock, instructions, said
from tests.cache_figures import Run
from tests.standins.llama_cpp import LlamaCpp

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Said:
    """One turn that is over."""

    user: str
    answer: str
    clock: str


Layout = Callable[[Sequence[Said], str, str], Messages]
"""Of the turns so far, the clock, and the user's new words."""


def clock_first(past: Sequence[Said], now: str, words: str) -> Messages:
    """The clock at the head of the system message."""
    return [_system(f"{now}\n\n{instructions()}"), *_plain(past), _user(words)]


def clock_not_kept(past: Sequence[Said], now: str, words: str) -> Messages:
    """The clock right before the user's words, and gone in the next prompt."""
    return [_system(instructions()), *_plain(past), _user(now), _user(words)]


def clock_kept(past: Sequence[Said], now: str, words: str) -> Messages:
    """The clock right before the user's words, and there for good."""
    kept = [
        message
        for turn in past
        for message in (_user(turn.clock), _user(turn.user), {"role": "assistant", "content": turn.answer})
    ]
    return [_system(instructions()), *kept, _user(now), _user(words)]


def cut_by_one(past: Sequence[Said], now: str, words: str) -> Messages:
    """A window of four turns that moves by one turn at a time."""
    return clock_kept(past[-4:], now, words)


def straight(server: LlamaCpp, layout: Layout, turns: int, threads: Sequence[str] = ("t1",)) -> list[Run]:
    """Chats in this layout that take turns, with nothing between them and llama.cpp."""
    runs = {thread: Run() for thread in threads}
    past: dict[str, list[Said]] = {thread: [] for thread in threads}
    for turn in range(turns):
        for thread in threads:
            words = said(thread, turn)
            exchange = server.chat(layout(past[thread], clock(turn), words), max_tokens=ANSWER_TOKENS)
            runs[thread].turns.append(exchange)
            past[thread].append(Said(words, exchange.text, clock(turn)))
    return list(runs.values())


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _plain(past: Sequence[Said]) -> Messages:
    return [
        message
        for turn in past
        for message in (_user(turn.user), {"role": "assistant", "content": turn.answer})
    ]
