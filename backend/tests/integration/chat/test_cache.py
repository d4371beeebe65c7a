"""Nothing is evaluated twice: long chats through Recollect on a real llama.cpp with default flags.

Beside some stand the same chats straight to the model; a table at the end shows all of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import cache_chat
from tests.cache_chat import NO_BACKGROUND_WORK, MemoryWork, RecollectChat
from tests.cache_figures import (
    PROMPTS,
    Run,
    cached_percent,
    evaluated_per_turn,
    more_than_new,
    new_per_turn,
    table_row,
)
from tests.processes import Server
from tests.standins import naive_prompts
from tests.standins.llama_cpp import LlamaCpp
from tests.standins.naive_prompts import Layout

pytestmark = pytest.mark.timeout(600)

TURNS = 12
SMALL_CONTEXT = 2304
"""Full after a dozen turns: thirty of them see the window shrink."""
Show = Callable[[str, Sequence[Run]], None]


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Show:
    """Puts a row into the table."""
    return lambda prompts, runs: record_property(PROMPTS, table_row(prompts, runs))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One thread with memory off, and nothing else on the server."""
    with chatting(tmp_path_factory.mktemp("alone") / "home") as (chat, _):
        (run,) = chat.talk(["t1"], TURNS)
    return run


@contextmanager
def chatting(
    home: Path,
    *,
    slots: int = 1,
    context: int = 4096,
    memory: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[tuple[RecollectChat, LlamaCpp]]:
    """A Recollect in front of a llama.cpp."""
    with LlamaCpp(slots=slots, context=context) as model:
        given = {"RECOLLECT_LLM__BASE_URL": f"{model.base_url}/v1", **NO_BACKGROUND_WORK, **(settings or {})}
        with Server(home, given) as server:
            yield RecollectChat(server.client, memory=memory), model


def straight(layout: Layout, turns: int, *, slots: int = 1, threads: Sequence[str] = ("t1",)) -> list[Run]:
    with LlamaCpp(slots=slots) as server:
        return naive_prompts.straight(server, layout, turns, threads)


def test_twelve_turns_evaluate_new_tokens_alone(alone: Run, show: Show) -> None:
    show("12 turns, memory off", [alone])
    assert len(alone.turns) == TURNS
    assert more_than_new(alone) == []
    assert cached_percent([alone]) >= 92


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [naive_prompts.clock_first, naive_prompts.clock_not_kept, naive_prompts.cut_by_one],
    ids=lambda layout: layout.__name__,
)
def test_prompts_as_others_lay_them_out_evaluate_more(layout: Layout, alone: Run, show: Show) -> None:
    naive = straight(layout, 9)
    show(f"    beside it: {layout.__name__.replace('_', ' ')}, 9 turns", naive)
    assert evaluated_per_turn(naive) > 1.2 * evaluated_per_turn([alone])


@pytest.mark.slow
def test_recalled_memories_cost_their_own_tokens_and_no_more(
    tmp_path: Path, model_folder: Path, show: Show
) -> None:
    settings = {
        "RECOLLECT_EMBEDDING__FOLDER": str(model_folder),
        "RECOLLECT_CHAT__RECALL_SECONDS": "30",  # However busy the machine is.
    }
    with chatting(tmp_path / "home", memory=True, settings=settings) as (chat, _):
        chat.tell(TURNS)
        (run,) = chat.talk(["t1"], TURNS, words=cache_chat.asked)
    recalled = sum(turn.memories > 0 for turn in run.turns)
    show(f"12 turns, memory on ({recalled} of them recalled something)", [run])
    assert recalled >= TURNS / 2
    assert more_than_new(run) == []


@pytest.mark.slow
def test_thirty_turns_through_a_shrinking_window_stay_cached(tmp_path: Path, show: Show) -> None:
    with chatting(tmp_path / "home", context=SMALL_CONTEXT) as (chat, _):
        (run,) = chat.talk(["t1"], 30)
    shrunk = sum(
        now.prompt_tokens < before.prompt_tokens for before, now in zip(run.turns, run.later, strict=False)
    )
    show(f"30 turns, the window shrinks {shrunk} times", [run])
    assert shrunk > 0
    assert cached_percent([run]) >= 80


@pytest.mark.slow
@pytest.mark.parametrize(("names", "turns", "at_least"), [("t1 t2", 10, 88), ("t1 t2 t3 t4", 8, 85)])
def test_threads_on_two_slots_stay_cached(
    tmp_path: Path, names: str, turns: int, at_least: float, show: Show
) -> None:
    threads = names.split()
    with chatting(tmp_path / "home", slots=2) as (chat, _):
        runs = chat.talk(threads, turns)
    show(f"{len(threads)} threads on 2 slots, {turns} turns each", runs)
    naive = straight(naive_prompts.clock_kept, turns, slots=2, threads=threads)
    show(f"    beside it: clock kept, server chooses, {turns} turns each", naive)
    assert cached_percent(runs) >= at_least
    assert evaluated_per_turn(naive) > 1.5 * evaluated_per_turn(runs)


@pytest.mark.slow
def test_memory_work_after_every_turn_costs_the_chat_nothing_on_one_slot(
    tmp_path: Path, alone: Run, show: Show
) -> None:
    # Four layers of a model never come to an end by themselves.
    settings = {"RECOLLECT_MEMORIZE__MODEL_TIMEOUT_SECONDS": "4"}
    with chatting(tmp_path / "home", memory=True, settings=settings) as (chat, model):
        work = MemoryWork(chat, model)
        (run,) = chat.talk(["t1"], 8, after_each=work)
    worked, same_turns = sum(tokens > 0 for tokens in work.evaluated), Run(alone.turns[:8])
    show(f"8 turns, memory work after {worked} of them ({sum(work.evaluated)} tokens), 1 slot", [run])
    assert worked > 4
    assert evaluated_per_turn([run]) <= 1.05 * new_per_turn([run])
    assert evaluated_per_turn([run]) <= 1.05 * evaluated_per_turn([same_turns])
