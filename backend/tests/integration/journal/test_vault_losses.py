"""Files that vanish in numbers are asked about, and our own writes are never taken for a person's."""

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from recollect.app import App
from tests.eventually import eventually
from tests.http_client import Home, opened

pytestmark = pytest.mark.slow

SEEN_SECONDS = 2.0


def files_of(app: App) -> list[Path]:
    return sorted(app.settings.vault_path.rglob("*.md"))


async def talk(home: Home, threads: int) -> None:
    for number in range(threads):
        await home.add(f"t{number}", "hello", "world")
    await home.drain()
    await home.app.vault_sweep.sweep()


async def asks(app: App) -> bool:
    return app.vault_sweep.problem() is not None


async def test_repairing_answers_the_question(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        await talk(home, 10)
        for file in files_of(home.app)[:5]:
            shutil.rmtree(file.parent)
        await eventually(lambda: asks(home.app), seconds=SEEN_SECONDS + 1)
        assert (await home.app.verifier.verify(repair=True)).ok
        await home.app.vault_sweep.accept_losses()
        assert home.app.vault_sweep.problem() is None
        assert len(files_of(home.app)) == 10


async def test_our_own_writes_are_never_taken_for_a_persons(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        sweeping = asyncio.create_task(keep_sweeping(home.app))
        for round_ in range(25):
            await asyncio.gather(*(home.add(f"t{number}", f"message {round_}") for number in range(8)))
        await home.client.delete("/api/v1/threads/t7")
        await home.drain()
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping
        await home.app.vault_sweep.sweep()
        await home.drain()
        reports = home.app.transcriber.reports
        assert (reports.revisions, reports.restored, reports.unreadable) == (0, 0, 0), list(reports.recent)
        assert home.app.vault.conflicts == 0
        assert home.app.vault_sweep.problem() is None


async def keep_sweeping(app: App) -> None:
    while True:
        await app.vault_sweep.sweep()
