"""Nothing is evaluated twice: long chats through Recollect on a real llama.cpp with default flags."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import cache_chat
from tests.cache_chat import RecollectChat, Run, cached_percent, evaluated_per_turn, new_per_turn
from tests.llama_cpp import LlamaCpp
from tests.processes import Server

pytestmark = pytest.mark.timeout(600)


@contextmanager
def chatting(
    home: Path, *, slots: int = 1, context: int = 4096, memory: bool = False
) -> Iterator[RecollectChat]:
    with LlamaCpp(slots=slots, context=context) as model, Server(home, backend(model)) as server:
        yield RecollectChat(server.client, memory=memory)


def backend(model: LlamaCpp) -> dict[str, str]:
    return {
        "RECOLLECT_LLM__BASE_URL": f"{model.address}/v1",
        "RECOLLECT_MEMORIZE__PAUSE_SECONDS": "86400",
    }


def assert_only_new_tokens(run: Run) -> None:
    figures = list(zip((turn.evaluated for turn in run.later), run.new_tokens, strict=True))
    assert [pair for pair in figures if pair[0] > 1.05 * pair[1] + 8] == []


def test_twelve_turns_evaluate_new_tokens_alone(tmp_path: Path) -> None:
    with chatting(tmp_path / "home") as chat:
        (run,) = chat.talk(["t1"], 12)
    assert_only_new_tokens(run)
    assert cached_percent([run]) >= 92
    with LlamaCpp() as server:
        naive = cache_chat.straight(server, cache_chat.clock_first, 4)
    assert cached_percent([naive]) < 10


def test_recalled_memories_cost_their_own_tokens_and_no_more(tmp_path: Path) -> None:
    with chatting(tmp_path / "home", memory=True) as chat:
        (run,) = chat.talk(["t1"], 8)
    assert_only_new_tokens(run)


def test_thirty_turns_through_a_shrinking_window_stay_cached(tmp_path: Path) -> None:
    with chatting(tmp_path / "home", context=2304) as chat:
        (run,) = chat.talk(["t1"], 30)
    shrunk = [
        now.prompt_tokens < before.prompt_tokens for before, now in zip(run.turns, run.later, strict=False)
    ]
    assert any(shrunk)
    assert cached_percent([run]) >= 80


def test_two_threads_on_two_slots_stay_cached(tmp_path: Path) -> None:
    with chatting(tmp_path / "home", slots=2) as chat:
        runs = chat.talk(["t1", "t2"], 10)
    assert cached_percent(runs) >= 88


def test_four_threads_on_two_slots_stay_cached(tmp_path: Path) -> None:
    with chatting(tmp_path / "home", slots=2) as chat:
        runs = chat.talk(["t1", "t2", "t3", "t4"], 8)
    assert cached_percent(runs) >= 85


def test_other_work_after_every_turn_costs_the_chat_nothing_on_one_slot(tmp_path: Path) -> None:
    others = []
    with LlamaCpp() as model, Server(tmp_path / "home", backend(model)) as server:
        chat = RecollectChat(server.client)
        (run,) = chat.talk(["t1"], 8, lambda turn: others.append(cache_chat.other_work(model, turn)))
    assert min(other.evaluated for other in others) > 100
    assert evaluated_per_turn([run]) <= 1.05 * new_per_turn([run])
