"""How much of each prompt a real llama.cpp has to evaluate: through Recollect, and laid out as others do.

Counts of tokens, so a busy machine changes nothing but how long it takes. First turns are printed apart: nothing
can be cached of them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import servers
from reporting import progress, row

from tests import cache_chat
from tests.cache_chat import RecollectChat, Run, cached_percent, evaluated_per_turn
from tests.llama_cpp import LlamaCpp

TURNS = 12
LONG_TURNS = 30
CONTEXT = 4096
LONG_CONTEXT = 2304
"""Full after a dozen turns: thirty of them see the window shrink."""
_NO_PAUSE = {"RECOLLECT_MEMORIZE__PAUSE_SECONDS": "86400"}
_NO_EMBEDDER = {"RECOLLECT_EMBEDDING__KIND": "none"}


def measure_caching(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """With all of the small model's layers, or with four of them if it is to be quick: the counts are the same."""
    full = not quick
    steps = (_one_thread, _many_turns, _threads_on_slots, _beside_other_work)
    rows = []
    for number, step in enumerate(steps):
        progress("prompts on llama.cpp", number, len(steps))
        rows += step(folder / f"caching-{number}", full)
    return rows


def _one_thread(folder: Path, full: bool) -> list[dict[str, Any]]:
    with _chatting(folder / "off", full) as chat:
        off = chat.talk(["t1"], TURNS)
    with _chatting(folder / "on", full, settings=servers.real_embedder(), memory=True) as chat:
        on = chat.talk(["t1"], TURNS)
    return [
        *_beside_naive(off, full),
        _within("one thread, memory off", off),
        _within("one thread, memory on", on),
    ]


def _beside_naive(ours: list[Run], full: bool) -> list[dict[str, Any]]:
    rows = []
    for layout in (cache_chat.clock_first, cache_chat.clock_not_kept, cache_chat.cut_by_one):
        with LlamaCpp(slots=1, context=CONTEXT, full=full) as server:
            naive = [cache_chat.straight(server, layout, TURNS)]
        rows += _compared(f"{TURNS} turns / {_words(layout.__name__)}", ours, naive, at_least=92)
    return rows


def _many_turns(folder: Path, full: bool) -> list[dict[str, Any]]:
    with _chatting(folder, full, context=LONG_CONTEXT) as chat:
        ours = chat.talk(["t1"], LONG_TURNS)
    with LlamaCpp(slots=1, context=CONTEXT, full=full) as server:
        naive = [cache_chat.straight(server, cache_chat.cut_by_one, LONG_TURNS)]
    return _compared(f"{LONG_TURNS} turns, window shrinks / cut by one", ours, naive, at_least=80)


def _threads_on_slots(folder: Path, full: bool) -> list[dict[str, Any]]:
    rows = []
    for threads, at_least in ((2, 88), (4, 85)):
        names = [f"t{number}" for number in range(threads)]
        with _chatting(folder / str(threads), full, slots=2) as chat:
            ours = chat.talk(names, TURNS)
        with LlamaCpp(slots=2, context=CONTEXT, full=full) as server:
            naive = _in_turns(server, names)
        rows += _compared(f"{threads} threads on 2 slots / server chooses", ours, naive, at_least=at_least)
    return rows


def _in_turns(server: LlamaCpp, names: list[str]) -> list[Run]:
    """Append-only prompts, and nothing that tells the threads apart at once."""
    runs = {name: Run() for name in names}
    past: dict[str, list[cache_chat.Said]] = {name: [] for name in names}
    for turn in range(TURNS):
        for name in names:
            words, clock = cache_chat.said(name, turn), cache_chat.clock(turn)
            messages = cache_chat.clock_kept(past[name], clock, words)
            exchange = server.chat(messages, max_tokens=cache_chat.ANSWER_TOKENS)
            runs[name].turns.append(exchange)
            past[name].append(cache_chat.Said(words, exchange.text, clock))
    return list(runs.values())


def _beside_other_work(folder: Path, full: bool) -> list[dict[str, Any]]:
    """After every turn a call with a prompt of its own, on the chat's one slot."""
    with (
        LlamaCpp(slots=1, context=CONTEXT, full=full) as model,
        _in_front_of(model, folder / "alone") as chat,
    ):
        alone = chat.talk(["t1"], TURNS)
    with (
        LlamaCpp(slots=1, context=CONTEXT, full=full) as model,
        _in_front_of(model, folder / "beside") as chat,
    ):
        beside = chat.talk(["t1"], TURNS, lambda turn: cache_chat.other_work(model, turn))
    ours, baseline = evaluated_per_turn(beside), evaluated_per_turn(alone)
    name = "tokens evaluated a turn, other work after every turn on one slot / chat alone"
    return [row(name, ours, baseline, ours / baseline, "at most 1.05", ours <= 1.05 * baseline)]


@contextmanager
def _chatting(
    folder: Path,
    full: bool,
    *,
    slots: int = 1,
    context: int = CONTEXT,
    settings: Mapping[str, str] | None = None,
    memory: bool = False,
) -> Iterator[RecollectChat]:
    """A Recollect of its own in front of a llama.cpp of its own."""
    with (
        LlamaCpp(slots=slots, context=context, full=full) as model,
        _in_front_of(model, folder, settings, memory=memory) as chat,
    ):
        yield chat


@contextmanager
def _in_front_of(
    model: LlamaCpp, folder: Path, settings: Mapping[str, str] | None = None, *, memory: bool = False
) -> Iterator[RecollectChat]:
    given = {"RECOLLECT_LLM__BASE_URL": f"{model.address}/v1", **_NO_PAUSE, **(settings or _NO_EMBEDDER)}
    with (
        servers.recollect(folder / "home", given) as (port, _pid, _ready),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=600, trust_env=False) as client,
    ):
        yield RecollectChat(client, memory=memory)


def _compared(name: str, ours: list[Run], naive: list[Run], *, at_least: float) -> list[dict[str, Any]]:
    mine, other = cached_percent(ours), cached_percent(naive)
    all_mine, all_other = cached_percent(ours, with_first=True), cached_percent(naive, with_first=True)
    evaluated, evaluated_other = evaluated_per_turn(ours), evaluated_per_turn(naive)
    first = [sum(run.turns[0].evaluated for run in runs) / len(runs) for runs in (ours, naive)]
    wanted = f"at least {at_least} %"
    return [
        row(f"cached %, {name}", mine, other, mine / max(other, 0.1), wanted, mine >= at_least),
        row(
            f"cached % with first turns, {name}",
            all_mine,
            all_other,
            all_mine / max(all_other, 0.1),
            "",
            None,
        ),
        row(
            f"tokens evaluated a turn, {name}",
            evaluated,
            evaluated_other,
            evaluated / evaluated_other,
            "",
            None,
        ),
        row(f"tokens evaluated in a first turn, {name}", first[0], first[1], first[0] / first[1], "", None),
    ]


def _within(name: str, runs: list[Run]) -> dict[str, Any]:
    """Of every later turn, the one that comes nearest to its limit."""
    pairs = [
        (turn.evaluated, new) for run in runs for turn, new in zip(run.later, run.new_tokens, strict=True)
    ]
    evaluated, new = max(pairs, key=lambda pair: pair[0] - 1.05 * pair[1])
    holds = evaluated <= 1.05 * new + 8
    return row(
        f"tokens evaluated / new, worst turn, {name}",
        evaluated,
        new,
        evaluated / new,
        "1.05 new + 8",
        holds,
    )


def _words(name: str) -> str:
    return name.replace("_", " ")
