"""Long chats on a real llama.cpp, through Recollect or straight to it, and what of their prompts was evaluated.

The instructions have about 600 tokens and are the same in every thread; what the user says has 60 to 100. Everything is
made up from a seed, so the same chat can be had again under other conditions.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.llama_cpp import Exchange, LlamaCpp

ANSWER_TOKENS = 12
PRESET = "long"
_VOCABULARY = (
    "river garden window letter market bridge winter summer kitchen doctor teacher village journey station "
    "basket ladder morning evening shoulder paper silver copper mountain harbour sailor painter candle mirror "
    "blanket saddle orchard pepper sugar bread coffee ticket engine signal tunnel valley meadow forest "
    "hammer needle thread button pocket jacket sweater collar ribbon carpet curtain cupboard drawer shelf"
)
_WORDS = _VOCABULARY.split()

Messages = list[dict[str, Any]]


def instructions() -> str:
    """About 600 tokens."""
    return "You are a helpful assistant. " + _sentences(random.Random("instructions"), 42, 12)


def said(thread: str, turn: int) -> str:
    """60 to 100 tokens, its own in every turn of every thread."""
    chance = random.Random(f"{thread} {turn}")
    return _sentences(chance, chance.randint(5, 7), 10)


def clock(turn: int) -> str:
    return f"[Context]\nCurrent date and time: Sunday, 2026-11-15 10:{turn:02d} (UTC)"


def _sentences(chance: random.Random, count: int, words: int) -> str:
    return " ".join(
        " ".join(chance.choice(_WORDS) for _ in range(words)).capitalize() + "." for _ in range(count)
    )


@dataclass(slots=True)
class Run:
    """The turns of one thread, as they were evaluated."""

    turns: list[Exchange] = field(default_factory=list)

    @property
    def later(self) -> list[Exchange]:
        """All but the first, which nothing can have been cached of."""
        return self.turns[1:]

    @property
    def new_tokens(self) -> list[int]:
        """What each later prompt has beyond the one before and its answer."""
        pairs = zip(self.turns, self.later, strict=False)
        return [now.prompt_tokens - before.prompt_tokens - before.answer_tokens for before, now in pairs]


def cached_percent(runs: Sequence[Run], *, with_first: bool = False) -> float:
    turns = [turn for run in runs for turn in (run.turns if with_first else run.later)]
    return 100 * sum(turn.cached for turn in turns) / sum(turn.prompt_tokens for turn in turns)


def evaluated_per_turn(runs: Sequence[Run]) -> float:
    turns = [turn for run in runs for turn in run.later]
    return sum(turn.evaluated for turn in turns) / len(turns)


def new_per_turn(runs: Sequence[Run]) -> float:
    new = [tokens for run in runs for tokens in run.new_tokens]
    return sum(new) / len(new)


# --- through Recollect ------------------------------------------------------------------------------


class RecollectChat:
    """Chats of a running Recollect, whose backend is a llama.cpp."""

    def __init__(self, client: httpx2.Client, *, memory: bool = False) -> None:
        self._client = client
        self._memory = memory
        preset = {"instructions": instructions(), "temperature": 0, "max_tokens": ANSWER_TOKENS}
        client.put(f"/api/v1/presets/{PRESET}", json=preset).raise_for_status()

    def open(self, thread: str) -> None:
        """With a title of its own, so that no model is asked for one."""
        body = {"thread_id": thread, "user_id": "ann", "title": f"About {thread}", "preset": PRESET}
        self._client.post("/api/v1/threads", json=body).raise_for_status()

    def talk(
        self, threads: Sequence[str], turns: int, between: Callable[[int], object] = lambda turn: None
    ) -> list[Run]:
        """The threads take turns, one message each; `between` is done after each message."""
        runs = {thread: Run() for thread in threads}
        for thread in threads:
            self.open(thread)
        for turn in range(turns):
            for thread in threads:
                runs[thread].turns.append(self.ask(thread, turn))
                between(turn)
        return list(runs.values())

    def ask(self, thread: str, turn: int) -> Exchange:
        body = {"user_id": "ann", "content": said(thread, turn), "memory": self._memory}
        answer = self._client.post(f"/api/v1/threads/{thread}/messages", json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"{thread}, turn {turn}: {answer.status_code} {answer.text}")
        found = answer.json()
        receipt = found["receipt"]
        return Exchange(
            found["assistant_turn"]["content"],
            receipt["cached_tokens"],
            receipt["evaluated_tokens"],
            receipt["completion_tokens"],
        )


# --- straight to the server, as others lay their prompts out -----------------------------------------


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


def other_work(server: LlamaCpp, turn: int) -> Exchange:
    """A call with a prompt of its own, such as one for a title."""
    task = _system("You write a title of at most six words for a conversation. Answer with the title alone.")
    return server.chat([task, _user(said("other work", turn) + said("more of it", turn))], max_tokens=8)


def straight(server: LlamaCpp, layout: Layout, turns: int, thread: str = "straight") -> Run:
    """A chat in this layout, with nothing between it and llama.cpp."""
    run, past = Run(), list[Said]()
    for turn in range(turns):
        words = said(thread, turn)
        exchange = server.chat(layout(past, clock(turn), words), max_tokens=ANSWER_TOKENS)
        run.turns.append(exchange)
        past.append(Said(words, exchange.text, clock(turn)))
    return run


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
