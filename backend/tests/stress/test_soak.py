"""A server at steady load for minutes: memory, file handles and latency stay where they were."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.http_client import message, thread_path
from tests.processes import Server, StandInModel
from tests.stress.plot import write_plot
from tests.stress.utils import (
    SUBJECTS,
    Api,
    Figures,
    Size,
    chatting_settings,
    clients,
    covered,
    file_handles,
    memory_bytes,
    quantile,
    verified,
)

CLIENTS = 5
PERIOD_SECONDS = 0.5
"""Each client makes a request so often: ten a second in all."""
TURNS_A_THREAD = 20
THREADS_KEPT = 3
"""Of each client: older ones are forgotten, so that there is as much to keep at the end as after a minute."""
FEWEST_SAMPLES = 8
MEGABYTE = 1024 * 1024
PLOT = "soak.svg"


@dataclass
class Samples:
    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    handles: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p95: list[float] = field(default_factory=list)

    def take(self, elapsed: float, pid: int, latencies: Sequence[float]) -> None:
        self.seconds.append(elapsed)
        self.memory.append(memory_bytes(pid) / MEGABYTE)
        self.handles.append(file_handles(pid))
        self.p50.append(1000 * quantile(latencies, 0.5))
        self.p95.append(1000 * quantile(latencies, 0.95))

    def plot(self, path: Path) -> None:
        panels = {
            "memory, MB": {"resident": self.memory},
            "file handles": {"open": self.handles},
            "latency, ms": {"p50": self.p50, "p95": self.p95},
        }
        write_plot(path, f"{self.seconds[-1]:.0f} s at steady load", self.seconds, panels)


def drift(values: Sequence[float]) -> tuple[float, float]:
    """The median of the second quarter and of the last: what is loaded first is loaded by then."""
    quarter = len(values) // 4
    return statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_memory_handles_and_latency_stay_flat_at_steady_load(
    tmp_path: Path,
    model: StandInModel,
    figures: Figures,
    size: Size,
    artefacts: Path,
    remark: Callable[[str], None],
) -> None:
    model.control(chunk_delay_seconds=0.005)
    samples, until = Samples(), size.of(quick=4.0, long=600.0)
    with Server(tmp_path / "home", chatting_settings(model, embedding=True)) as server:
        async with clients(server.address, CLIENTS + 1, figures) as (watcher, *apis):
            started = time.monotonic()
            working = [
                asyncio.create_task(steady(api, number, started + until)) for number, api in enumerate(apis)
            ]
            while time.monotonic() < started + until or len(samples.seconds) < FEWEST_SAMPLES:
                before = len(figures.seconds)
                await asyncio.sleep(size.of(quick=0.4, long=5.0))  # The time between two samples.
                samples.take(time.monotonic() - started, server.pid, figures.seconds[before:])
            await asyncio.gather(*working)
            samples.plot(artefacts / PLOT)
            await watcher.drained(120)
            await watcher.indexed("embedded", seconds=120)
        covered(server.client)
        verified(server)
    figures.nothing_wrong()
    remark(f"soak: the plot is {artefacts / PLOT}")
    for name, values, times, more in (
        ("memory in MB", samples.memory, 1.02, size.of(quick=100.0, long=5.0)),
        ("file handles", samples.handles, 1.0, 10.0),
        ("p50 in ms", samples.p50, 2.0, size.of(quick=2000.0, long=100.0)),
    ):
        early, late = drift(values)
        remark(f"soak: {name}: {early:.0f} in the second quarter, {late:.0f} in the last")
        assert late <= times * early + more, f"{name} grew from {early:.0f} to {late:.0f}"


async def steady(api: Api, number: int, end: float) -> None:
    """One request a period: chats mostly; every thread is left after some turns, and forgotten a while later."""
    chance = random.Random(number)
    turn = thread = 0
    while (now := time.monotonic()) < end:
        name, user = f"s{number}-{thread}", f"u{number}"
        subject = SUBJECTS[(number * 7 + thread) % len(SUBJECTS)]
        await one_request(api, name, user, subject.questions[min(turn, 3)], turn, chance)
        turn += 1
        if turn == TURNS_A_THREAD:
            if thread >= THREADS_KEPT:
                oldest = thread_path(f"s{number}-{thread - THREADS_KEPT}")
                await api.json("DELETE", oldest, params={"user_id": user})
            turn, thread = 0, thread + 1
        await asyncio.sleep(max(0.0, now + PERIOD_SECONDS - time.monotonic()))


async def one_request(api: Api, thread: str, user: str, words: str, turn: int, chance: random.Random) -> None:
    kind = "chat" if turn == 0 else chance.choice(["chat", "chat", "chat", "add", "search", "read"])
    if kind == "chat":
        answer = await api.say(thread, words, user_id=user)
        assert answer["assistant_turn"]["status"] == "complete"
    elif kind == "add":
        await api.add(thread, [message(f"{words} ({turn})", sender_id=user)], user_id=user)
    elif kind == "search":
        hits = await api.search(words, user_id=user)
        api.figures.leaked += sum(not hit["thread_id"].startswith(f"s{user[1:]}-") for hit in hits)
    else:
        await api.turns(thread, user_id=user)
