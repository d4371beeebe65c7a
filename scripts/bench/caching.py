"""How much of each prompt a real llama.cpp has to evaluate: through Recollect, and laid out as others do.

Counts of tokens, so a busy machine changes nothing but how long it takes. Ours are counted on the whole model; what
others evaluate is counted on four of its layers, which have the same tokens and the same cache, and takes minutes
instead of an hour. First turns are printed apart: nothing can be cached of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2
import servers
from reporting import Row, progress, row

from tests import cache_chat
from tests.cache_chat import NO_BACKGROUND_WORK, MemoryWork, RecollectChat
from tests.cache_figures import Run, cached_percent, evaluated_per_turn
from tests.standins import naive_prompts
from tests.standins.llama_cpp import LlamaCpp

TURNS = 12
LONG_TURNS = 30
CONTEXT = 4096
LONG_CONTEXT = 2304
"""Full after a dozen turns: thirty of them see the window shrink."""
_NO_EMBEDDER = {"RECOLLECT_EMBEDDING__KIND": "none"}
_RECALL_IN_ANY_CASE = {"RECOLLECT_CHAT__RECALL_SECONDS": "30"}
"""However busy the machine is."""
_SHORT_CALLS = {"RECOLLECT_MEMORIZE__MODEL_TIMEOUT_SECONDS": "20"}
"""A model of this size seldom comes to an end by itself."""


def measure_caching(folder: Path, quick: bool) -> list[Row]:
    """If it is to be quick, ours on four layers too."""
    full = not quick
    steps = (_one_thread, _many_turns, _threads_on_slots)
    rows = []
    for number, step in enumerate(steps):
        progress("prompts on llama.cpp", number, len(steps))
        rows += step(folder / f"caching-{number}", full)
    return rows


def _one_thread(folder: Path, full: bool) -> list[Row]:
    with _chatting(folder / "off", full) as (chat, _):
        off = chat.talk(["t1"], TURNS)
    return [
        *_beside_naive(off, full),
        _within("one thread, memory off", off, full),
        *_remembering(folder / "on", full),
        *_beside_memory_work(folder / "work", full, off),
    ]


def _beside_naive(ours: list[Run], full: bool) -> list[Row]:
    rows = []
    for layout in (naive_prompts.clock_first, naive_prompts.clock_not_kept, naive_prompts.cut_by_one):
        name = f"{TURNS} turns / {layout.__name__.replace('_', ' ')}"
        rows += _compared(name, ours, _straight(layout), full, at_least=92)
    return rows


def _remembering(folder: Path, full: bool) -> list[Row]:
    """The user asks in every turn about something that was told in another thread."""
    settings = {**servers.real_embedder(), **_RECALL_IN_ANY_CASE}
    with _chatting(folder, full, settings=settings, memory=True) as (chat, _):
        chat.tell(TURNS)
        runs = chat.talk(["t1"], TURNS, words=cache_chat.asked)
    recalled = sum(turn.memories > 0 for run in runs for turn in run.turns)
    name = "turns that recalled something / turns, one thread, memory on"
    return [
        row(name, recalled, TURNS, "at least 0.50", recalled >= TURNS / 2),
        _within("one thread, memory on", runs, full),
    ]


def _beside_memory_work(folder: Path, full: bool, alone: list[Run]) -> list[Row]:
    """After every turn Recollect asks the model for boundaries and memories, on the chat's one slot."""
    settings = {**_NO_EMBEDDER, **_SHORT_CALLS}
    with _chatting(folder, full, settings=settings, memory=True) as (chat, model):
        work = MemoryWork(chat, model)
        beside = chat.talk(["t1"], TURNS, after_each=work)
    worked = sum(tokens > 0 for tokens in work.evaluated)
    ours, baseline = evaluated_per_turn(beside), evaluated_per_turn(alone)
    name = f"tokens evaluated a turn, memory work after it on one slot / chat alone, {_layers(full)}"
    calls = "turns after which memory work evaluated tokens / turns"
    return [
        row(calls, worked, TURNS, "more than 0.50", worked > TURNS / 2),
        row(name, ours, baseline, "at most 1.05", ours <= 1.05 * baseline),
    ]


