"""A real server under load from several clients, killed with `kill -9` again and again, its model now and then too."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.failpoints import FailPoints
from recollect.infra.backends.server import KEEP_ALIVE_SECONDS
from tests.eventually import eventually
from tests.http_client import Home, Json, message, opened, thread_path
from tests.processes import Server, recollect_json
from tests.remembering import MortalModel
from tests.standins.where_ann_lives import rebuild_from_vault
from tests.stress.utils import (
    OVER,
    SUBJECTS,
    Api,
    Figures,
    Size,
    Subject,
    answered_twice,
    chatting_settings,
    clients,
    covered,
    doubles,
    file_handles,
    memory_bytes,
    recognised,
    verified,
)

CLIENTS = 5
STEPS = (
    "journal.in_transaction",
    "journal.committed",
    "jobs.claimed",
    "jobs.handled",
    "boundary.closed",
    "vault.renamed",
)
"""Where the server kills itself, in every other life; in the others it is killed from outside."""
NOT_FOUND = 404
HANDLES_TO_SPARE = 8
BYTES_TO_SPARE = 100 * 1024 * 1024


class Gone(Exception):
    """The server, or what it asked, did not answer."""


@dataclass
class Client:
    """Chats, adds, searches, corrects and forgets in a thread of its own; sends again what got no answer."""

    number: int
    subject: Subject
    chance: random.Random
    said: list[str] = field(default_factory=list)
    """In order, as far as it is known to be stored."""
    forgotten: set[str] = field(default_factory=set)
    unanswered: tuple[str, str] | None = None
    """What was sent last, and by which door, if no answer came."""
    answered: tuple[str, str] | None = None
    """What was sent last, and by which door, if an answer came and it is not forgotten."""
    forgetting: str | None = None
    """What was to be forgotten, if no answer came."""

    @property
    def thread(self) -> str:
        return f"c{self.number}"

    @property
    def user(self) -> str:
        return f"u{self.number}"

    async def work(self, api: Api) -> None:
        """Until the server is gone."""
        doings = self.doings()
        try:
            while True:
                await self.settle(api)
                await self.chance.choice(doings)(api)
        except Gone:
            return

    def doings(self) -> Sequence[Callable[[Api], Awaitable[None]]]:
        """One of them is next."""
        return [self.speak] * 6 + [self.search, self.correct, self.flush, self.forget, self.send_again]

    async def settle(self, api: Api) -> None:
        if self.forgetting is not None:
            await self._forget(api, self.forgetting)
        if self.unanswered is not None:
            await self._send(api, *self.unanswered)

    async def speak(self, api: Api) -> None:
        await self._send(api, self.next_words(), self.chance.choice(["chat", "stream", "add"]))

    def next_words(self) -> str:
        count = len(self.said) + len(self.forgotten)
        return f"{self.subject.questions[min(count, 3)]} ({count})"

    async def send_again(self, api: Api) -> None:
        """As if the answer had got lost on its way: it is the same one, and nothing is stored twice."""
        if self.answered is not None:
            await self._send(api, *self.answered)

    async def _send(self, api: Api, words: str, door: str) -> None:
        self.unanswered = (words, door)
        key = f"{self.thread} {words}"
        if door == "add":
            item = message(words, len(self.said), message_id=key, sender_id=self.user)
            await self._call(api, "POST", "/api/v1/memory/add", {
                "session_id": self.thread, "user_id": self.user, "messages": [item],
            })  # fmt: skip
        else:
            body = {"user_id": self.user, "content": words, "stream": door == "stream"}
            path = thread_path(self.thread, "messages")
            answer = await self._call(api, "POST", path, body, headers={"Idempotency-Key": key})
            if answer.status_code >= 500 and "user_turn" not in answer.json():
                raise Gone(answer.text)
        if words not in self.said:
            self.said.append(words)
        self.unanswered, self.answered = None, (words, door)

    async def search(self, api: Api) -> None:
        body = {"query": f"Who is {self.subject.name}?", "user_id": self.user, "top_k": 100}
        hits = (await self._call(api, "POST", "/api/v1/memory/search", body)).json()["hits"]
        api.figures.leaked += sum(hit["thread_id"] != self.thread for hit in hits)
        assert not [hit for hit in hits if hit["text"] in self.forgotten]

    async def correct(self, api: Api) -> None:
        found = await self._call(api, "GET", "/api/v1/memory/entries", params={"user_id": self.user})
        if entries := found.json()["entries"]:
            body = {"pinned": True, "user_id": self.user}
            await self._call(
                api, "PATCH", f"/api/v1/memory/entries/{self.chance.choice(entries)['id']}", body
            )

    async def flush(self, api: Api) -> None:
        if self.said:
            body = {"session_id": self.thread, "user_id": self.user, "timeout": 1}
            await self._call(api, "POST", "/api/v1/memory/flush", body)

    async def forget(self, api: Api) -> None:
        """Now and then, and never the first message, which names the subject."""
        if len(self.said) > 3 and self.chance.random() < 0.3:
            await self._forget(api, self.chance.choice(self.said[1:]))

    async def _forget(self, api: Api, words: str) -> None:
        self.forgetting = words
        listed = await self._call(
            api, "GET", thread_path(self.thread, "turns"), params={"max_turns": 10**6, "user_id": self.user}
        )
        turn = next((turn for turn in listed.json()["turns"] if turn["content"] == words), None)
        if turn is not None:
            answer = await self._call(
                api,
                "DELETE",
                thread_path(self.thread, "turns", turn["turn_id"]),
                params={"user_id": self.user, "answers": True},
            )
            assert answer.status_code in (200, NOT_FOUND), answer.text
        self.forgotten.add(words)
        self.said = [each for each in self.said if each != words]
        if self.answered is not None and self.answered[0] == words:
            self.answered = None
        self.forgetting = None

    async def _call(
        self, api: Api, method: str, path: str, body: Json | None = None, **fields: Any
    ) -> httpx2.Response:
        try:
            return await api.call(method, path, **({} if body is None else {"json": body}), **fields)
        except httpx2.TransportError as error:
            raise Gone(str(error)) from error


@pytest.mark.timeout(1200)
async def test_kills_under_load_lose_double_and_leave_nothing(
    tmp_path: Path, model: MortalModel, figures: Figures, size: Size
) -> None:
    home, settings = tmp_path / "home", chatting_settings(model, embedding=True)
    chance = random.Random(f"crashes {size}")
    people = [Client(number, SUBJECTS[number], random.Random(chance.random())) for number in range(CLIENTS)]
    model.control(chunk_delay_seconds=0.01)
    for number in range(size.of(quick=3, long=30)):
        step = f"{chance.choice(STEPS)}:{chance.randint(5, 60)}"
        with Server(home, {**settings, **({"RECOLLECT_FAIL_POINT": step} if number % 2 else {})}) as server:
            await load_until_killed(server, people, figures, chance.randint(1, size.of(quick=50, long=80)))
            figures.kills += 1
            if number % 4 == 3:
                model.process.kill()
                model.revive()
                figures.kills += 1
    with Server(home, settings) as server:
        async with clients(server.address, CLIENTS, figures) as apis:
            for person, api in zip(people, apis, strict=True):
                await person.settle(api)
                await person.send_again(api)
            await apis[0].drained(120)
            await apis[0].indexed("embedded", seconds=120)
            for person, api in zip(people, apis, strict=True):
                await holds_what_was_said(person, api)
        counted = covered(server.client)
        verified(server)
        assert recollect_json(home, "verify", "--forgotten")["problems"] == []
        assert server.stop() == 0
    assert sum(len(person.said) for person in people) > figures.kills
    rebuilt = rebuild_from_vault(home)
    assert rebuilt["verification"]["coverage"]["default"]["digest"] == counted["digest"]
    figures.nothing_wrong()


async def load_until_killed(server: Server, people: list[Client], figures: Figures, requests: int) -> None:
    """A kill after so many requests, while others are under way, unless it killed itself before."""
    before = figures.requests
    async with clients(server.address, CLIENTS + 1, figures) as (watcher, *apis):
        watching = asyncio.create_task(watch(watcher))
        working = [asyncio.create_task(person.work(api)) for person, api in zip(people, apis, strict=True)]
        await eventually(lambda: server.has_ended() or figures.requests >= before + requests, seconds=120)
        server.kill()
        await asyncio.gather(watching, *working)


async def watch(api: Api) -> None:
    """At every moment each message is in one place: in the buffer, or in a memcell."""
    with suppress(httpx2.TransportError):
        while True:
            counted = (await api.client.get("/api/v1/coverage")).raise_for_status().json()
            api.figures.lost += counted["missing"]
            api.figures.duplicated += counted["doubled"]
            await asyncio.sleep(0.01)


async def holds_what_was_said(person: Client, api: Api) -> None:
    """All of it, once and in order; one answer at most that is complete; nothing of what was forgotten."""
    turns = await api.turns(person.thread, user_id=person.user)
    said = [turn["content"] for turn in turns if turn["role"] == "user"]
    api.figures.lost += len(set(person.said) - set(said))
    api.figures.duplicated += doubles(turns) + answered_twice(turns)
    assert said == person.said
    assert {turn["status"] for turn in turns} <= OVER
    for turn in turns:
        if turn["role"] == "assistant" and turn["status"] == "complete":
            assert recognised(turn["content"]) == [person.subject.name], turns


@pytest.mark.timeout(300)
async def test_after_every_single_commit_each_message_is_in_one_place(
    tmp_path: Path, model: MortalModel, figures: Figures, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves what was committed last. So all is counted after each commit, before anything else is written."""
    loop, reach, commits = asyncio.get_running_loop(), FailPoints.reach, Counter[str]()
    llm = {"base_url": model.base_url, "model": "stand-in"}
    async with opened(tmp_path / "home", llm=llm, embedding={"kind": "none"}) as home:

        async def count() -> None:
            counted = await home.coverage()
            figures.lost += counted["missing"]
            figures.duplicated += counted["doubled"]

        def look(points: FailPoints, name: str) -> None:
            """In the thread that writes, which goes on when all was counted."""
            reach(points, name)
            if name == "journal.committed":
                commits[name] += 1
                asyncio.run_coroutine_threadsafe(count(), loop).result(60)

        with monkeypatch.context() as patched:
            patched.setattr(FailPoints, "reach", look)
            people = [Client(number, SUBJECTS[number], random.Random(number)) for number in range(3)]
            for _ in range(size.of(quick=4, long=30)):
                await asyncio.gather(*(say_flush_and_forget(person, home, figures) for person in people))
            await home.drain()
        assert commits.total() > 10 * len(people)
    figures.nothing_wrong()


