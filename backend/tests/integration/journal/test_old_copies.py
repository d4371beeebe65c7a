"""An old copy of the vault that is put back brings nothing back that was forgotten since."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recollect.app import open_home
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.eventually import eventually
from tests.http_client import Home
from tests.remembering import DAY, MAY_8, entries, remember, remembering, said, texts

pytestmark = pytest.mark.slow

ANN = {"user_id": "ann"}
WORD = "Quixel"


@asynccontextmanager
async def put_back(tmp_path: Path) -> AsyncIterator[Home]:
    """Ann said a word in a thread of its own and in another one; both were forgotten, and old files are back."""
    home_folder, vault, copy = tmp_path / "home", tmp_path / "home/vault", tmp_path / "copy"
    async with remembering(home_folder) as home:
        await remember(home, "t1", said([("user", f"I have a dog named {WORD}.")]), **ANN)
        talk = [("user", "I live in Berlin."), ("assistant", "Nice."), ("user", f"I love {WORD} soup.")]
        await remember(home, "t2", said(talk, start=MAY_8 + DAY, prefix="n"), **ANN)
        await home.drain()
        shutil.copytree(vault, copy)
        (await home.client.delete("/api/v1/threads/t1", params=ANN)).raise_for_status()
        (await home.client.delete("/api/v1/threads/t2/turns/t-3", params=ANN)).raise_for_status()
        await home.drain()
        shutil.copytree(copy, vault, dirs_exist_ok=True)
        yield home


async def known(home: Home) -> str:
    hits = await home.client.post("/api/v1/memory/search", json={**ANN, "query": WORD, "top_k": 9})
    return " ".join([*await texts(home), hits.raise_for_status().text])


async def test_memories_that_came_from_it_are_not_applied(tmp_path: Path) -> None:
    async with put_back(tmp_path) as home:
        await home.app.vault_sweep.sweep()
        await eventually(lambda: home.app.vault_sweep.reports.unreadable >= 2, seconds=20)
        await home.drain()
        assert any("came from a forgotten message" in told for told in home.app.vault_sweep.reports.recent)
        assert WORD not in await known(home)
        assert "ann lives in Berlin." in await texts(home, "facts")
        assert not (await home.app.forgotten_verifier.verify()).ok


async def test_neither_it_nor_they_come_back_by_a_rebuild(tmp_path: Path) -> None:
    async with put_back(tmp_path):
        pass
    folder = tmp_path / "home"
    (folder / "journal.db").unlink()
    shutil.rmtree(folder / "index")
    report, _ = await rebuild_home(Settings(home=folder), open_home)
    assert (report.threads, report.turns, report.forgotten) == (1, 2, 2)
    assert "default/users/ann/threads/t1: 1 turns were forgotten and are not brought back" in report.problems
    async with remembering(folder) as home:
        await home.drain()
        assert WORD not in await known(home)
        assert WORD not in (folder / "vault/default/users/ann/threads/t2/0001.md").read_text()
        assert len(await entries(home, "facts")) == 1
