"""Notes that came through the API: writers that overlap, kills between file and record, and what people do by hand."""

import asyncio
from pathlib import Path

import pytest

from recollect.domain.model import NOTE_BYTES
from recollect.service.coordination import now_ms
from tests.entry_house import ANN as ANNS
from tests.fakes import FakeClock
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


async def names(home: Home) -> list[str]:
    listed = await home.client.get(NOTES, params={"user_id": "ann"})
    return [note["name"] for note in listed.raise_for_status().json()["notes"]]


async def told(home: Home) -> list[str]:
    """What health says of old copies."""
    degraded = (await home.client.get("/health")).json()["degraded"]
    return [said for said in degraded if "old cop" in said]


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


async def test_a_note_that_is_put_again_in_the_moment_its_file_is_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "home") as home:
        await put(home, "plan", "by train")
        removed, remove = asyncio.Event(), home.app.vault.remove_file
        again: list[asyncio.Task[None]] = []

        async def remove_slowly(path: str, ours: frozenset[str]) -> str | None:
            if not again:
                again.append(asyncio.create_task(put(home, "plan", "by ferry")))
                await asyncio.wait(again, timeout=0.2)  # As long as it takes where nobody has to wait.
            kept = await remove(path, ours)
            removed.set()
            return kept

        monkeypatch.setattr(home.app.vault, "remove_file", remove_slowly)
        (await home.client.delete(f"{NOTES}/plan.md", params={"user_id": "ann"})).raise_for_status()
        await removed.wait()
        await asyncio.gather(*again)
        assert await names(home) == ["plan.md"]
        assert (folder(tmp_path / "home") / "plan.md").read_text(encoding="utf-8") == "by ferry"
        assert [file.name for file in folder(tmp_path / "home").iterdir()] == ["plan.md"]


async def test_a_note_that_a_person_removed_does_not_come_back_by_a_copy(tmp_path: Path) -> None:
    plan = folder(tmp_path / "home") / "plan.md"
    async with opened(tmp_path / "home") as home:
        for name, text in (("other", "stays"), ("plan", "one"), ("plan", "two")):
            await put(home, name, text)
        plan.write_text("three, by hand")
        await home.app.vault_sweep.sweep()
        plan.unlink()
        await home.app.vault_sweep.sweep()
        for text in ("one", "two", "three, by hand"):
            plan.write_text(text)
            await home.app.vault_sweep.sweep()
            await home.app.vault_sweep.sweep()
            assert (plan.exists(), await names(home)) == (False, ["other.md"])
        (said,) = await told(home)
        assert said.startswith("3 old copies of files came into the vault")
        await put(home, "plan", "one")
        await home.app.vault_sweep.sweep()
        assert (plan.read_text(), await names(home)) == (
            "one",
            ["other.md", "plan.md"],
        )  # A person wants it back.


async def test_a_note_that_got_another_name_by_hand_may_have_its_old_one_again(tmp_path: Path) -> None:
    plan = folder(tmp_path / "home") / "plan.md"
    async with opened(tmp_path / "home") as home:
        await put(home, "plan", "one")
        for name, other in (("other.md", "plan.md"), ("plan.md", "other.md")):
            (plan.parent / other).rename(plan.parent / name)
            await home.app.vault_sweep.sweep()
            assert (await names(home), await told(home)) == ([name], [])


async def test_an_old_copy_over_a_hand_edit_is_replaced_by_the_edit(tmp_path: Path) -> None:
    plan = folder(tmp_path / "home") / "plan.md"
    async with opened(tmp_path / "home") as home:
        await put(home, "plan", "one")
        await put(home, "plan", "two")
        plan.write_text("three, by hand")
        await home.app.vault_sweep.sweep()
        plan.write_text("one")
        await home.app.vault_sweep.sweep()
        assert plan.read_text() == "three, by hand"
        assert any("1 old copy of files" in said for said in await told(home))


async def test_search_finds_the_current_text_even_if_it_read_an_old_copy_in_between(tmp_path: Path) -> None:
    plan = folder(tmp_path / "home") / "plan.md"
    async with opened(tmp_path / "home") as home:
        await put(home, "plan", "the ferry leaves at four")
        await home.app.search.indexer.settled()
        async with home.app.search.indexer.words.locks.of(ANNS):
            await put(home, "plan", "the ferry leaves at nine")
            plan.write_text("the ferry leaves at four")
        await home.app.search.indexer.settled()
        await home.app.vault_sweep.sweep()
        await home.app.search.indexer.settled()
        found = await home.client.post("/api/v1/memory/search", json={"user_id": "ann", "query": "ferry"})
        assert [hit["text"] for hit in found.json()["hits"]] == ["the ferry leaves at nine"]


async def test_an_old_copy_that_nothing_newer_is_kept_of_is_reported(tmp_path: Path) -> None:
    plan = folder(tmp_path / "home") / "plan.md"
    async with opened(tmp_path / "home") as home:
        await put(home, "plan", "one")
        await put(home, "plan", "two")
        plan.write_text("x" * (NOTE_BYTES + 1))
        await home.app.vault_sweep.sweep()
        plan.write_text("one")
        await home.app.vault_sweep.sweep()
        assert plan.read_text() == "one"
        assert any("1 old copy of files" in said for said in await told(home))


async def test_a_note_that_vanishes_some_time_before_old_copies_come_is_restored(tmp_path: Path) -> None:
    plan, new, gone = (folder(tmp_path / "home") / f"{name}.md" for name in ("plan", "new", "gone"))
    async with opened(tmp_path / "home") as home:
        await put(home, "gone", "removed before the copy comes, which has it")
        await put(home, "plan", "one")
        copies = {path: path.read_text() for path in (plan, gone)}
        await put(home, "plan", "two")
        await put(home, "new", "newer than the copy")
        for path in (gone, new):
            path.unlink()
            await home.app.vault_sweep.sweep()
        assert await names(home) == ["plan.md"]
        for path, text in copies.items():
            path.write_text(text)
        await home.app.vault_sweep.sweep()
        assert (await names(home), plan.read_text()) == (["new.md", "plan.md"], "two")
        assert new.read_text() == "newer than the copy"
        await home.app.search.indexer.settled()
        found = await home.client.post("/api/v1/memory/search", json={"user_id": "ann", "query": "newer"})
        assert found.json()["hits"][0]["text"] == "newer than the copy"


async def test_the_text_of_a_removed_note_is_kept_for_ten_minutes_unless_it_is_forgotten(
    tmp_path: Path,
) -> None:
    passed = FakeClock(0)
    async with opened(tmp_path / "home", clock=lambda: now_ms() + passed()) as home:
        await put(home, "other", "stays")
        for user in ("ann", "bob"):
            text = {"user_id": user, "name": "plan", "text": "the narwhal plan"}
            (await home.client.post(NOTES, json=text)).raise_for_status()
            (tmp_path / f"home/vault/default/users/{user}/notes/plan.md").unlink()
            await home.app.vault_sweep.sweep()
        assert await home.app.notes.any_removed()
        (await home.client.delete("/api/v1/users/bob")).raise_for_status()
        await home.drain()
        kept = await home.app.database.read("SELECT owner FROM removed_notes")
        assert [row["owner"] for row in kept] == [ANNS]
        assert (await home.app.forgotten_verifier.verify()).problems == []
        passed.advance(600_001)
        await home.app.vault_sweep.sweep()
        assert not await home.app.notes.any_removed()


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