async def say_flush_and_forget(person: Client, home: Home, figures: Figures) -> None:
    api = Api(home.client, figures)
    for doing in (person.speak, person.speak, person.flush, person.forget):
        await doing(api)


@pytest.mark.timeout(600)
@pytest.mark.slow
async def test_after_a_burst_memory_and_file_handles_are_back_to_normal(
    tmp_path: Path, model: MortalModel, figures: Figures, size: Size
) -> None:
    model.control(chunk_delay_seconds=0.01)
    with Server(tmp_path / "home", chatting_settings(model, embedding=True)) as server:
        await burst(server, figures, 10)  # So that all that is opened once is open.
        await asyncio.sleep(KEEP_ALIVE_SECONDS + 1)  # Nothing tells when idle connections are closed.
        handles, memory = file_handles(server.pid), memory_bytes(server.pid)
        for _ in range(size.of(quick=1, long=4)):
            await burst(server, figures, size.of(quick=20, long=60))
        await eventually(lambda: file_handles(server.pid) <= handles + HANDLES_TO_SPARE, seconds=30)
        assert memory_bytes(server.pid) <= memory + BYTES_TO_SPARE
        covered(server.client)


async def burst(server: Server, figures: Figures, count: int) -> None:
    """So many clients at once; every third leaves in the middle of its answer, every fifth asks for what is not there."""
    async with clients(server.address, count, figures) as apis:
        await asyncio.gather(*(one_of_many(api, number) for number, api in enumerate(apis)))
        await apis[0].drained()


async def one_of_many(api: Api, number: int) -> None:
    body = {"content": SUBJECTS[number % 30].questions[0], "user_id": f"u{number % 7}", "stream": True}
    for _ in range(2):
        async with (
            api.figures.timed(),
            api.client.stream("POST", thread_path(f"b{number}", "messages"), json=body) as answer,
        ):
            async for _line in answer.aiter_lines():
                if number % 3 == 0:
                    break
        if number % 5 == 0:
            assert (await api.call("GET", thread_path(f"nobody's {number}"))).status_code == NOT_FOUND
        await api.search("Who is that?", user_id=f"u{number % 7}")