def _many_turns(folder: Path, full: bool) -> list[Row]:
    with _chatting(folder, full, context=LONG_CONTEXT) as (chat, _):
        ours = chat.talk(["t1"], LONG_TURNS)
    naive = _straight(naive_prompts.cut_by_one, turns=LONG_TURNS, context=LONG_CONTEXT)
    return _compared(f"{LONG_TURNS} turns, window shrinks / cut by one", ours, naive, full, at_least=80)


def _threads_on_slots(folder: Path, full: bool) -> list[Row]:
    rows = []
    for threads, at_least in ((2, 88), (4, 85)):
        names = [f"t{number}" for number in range(threads)]
        with _chatting(folder / str(threads), full, slots=2) as (chat, _):
            ours = chat.talk(names, TURNS)
        naive = _straight(naive_prompts.clock_kept, slots=2, threads=names)
        name = f"{threads} threads on 2 slots / append-only, server chooses"
        rows += _compared(name, ours, naive, full, at_least=at_least)
    return rows


def _straight(
    layout: naive_prompts.Layout,
    *,
    turns: int = TURNS,
    slots: int = 1,
    context: int = CONTEXT,
    threads: Sequence[str] = ("t1",),
) -> list[Run]:
    with LlamaCpp(slots=slots, context=context) as server:
        return naive_prompts.straight(server, layout, turns, threads)


@contextmanager
def _chatting(
    folder: Path,
    full: bool,
    *,
    slots: int = 1,
    context: int = CONTEXT,
    settings: Mapping[str, str] = _NO_EMBEDDER,
    memory: bool = False,
) -> Iterator[tuple[RecollectChat, LlamaCpp]]:
    """A Recollect of its own in front of a llama.cpp of its own."""
    with LlamaCpp(slots=slots, context=context, full=full) as model:
        given = {"RECOLLECT_LLM__BASE_URL": f"{model.base_url}/v1", **NO_BACKGROUND_WORK, **settings}
        with (
            servers.recollect(folder / "home", given) as (port, _pid, _ready),
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=600, trust_env=False) as client,
        ):
            yield RecollectChat(client, memory=memory), model


def _compared(name: str, ours: list[Run], naive: list[Run], full: bool, *, at_least: float) -> list[Row]:
    name = f"{name} ({_layers(full)} / 4 layers)"
    cached = cached_percent(ours), cached_percent(naive)
    in_all = cached_percent(ours, with_first=True), cached_percent(naive, with_first=True)
    evaluated = evaluated_per_turn(ours), evaluated_per_turn(naive)
    first = _first_turn(ours), _first_turn(naive)
    return [
        row(f"cached %, {name}", *cached, f"at least {at_least} %", cached[0] >= at_least),
        row(f"cached % with first turns, {name}", *in_all),
        row(f"tokens evaluated a turn, {name}", *evaluated),
        row(f"tokens evaluated in a first turn, {name}", *first),
    ]


def _first_turn(runs: list[Run]) -> float:
    return sum(run.turns[0].evaluated for run in runs) / len(runs)


def _within(name: str, runs: list[Run], full: bool) -> Row:
    """Of every later turn, the one that comes nearest to its limit."""
    pairs = [
        (turn.evaluated, new) for run in runs for turn, new in zip(run.later, run.new_tokens, strict=True)
    ]
    evaluated, new = max(pairs, key=lambda pair: pair[0] - 1.05 * pair[1])
    title = f"tokens evaluated / new, worst turn, {name}, {_layers(full)}"
    return row(title, evaluated, new, "1.05 new + 8", evaluated <= 1.05 * new + 8)


def _layers(full: bool) -> str:
    return "whole model" if full else "4 layers"
