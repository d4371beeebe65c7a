"""Servers on one journal, under load through all of them: any is killed, PostgreSQL restarts, S3 answers errors."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
SETTLED_SECONDS = 300


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


@dataclass
class Storm:
    """Servers under load, killed one after another."""

    members: Members
    cluster: Cluster
    crowd: list[Client]
    figures: Figures
    chance: random.Random
    names: list[str]
    most_requests: int
    """Between two kills."""
    is_faulty: bool = False

    def fault(self, method: str, path: str) -> int | None:
        """Of a request to S3."""
        return UNAVAILABLE if self.is_faulty and self.chance.randrange(A_REQUEST_IN) == 0 else None

    async def blow(self, kills: int) -> None:
        """The second one is followed by the end of the database. Afterwards the work that waits is done."""
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(roam(person, self.members, self.figures)) for person in self.crowd]
            for number in range(kills):
                wanted = self.figures.requests + self.chance.randint(1, self.most_requests)
                await eventually(partial(self.has_seen, wanted), seconds=120)
                leader = await asyncio.to_thread(self.members.leader)
                await self.kill(leader if number % 2 else self.chance.choice(self.names), also=number == 1)
            for task in working:
                task.cancel()
        async with door(self.members.standby().address, self.figures) as api:
            await api.drained(SETTLED_SECONDS)

    async def kill(self, name: str, *, also: bool) -> None:
        await asyncio.to_thread(self.members.kill, name)
        self.figures.kills += 1
        if also:
            await asyncio.to_thread(self.cluster.stop, signal.SIGQUIT)
            await asyncio.to_thread(self.cluster.start)
            self.figures.kills += 1
        await asyncio.to_thread(self.members.start, name)

    def has_seen(self, requests: int) -> bool:
        return self.figures.requests >= requests


@pytest.mark.timeout(3600)
async def test_kills_of_any_server_lose_double_mix_up_and_leak_nothing(
    tmp_path: Path, cluster: Cluster, model: MortalModel, figures: Figures, size: Size
) -> None:
    chance = random.Random(f"members {size}")
    subjects = [subject for subject in SUBJECTS if subject.name.isascii()]  # Which stand in headers.
    crowd = [
        Client(number, subjects[number % len(subjects)], random.Random(number))
        for number in range(size.of(quick=6, long=50))
    ]
    more = size.of(quick=[], long=["three", "worker2", "worker3"])
    names = ["one", "two", "worker", *more]
    storms, kills = size.of(quick=(1, 4), long=(10, 20))
    settings = chatting_settings(model, embedding=True) | {
        "RECOLLECT_DATABASE_URL": cluster.url(str(tmp_path))
    }
    settings["RECOLLECT_FILES_URL"] = new_url()
    model.control(chunk_delay_seconds=0.005)
    with Members(tmp_path, settings) as members:
        storm = Storm(members, cluster, crowd, figures, chance, names, size.of(quick=60, long=150))
        with FaultyS3(storm.fault) as faulty:
            for name in names:
                await asyncio.to_thread(members.start, name)
            for number in range(storms):
                storm.is_faulty = number % 2 == 0
                await storm.blow(kills)
            storm.is_faulty = False
            figures.faults += faulty.faults
            async with door(members.standby().address, figures) as api:
                await nothing_is_wrong(api, crowd)
            server = members.standby()
            covered(server.client)
            verified(server)
            assert recollect_json(server.home, "verify", "--forgotten")["problems"] == []
    assert sum(len(person.said) for person in crowd) > figures.kills
    figures.nothing_wrong()


async def nothing_is_wrong(api: Api, crowd: list[Client]) -> None:
    for person in crowd:
        await person.settle(api)
        await person.send_again(api)
    await api.drained(SETTLED_SECONDS)
    await api.indexed("embedded", seconds=SETTLED_SECONDS)
    for person in crowd:
        await holds_what_was_said(person, api)


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
