"""Servers on one journal, under load through all of them: any is killed, PostgreSQL restarts, S3 answers errors."""

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from recollect.service.coordination import now_ms
from tests.buckets import FaultyS3, new_url
from tests.chatting import text_of
from tests.eventually import eventually
from tests.http_client import Json, thread_path
from tests.members import Members
from tests.postgres import Cluster, own_cluster
from tests.processes import recollect_json
from tests.remembering import MortalModel
from tests.stress.test_crashes import Client, Gone, holds_what_was_said
from tests.stress.utils import (
    SUBJECTS,
    Api,
    Figures,
    Size,
    chatting_settings,
    covered,
    leaks_of,
    overlaps,
    verified,
)

UNAVAILABLE = 503
A_REQUEST_IN = 7
"""Of the requests to S3, while it is faulty, fails."""
SETTLED_SECONDS = 300
LEASE_SECONDS = 120


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
class Traveller(Client):
    """Leaves some answers in the middle, and goes on with them at another server."""

    members: Members = field(kw_only=True)
    resumed: int = 0
    """Answers that were complete in the end."""

    def doings(self) -> Sequence[Callable[[Api], Awaitable[None]]]:
        return [*super().doings(), self.resume, self.resume]

    async def resume(self, api: Api) -> None:
        words = self.next_words()
        self.unanswered = (words, "stream")
        body = {"user_id": self.user, "content": words, "stream": True}
        key = {"Idempotency-Key": f"{self.thread} {words}"}
        begun = api.client.stream("POST", thread_path(self.thread, "messages"), json=body, headers=key)
        head = [event async for event in told(begun, api.figures, until="delta")]
        if head[-1]["event"] == "delta":
            query = {"user_id": self.user, "after": head[-1]["id"]}
            here = str(api.client.base_url).rstrip("/")
            elsewhere = [each.address for each in list(self.members.running.values()) if each.address != here]
            async with door(self.chance.choice(elsewhere), api.figures) as other:
                rest = other.client.stream("GET", thread_path(self.thread, "stream"), params=query)
                tail = [event async for event in told(rest, api.figures)]
            answer = tail[-1]["data"].get("assistant_turn", {})
            if answer.get("status") == "complete":
                assert text_of([*head, *tail]) == answer["content"], (head, tail)
                self.resumed += 1
        await self._send(api, words, "stream")  # Once more, with the same key: it is the same one.


async def told(
    asked: AbstractAsyncContextManager[httpx2.Response], figures: Figures, until: str = "done"
) -> AsyncIterator[Json]:
    """The events of an answer, up to this one, or an error. Raises Gone."""
    event: Json = {}
    try:
        async with figures.timed(), asked as response:
            if response.status_code == UNAVAILABLE:
                raise Gone
            async for line in response.raise_for_status().aiter_lines():
                name, _, value = line.partition(": ")
                if name in ("id", "event", "data"):
                    event[name] = json.loads(value) if name == "data" else value
                elif event:
                    yield event
                    if event["event"] in (until, "done", "error"):
                        return
                    event = {}
    except httpx2.TransportError as error:
        raise Gone(str(error)) from error
    raise Gone("the answer has no end")


@dataclass
class Storm:
    """Servers under load, killed one after another."""

    members: Members
    cluster: Cluster
    journal: str
    crowd: list[Traveller]
    figures: Figures
    chance: random.Random
    names: list[str]
    most_requests: int
    """Between two kills."""
    is_faulty: bool = False
    restarts: int = 0
    """Of PostgreSQL."""
    faulty_seconds: float = 0.0
    longest_job: float = 0.0
    """Seconds for which a job was some server's, dead or alive."""

    def fault(self, method: str, path: str) -> int | None:
        """Of a request to S3."""
        return UNAVAILABLE if self.is_faulty and self.chance.randrange(A_REQUEST_IN) == 0 else None

    async def blow(self, kills: int) -> None:
        """The second one is followed by the end of the database. Afterwards the work that waits is done."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self.watch_jobs())
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
            watching.cancel()
        self.faulty_seconds += time.monotonic() - began if self.is_faulty else 0

    async def watch_jobs(self) -> None:
        def look() -> float:
            held = "SELECT %s - min(leased_until) FROM jobs WHERE state = 'running'"
            with self.cluster.inside(self.journal) as driver:
                row = driver.execute(held, (now_ms(),)).fetchone()
            return 0 if row is None or row[0] is None else LEASE_SECONDS + row[0] / 1000

        while True:
            with suppress(psycopg.OperationalError):
                self.longest_job = max(self.longest_job, await asyncio.to_thread(look))
            await asyncio.sleep(0.5)

    async def kill(self, name: str, *, also: bool) -> None:
        await asyncio.to_thread(self.members.kill, name)
        self.figures.kills += 1
        if also:
            await asyncio.to_thread(self.cluster.stop, signal.SIGQUIT)
            await asyncio.to_thread(self.cluster.start)
            self.restarts += 1
        await asyncio.to_thread(self.members.start, name)

    def has_seen(self, requests: int) -> bool:
        return self.figures.requests >= requests


@pytest.mark.timeout(3600)
async def test_kills_of_any_server_lose_double_mix_up_and_leak_nothing(
    tmp_path: Path,
    cluster: Cluster,
    model: MortalModel,
    figures: Figures,
    size: Size,
    request: pytest.FixtureRequest,
    remark: Callable[[str], None],
) -> None:
    seed = request.config.getoption("seed")
    chance = random.Random(f"members {size} {seed}")
    subjects = [subject for subject in SUBJECTS if subject.name.isascii()]  # Which stand in headers.
    more = size.of(quick=[], long=["three", "worker2", "worker3"])
    names = ["one", "two", "worker", *more]
    storms, kills = size.of(quick=(1, 4), long=(request.config.getoption("storms"), 20))
    journal = cluster.url(str(tmp_path))
    settings = chatting_settings(model, embedding=True, JOBS__LEASE_SECONDS=str(LEASE_SECONDS)) | {
        "RECOLLECT_DATABASE_URL": journal,
        "RECOLLECT_FILES_URL": new_url(),
    }
    model.control(chunk_delay_seconds=0.005)
    with Members(tmp_path, settings) as members:
        crowd = [
            Traveller(
                number,
                subjects[number % len(subjects)],
                random.Random(f"{seed}{number}"),
                members=members,
            )
            for number in range(size.of(quick=6, long=50))
        ]
        most = size.of(quick=60, long=150)
        storm = Storm(members, cluster, journal, crowd, figures, chance, names, most)
        with FaultyS3(storm.fault) as faulty:
            for name in names:
                await asyncio.to_thread(members.start, name)
            await asyncio.to_thread(members.leader)
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
    log, resumed = model.log(), sum(person.resumed for person in crowd)
    figures.leaked += len(leaks_of(log, {subject.name: subject.name for subject in subjects}))
    remark(
        f"members: {resumed} answers resumed through another server, {storm.restarts} restarts of PostgreSQL,"
        f" {storm.faulty_seconds:.0f} s of S3 failing, no job held for more than {storm.longest_job:.0f} s"
    )
    assert resumed > 0
    assert storm.longest_job < LEASE_SECONDS
    assert overlaps(log) == []
    assert sum(len(person.said) for person in crowd) > figures.kills
    figures.nothing_wrong()


async def nothing_is_wrong(api: Api, crowd: list[Traveller]) -> None:
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
