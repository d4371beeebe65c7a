"""An App starts and stops any number of times, and every handler of its jobs may run twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from recollect.app import App, open_app
from recollect.domain.identity import thread_key
from recollect.domain.job import BOUNDARY, FLUSH, PURGE, TRANSCRIBE, cells_lane, vault_lane
from recollect.domain.model import Append, NewTurn, ThreadRef
from recollect.infra.journal.rows import NewJob
from recollect.setting_groups import JobSettings, MemorizeSettings
from recollect.settings import Settings
from tests.eventually import eventually
from tests.fakes import START
from tests.files_under import files_under
from tests.job_bench import SOON, queue_now


def home_settings(home: Path) -> Settings:
    return Settings(
        home=home,
        embedding={"kind": "none"},
        llm={"discover": False},
        transcript_delay_ms=0,
        memorize=MemorizeSettings(delay_ms=0, pause_seconds=0),
        jobs=JobSettings(stop_seconds=1),
    )


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with open_app(home_settings(tmp_path / "home")) as app:
        yield app


async def say(app: App, *texts: str, thread_id: str = "t1", tags: tuple[str, ...] = ()) -> None:
    """Messages an hour apart, each with its text as its id."""
    turns = [
        NewTurn("user", text, START + number * 3_600_000, "ann", text) for number, text in enumerate(texts)
    ]
    await app.THREADS.append(Append("default", thread_id, turns, tags=tags))


async def at_rest(app: App) -> None:
    """No job waits, and what follows by itself has followed: the watch of the vault, and the index."""
    await eventually(lambda: _no_jobs(app))
    await app.vault_sweep.sweep()
    await eventually(lambda: _no_jobs(app))
    await app.search.indexer.settled()


async def _no_jobs(app: App) -> bool:
    return await app.jobs.counts() == {}


async def everything(app: App) -> dict[str, object]:
    """All of the home but its jobs, and how far the index is, which follows by itself: every row, every file."""
    tables = [
        row["name"] for row in await app.database.read("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    found: dict[str, object] = {
        table: await app.database.read(f"SELECT * FROM {table}")
        for table in tables
        if table not in ("jobs", "sqlite_sequence", "index_progress")
    }
    root = app.settings.vault_path
    files = {path.relative_to(root): content for path, content in files_under(root).items()}
    return {**found, "files": files}


@pytest.mark.parametrize("kind", [BOUNDARY, FLUSH, TRANSCRIBE, PURGE])
async def test_every_handler_run_twice_leaves_the_same_state(app: App, kind: str) -> None:
    await say(app, "a", "b", "c", "d")
    await at_rest(app)
    if kind == FLUSH:
        assert await app.jobs.wait_for(await app.cells.request_flush(ThreadRef("default", "me", "t1")), SOON)
    if kind == PURGE:
        await app.THREADS.delete(await app.THREADS.meant("t1"))
    await at_rest(app)
    once = await everything(app)
    lane = (cells_lane if kind in (BOUNDARY, FLUSH) else vault_lane)(
        thread_key(ThreadRef("default", "me", "t1"))
    )
    job = NewJob(kind, lane, "default", ThreadRef("default", "me", "t1"), 0, '{"user_id": "me"}')
    if kind == FLUSH:
        job_id = await app.cells.request_flush(ThreadRef("default", "me", "t1"))
    else:
        job_id = await queue_now(app.database, job, app.clock())
        app.jobs.notify(0)
    assert await app.jobs.wait_for(job_id, SOON)
    await at_rest(app)
    assert await everything(app) == once


async def test_tags_that_come_with_duplicates_reach_the_vault(app: App) -> None:
    await say(app, "a")
    await at_rest(app)
    await say(app, "a", tags=("trip",))
    await at_rest(app)
    assert "trip" in (await app.vault.read("default/users/me/threads/t1/0001.md") or "")


async def test_an_app_starts_and_stops_again_and_again_in_one_loop(tmp_path: Path) -> None:
    app = open_app(home_settings(tmp_path / "home"))
    for number in range(3):
        async with app:
            await say(app, f"message {number}")
            await at_rest(app)
    async with app:
        turns = await app.THREADS.get_history(await app.THREADS.meant("t1"))
        assert [turn.content for turn in turns] == ["message 0", "message 1", "message 2"]
        assert (await app.verifier.verify()).ok


def test_an_app_starts_and_stops_in_one_event_loop_after_another(tmp_path: Path) -> None:
    app = open_app(home_settings(tmp_path / "home"))

    async def use(number: int) -> int:
        async with app:
            await say(app, f"message {number}")
            await at_rest(app)
            return len(await app.THREADS.get_history(await app.THREADS.meant("t1")))

    assert [asyncio.run(use(number)) for number in range(3)] == [1, 2, 3]


async def test_two_apps_with_two_homes_live_side_by_side(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(open_app(home_settings(tmp_path / name)))
            for name in ("one", "two")
        ]
        await say(one, "a")
        await say(two, "b", "c")
        await at_rest(one)
        await at_rest(two)
        assert len(await one.THREADS.get_history(await one.THREADS.meant("t1"))) == 1
        assert len(await two.THREADS.get_history(await two.THREADS.meant("t1"))) == 2


async def test_what_was_queued_at_a_stop_is_done_after_the_next_start(tmp_path: Path) -> None:
    app = open_app(home_settings(tmp_path / "home"))
    async with app, app.jobs.paused():
        await say(app, "a")
    async with app:
        await at_rest(app)
        found = await app.verifier.verify()
    assert (found.ok, found.pending, found.parts) == (True, 0, 1)
