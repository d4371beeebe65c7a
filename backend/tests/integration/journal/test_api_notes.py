"""Notes that came through the API: writers that overlap, kills between file and record, and what people do by hand."""

import asyncio
from pathlib import Path

import pytest

from tests.entry_house import ANN as ANNS
from tests.http_client import Home, Json, opened
from tests.processes import Server
from tests.stress.utils import SIGKILLED, used_until_killed

NOTES = "/api/v1/memory/notes"
WRITERS = 4


def body(name: str, text: str, *, replace: bool = True) -> Json:
    return {"user_id": "ann", "name": name, "text": text, "replace": replace}


async def put(home: Home, name: str, text: str) -> None:
    (await home.client.post(NOTES, json=body(name, text))).raise_for_status()


def folder(home: Path) -> Path:
    return home / "vault" / ANNS / "notes"


async def told(home: Home) -> list[str]:
    degraded: list[str] = (await home.client.get("/health")).json()["degraded"]
    return degraded


async def test_of_replaces_that_overlap_the_last_one_that_was_acknowledged_stays(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        for turn in range(8):
            texts = [f"turn {turn} writer {writer}" for writer in range(WRITERS)]
            answers = await asyncio.gather(
                *(home.client.post(NOTES, json=body("plan", text)) for text in texts)
            )
            taken = [text for text, answer in zip(texts, answers, strict=True) if answer.is_success]
            await home.app.vault_sweep.sweep()
            now = (folder(tmp_path / "home") / "plan.md").read_text()
            assert (len(taken), now in taken) == (WRITERS, True)
            assert await home.app.notes.text(f"{ANNS}/notes/plan.md") == now
        assert (await told(home), home.app.vault_sweep.reports.goes_back()) == ([], False)


async def test_of_two_first_ones_at_once_one_is_taken_and_kept(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        for turn in range(8):
            answers = await asyncio.gather(
                *(
                    home.client.post(NOTES, json=body(f"n{turn}", f"by {writer}", replace=False))
                    for writer in range(2)
                )
            )
            assert sorted(answer.status_code for answer in answers) == [201, 409]
            taken = next(place for place, answer in enumerate(answers) if answer.is_success)
            assert await home.app.notes.text(f"{ANNS}/notes/n{turn}.md") == f"by {taken}"


async def test_a_note_that_is_put_again_while_it_is_being_forgotten_stays(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        await put(home, "plan", "one")
        async with home.app.jobs.paused():
            (await home.client.delete(f"{NOTES}/plan.md", params={"user_id": "ann"})).raise_for_status()
            await put(home, "plan", "one")
        await home.drain()
        await home.app.vault_sweep.sweep()
        assert (folder(tmp_path / "home") / "plan.md").read_text() == "one"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "left"), [("vault.synced:3", "a person's"), ("vault.renamed:3", "three")], ids=str
)
async def test_a_kill_between_file_and_record_takes_nobodys_words(
    tmp_path: Path, step: str, left: str
) -> None:
    home = tmp_path / "home"

    def use(server: Server) -> None:
        for text in ("one", "two", "three"):
            if text == "three":
                (folder(home) / "plan.md").write_text("a person's")
            server.client.post(NOTES, json=body("plan", text)).raise_for_status()

    assert used_until_killed(home, {"RECOLLECT_FAIL_POINT": step}, use) == SIGKILLED
    async with opened(home) as again:
        await again.app.vault_sweep.sweep()
        assert ((folder(home) / "plan.md").read_text(), await told(again)) == (left, [])
