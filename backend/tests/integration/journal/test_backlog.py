"""What one user may queue, and what the others notice of it."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from recollect.app import open_app
from recollect.domain.job import BOUNDARY, FLUSH, TRANSCRIBE, Job
from recollect.domain.strategy import STRATEGY
from recollect.entrypoints.cli.client import HomeClient, add_all
from recollect.errors import TooMuchQueued
from recollect.service.coordination import no_progress
from recollect.settings import Settings
from tests.eventually import eventually
from tests.fakes import FakeClock, FakeEmbedder
from tests.http_client import add_one, client_of, error_of, message, opened

MESSAGE = {"sender_id": "ann", "role": "user", "timestamp": 1, "content": "hello"}


async def test_past_a_users_limit_adds_wait_and_nobody_elses_do(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = Settings(
        home=tmp_path,
        embedding={"kind": "none"},
        llm={"discover": False},
        memorize={"mode": "agent"},
        limits={"backlog": 5},
    )
    async with open_app(settings, clock=clock) as app, client_of(app) as client:

        async def add(thread: str, user: str) -> int:
            clock.advance(1_000)
            query = f"/api/v1/memory/add?user_id={user}"
            body = {"session_id": thread, "messages": [MESSAGE]}
            return (await client.post(query, json=body)).status_code

        async with app.jobs.paused():
            assert [await add(f"t{number}", "ann") for number in range(5)] == [202, 202, 202, 429, 429]
            assert await add("t9", "bob") == 202
            turn = {"role": "user", "content": "hello"}
            appended = await client.post("/api/v1/threads/t0/turns?user_id=ann", json=turn)
            assert appended.status_code == 429
            clock.advance(1_000)
            refused = await add_one(client, "t0", "to a thread of hers, whose owner nobody named")
            clock.advance(1_000)
        assert (refused.status_code, error_of(refused)["code"]) == (429, "too_much_queued")
        assert int(refused.headers["Retry-After"]) > 0
        for job in await app.jobs.list_jobs(space=None):
            if job.kind in (TRANSCRIBE, FLUSH):
                assert await app.jobs.wait_for(job.job_id, 30)
        assert await add("t5", "ann") == 202


async def test_an_add_waits_while_search_is_too_far_behind_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FakeEmbedder()
    monkeypatch.setattr("recollect.assembly.embedder_of", lambda settings: model)
    model.go_on.clear()
    async with opened(tmp_path, limits={"unsearched": 3}) as home:
        await home.add("t", "one", "two", "three", user_id="ann")
        await eventually(lambda: bool(home.app.search.indexer.overtaken))
        refused = await add_one(home.client, "t", "four")
        assert (refused.status_code, error_of(refused)["code"]) == (429, "too_much_queued")
        assert int(refused.headers["Retry-After"]) > 0
        assert (await add_one(home.client, "another user's", "hello")).status_code == 202

        monkeypatch.setattr(TooMuchQueued, "retry_after", 0.01)
        command = asyncio.create_task(
            add_all(HomeClient(home.client), "t", "ann", [message("four")], no_progress)
        )
        await asyncio.wait([command], timeout=0.1)
        assert not command.done(), "the command line waits"
        model.go_on.set()
        assert [receipt["status"] for receipt in (await command)["receipts"]] == ["accepted"]


async def test_a_note_waits_while_search_is_too_far_behind_those_of_its_user(tmp_path: Path) -> None:
    async with opened(tmp_path, limits={"unsearched": 3}) as home:

        async def bring(name: str, user: str = "ann", *, characters: int = 5) -> httpx2.Response:
            note = {"name": name, "text": "x" * characters, "user_id": user}
            return await home.client.post("/api/v1/memory/notes", json=note)

        async with home.app.search.indexer.held():
            assert [(await bring(name)).status_code for name in "aab"] == [201, 200, 201]
            refused = await bring("c")
            assert (refused.status_code, error_of(refused)["code"]) == (429, "too_much_queued")
            assert int(refused.headers["Retry-After"]) > 0
            assert (await bring("c", "bob", characters=3_600)).status_code == 201
            assert (await bring("d", "bob")).status_code == 429
        await home.app.search.indexer.settled()
        assert [(await bring("c", user)).status_code for user in ("ann", "eve")] == [201, 201]


async def test_a_long_history_is_made_into_no_more_jobs_than_may_wait(tmp_path: Path) -> None:
    memorize = {"pause_seconds": 0, "boundary_every": 1, "max_turns": 2, "delay_ms": 0}
    async with opened(tmp_path, memorize=memorize, limits={"backlog": 20}) as home:

        async def waiting(kind: str) -> list[Job]:
            found = await home.app.jobs.list_jobs(space=None, limit=10_000)
            return [job for job in found if job.kind == kind]

        async with home.app.jobs.paused([STRATEGY]):
            await home.add("t", *(f"message {number}" for number in range(80)))
            (look,) = await waiting(BOUNDARY)

            async def enough_wait() -> bool:
                return len(await waiting(STRATEGY)) >= 20

            await eventually(enough_wait)
            assert not await home.app.jobs.wait_for(look.job_id, 1)
            jobs = len(await waiting(STRATEGY))
        assert 20 <= jobs < 40
        await home.drain()
        assert (await home.coverage())["buffered"] <= 2
