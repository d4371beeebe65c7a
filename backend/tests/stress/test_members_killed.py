"""Servers on one journal, under load through all of them: any is killed, PostgreSQL restarts, S3 answers errors."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.buckets import FaultyS3, new_url
from tests.eventually import eventually
from tests.members import Members
from tests.postgres import Cluster, own_cluster
from tests.processes import recollect_json
from tests.remembering import MortalModel
from tests.stress.test_crashes import Client, holds_what_was_said
from tests.stress.utils import SUBJECTS, Api, Figures, Size, chatting_settings, covered, verified

UNAVAILABLE = 503
A_REQUEST_IN = 7
"""Of the requests to S3, while it is faulty, fails."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


class Patient(Api):
    """To whom a server that can't answer now is as good as gone."""

    async def call(self, method: str, path: str, **fields: Any) -> httpx2.Response:
        answer = await super().call(method, path, **fields)
        if answer.status_code == UNAVAILABLE:
            raise httpx2.ConnectError(answer.text)
        return answer


@pytest.mark.timeout(3000)
async def test_kills_of_any_server_lose_double_mix_up_and_leak_nothing(
    tmp_path: Path, cluster: Cluster, model: MortalModel, figures: Figures, size: Size
) -> None:
    chance = random.Random(f"members {size}")
    kills, restarts = size.of(quick=4, long=200), size.of(quick=1, long=5)
    names = size.of(
        quick=["one", "two", "worker"], long=["one", "two", "three", "worker1", "worker2", "worker3"]
    )
    subjects = [subject for subject in SUBJECTS if subject.name.isascii()]  # Which stand in headers.
    crowd = [
        Client(number, subjects[number % len(subjects)], random.Random(number))
        for number in range(size.of(quick=6, long=50))
    ]
    model.control(chunk_delay_seconds=0.005)
    is_faulty = False
    fault = lambda method, path: UNAVAILABLE if is_faulty and chance.randrange(A_REQUEST_IN) == 0 else None  # noqa: E731
    with FaultyS3(fault) as faulty:
        settings = {
            **chatting_settings(model, embedding=True),
            "RECOLLECT_DATABASE_URL": cluster.url(str(tmp_path)),
            "RECOLLECT_FILES_URL": new_url(),
        }
        with Members(tmp_path, settings) as members:
            for name in names:
                await asyncio.to_thread(members.start, name)
            async with asyncio.TaskGroup() as group:
                working = [group.create_task(roam(person, members, figures)) for person in crowd]
                for number in range(kills):
                    is_faulty = kills // 4 <= number < kills // 2
                    before = figures.requests
                    wanted = before + chance.randint(1, size.of(quick=60, long=150))
                    await eventually(partial(reached, figures, wanted), seconds=120)
                    victim = await asyncio.to_thread(members.leader) if number % 2 else chance.choice(names)
                    await asyncio.to_thread(members.kill, victim)
                    figures.kills += 1
                    if number % (kills // restarts) == 1:
                        await asyncio.to_thread(cluster.stop, signal.SIGQUIT)
                        await asyncio.to_thread(cluster.start)
                        figures.kills += 1
                    await asyncio.to_thread(members.start, victim)
                for task in working:
                    task.cancel()
            figures.faults += faulty.faults
            async with door(members.standby().address, figures) as api:
                for person in crowd:
                    await person.settle(api)
                    await person.send_again(api)
                await api.drained(180)
                await api.indexed("embedded", seconds=180)
                for person in crowd:
                    await holds_what_was_said(person, api)
            server = members.standby()
            covered(server.client)
            verified(server)
            assert recollect_json(server.home, "verify", "--forgotten")["problems"] == []
    assert sum(len(person.said) for person in crowd) > figures.kills
    figures.nothing_wrong()


def reached(figures: Figures, requests: int) -> bool:
    return figures.requests >= requests


async def roam(person: Client, members: Members, figures: Figures) -> None:
    """Work through one server until it is gone, then through another."""
    while True:
        address = person.chance.choice([server.address for server in members.running.values()])
        async with door(address, figures) as api:
            try:
                await person.work(api)
            except Exception as error:
                error.add_note(members.crashes())
                raise
        await asyncio.sleep(0.1)


@asynccontextmanager
async def door(address: str, figures: Figures) -> AsyncIterator[Patient]:
    async with httpx2.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
        yield Patient(client, figures)
