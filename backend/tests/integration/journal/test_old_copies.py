"""An old copy of the vault that is put back is no edit: nothing is lost, reverted, or back that was deleted since."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from recollect.app import open_home
from recollect.domain.images import data_url, image_name, reference
from recollect.domain.model import NOTE_BYTES, ThreadRef
from recollect.domain.vault_file import TranscriptState
from recollect.service.operations import files_to_back_up
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.entry_house import ANN as ANNS
from tests.entry_house import DAY as A_DAY
from tests.entry_house import TODAY, fact
from tests.eventually import eventually
from tests.files_under import files_under
from tests.http_client import Home, Json, bearer, opened
from tests.remembering import DAY, MAY_8, entries, remember, remembering, said, texts, vault_files

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


@pytest.mark.slow
async def test_memories_that_came_from_it_are_not_applied(tmp_path: Path) -> None:
    async with put_back(tmp_path) as home:
        await home.app.vault_sweep.sweep()
        await eventually(lambda: len(home.app.vault_sweep.reports.old_copies) >= 3, seconds=20)
        await home.drain()
        assert WORD not in await known(home)
        assert "ann lives in Berlin." in await texts(home, "facts")
        assert (await home.app.forgotten_verifier.verify()).problems == []


@pytest.mark.slow
async def test_neither_it_nor_they_come_back_by_a_rebuild(tmp_path: Path) -> None:
    async with put_back(tmp_path):
        pass
    folder = tmp_path / "home"
    (folder / "journal.db").unlink()
    shutil.rmtree(folder / "index")
    report, _ = await rebuild_home(Settings(home=folder), open_home)
    assert (report.threads, report.turns, report.forgotten) == (1, 2, 2)
    assert "default/users/ann/threads/t1: 1 turns were forgotten and are not brought back" in report.problems
    assert files_holding(folder, [WORD]) == []
    async with remembering(folder) as home:
        await home.drain()
        assert WORD not in await known(home)
        assert files_holding(folder, [WORD]) == []
        assert len(await entries(home, "facts")) == 1


DELETED, FORGOTTEN, NOTED, GONE_PRESET = "heron", "wombat", "quokka", "narwhal"
WORDS = (DELETED, FORGOTTEN, NOTED, GONE_PRESET)


async def tell(home: Home, method: str, path: str, body: Json | None = None, **query: str) -> Json:
    answer = await home.client.request(method, f"/api/v1/{path}", json=body, params=query)
    told: Json = answer.raise_for_status().json() if answer.content else {}
    return told


async def verified(home: Home, **body: bool) -> Json:
    asked = await home.client.post("/api/v1/verify", json=body, headers=bearer(home.app.lock.token))
    found: Json = json.loads(asked.raise_for_status().text.splitlines()[-1])["result"]
    return found


async def live_before(home: Home) -> None:
    """What an old copy of the vault holds."""
    await home.add("t1", "My sister is Marta.", user_id="ann")
    await home.add("t2", f"I saw a {FORGOTTEN}.", user_id="ann")
    await home.put(fact(1), fact(2, f"Ann saw a {DELETED}."))
    await tell(home, "PUT", "presets/brief", {"instructions": "Be brief."})
    await tell(home, "PUT", "presets/old", {"instructions": f"You are a {GONE_PRESET}."})
    await tell(home, "POST", "memory/notes", {**ANN, "name": "zoo", "text": f"A {NOTED} lives there."})
    await tell(home, "POST", "memory/notes", {**ANN, "name": "diary", "text": "The ferry leaves at 4."})
    await home.drain()


async def live_on(home: Home) -> None:
    """Correct one, delete one, forget a thread, a note and a preset; add eight memories, a thread, a preset, a note."""
    await tell(home, "PATCH", "memory/entries/fa-1", {"text": "Ann likes number 11.", "user_id": "ann"})
    await tell(home, "DELETE", "memory/entries/fa-2", user_id="ann")
    await tell(home, "DELETE", "threads/t2", user_id="ann")
    await tell(home, "DELETE", "memory/notes/zoo.md", user_id="ann")
    await tell(home, "PUT", "presets/brief", {"instructions": "Be very brief."})
    await tell(home, "DELETE", "presets/old")
    await home.add("t1", "Marta moves to Porto.", user_id="ann")
    await home.add("t3", "A thread of its own.", user_id="ann")
    await tell(home, "PUT", "presets/new", {"instructions": "Be kind."})
    corrected = {**ANN, "name": "diary", "text": "The ferry leaves at 9.", "replace": True}
    await tell(home, "POST", "memory/notes", corrected)
    await tell(home, "POST", "memory/notes", {**ANN, "name": "fresh", "text": "The lighthouse is open."})
    await home.put(*(fact(number) for number in range(3, 10)))
    await home.put(fact(10, when=MAY_8 + A_DAY))
    await home.drain()


def go_back(vault: Path, copy: Path) -> None:
    """As `rsync --delete` from an older copy does."""
    for path in sorted(vault.rglob("*.md")):
        if not (copy / path.relative_to(vault)).exists():
            path.unlink()
    shutil.copytree(copy, vault, dirs_exist_ok=True)


async def state(home: Home) -> Json:
    """All that a user sees of it."""
    return {
        "entries": await tell(home, "GET", "memory/entries", user_id="ann", limit="100"),
        "turns": await tell(home, "GET", "threads/t1/turns", user_id="ann"),
        "threads": await tell(home, "GET", "threads", user_id="ann"),
        "presets": await tell(home, "GET", "presets"),
        "notes": {
            "notes": [
                await tell(home, "GET", f"memory/notes/{name}", user_id="ann") for name in await noted(home)
            ]
        },
    }


async def noted(home: Home) -> list[str]:
    """The names of all notes."""
    return [note["name"] for note in (await tell(home, "GET", "memory/notes", user_id="ann"))["notes"]]


@asynccontextmanager
async def gone_back(folder: Path) -> AsyncIterator[Json]:
    """A home that is closed, whose vault went back in time since; what a user saw before."""
    async with opened(folder) as home:
        await live_before(home)
        shutil.copytree(folder / "vault", folder.parent / "copy")
        await live_on(home)
        before = await state(home)
    go_back(folder / "vault", folder.parent / "copy")
    yield before


async def test_a_vault_that_goes_back_in_time_loses_and_reverts_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vault, copy = tmp_path / "home/vault", tmp_path / "copy"
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        shutil.copytree(vault, copy)
        await live_on(home)
        await home.app.vault_sweep.sweep()
        before, files = await state(home), vault_files(tmp_path / "home")
        assert (await tell(home, "GET", "../../health"))["degraded"] == []
        go_back(vault, copy)
        await home.app.vault_sweep.sweep()
        await home.drain()
        await home.app.vault_sweep.sweep()
        await home.drain()
        assert await state(home) == before
        assert vault_files(tmp_path / "home") == files
        found = await tell(home, "POST", "memory/search", {**ANN, "query": "ferry lighthouse", "top_k": 9})
        assert {hit["text"] for hit in found["hits"]} >= {"The ferry leaves at 9.", "The lighthouse is open."}
        (told,) = (await tell(home, "GET", "../../health"))["degraded"]
        assert "old copies of files came into the vault" in told
        assert f"{TODAY}: an old copy" in caplog.text

        async def is_well() -> bool:
            return bool((await verified(home))["ok"])

        with suppress(TimeoutError):  # The index follows in the background.
            await eventually(is_well)
        checked = await verified(home)
        assert checked["ok"], checked
        assert any(note.startswith(f"{TODAY}: an old copy came here") for note in checked["notes"])


async def test_a_vault_that_went_back_while_the_server_was_down_is_brought_up_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with gone_back(tmp_path / "home") as before, opened(tmp_path / "home") as home:
        await home.app.vault_sweep.sweep()
        await home.drain()
        assert await state(home) == before
        await tell(home, "POST", "memory/notes", {**ANN, "name": "zoo", "text": f"A {NOTED} lives there."})
        await home.app.vault_sweep.sweep()
        assert await noted(home) == ["diary.md", "fresh.md", "zoo.md"]  # A person wants it back.


async def test_a_rebuild_over_a_journal_that_can_be_read_first_brings_the_vault_up_to_it(
    tmp_path: Path,
) -> None:
    async with gone_back(tmp_path / "home") as before:
        _, verification = await rebuild_home(quiet(tmp_path / "home"), open_home)
        assert verification.ok
        async with opened(tmp_path / "home") as home:
            again = await state(home)
            assert texts_of(again) == texts_of(before)
            go_back(tmp_path / "home/vault", tmp_path / "copy")
            await home.app.vault_sweep.sweep()
            await home.drain()
            assert texts_of(await state(home)) == texts_of(before)


async def test_a_note_from_the_api_that_was_edited_by_hand_stays_so_when_the_vault_goes_back(
    tmp_path: Path,
) -> None:
    """A note that a person made by hand is gone where its file is gone."""
    vault, copy = tmp_path / "home/vault", tmp_path / "copy"
    notes = vault / ANNS / "notes"
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        shutil.copytree(vault, copy)
        await live_on(home)
        (notes / "diary.md").write_text("The ferry leaves at noon.")
        (notes / "own.md").write_text("A note of my own.")
        (notes / "fresh.md").write_text("The lighthouse is shut.")
        await home.app.vault_sweep.sweep()
        go_back(vault, copy)
        await home.app.vault_sweep.sweep()
        await home.drain()
        await home.app.vault_sweep.sweep()
        edited = ["The ferry leaves at noon.", "The lighthouse is shut."]
        assert texts_of(await state(home))["notes"] == edited
        checked = await verified(home)
        assert checked["problems"] == []
        corrected = {**ANN, "name": "diary", "text": "The ferry leaves at 7.", "replace": True}
        await tell(home, "POST", "memory/notes", corrected)
        go_back(vault, copy)
        await home.app.vault_sweep.sweep()
        assert texts_of(await state(home))["notes"] == ["The ferry leaves at 7.", "The lighthouse is shut."]


async def test_a_note_that_a_person_removes_by_hand_is_gone(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        await live_on(home)
        (tmp_path / "home/vault" / ANNS / "notes/fresh.md").unlink()
        await home.app.vault_sweep.sweep()
        assert (await noted(home), (await verified(home))["ok"]) == (["diary.md"], True)


async def test_an_old_copy_of_a_forgotten_note_does_not_take_a_new_one_of_its_name_away(
    tmp_path: Path,
) -> None:
    zoo = tmp_path / "home/vault" / ANNS / "notes/zoo.md"
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        old = zoo.read_bytes()
        await live_on(home)
        await tell(home, "POST", "memory/notes", {**ANN, "name": "zoo", "text": "It is closed."})
        zoo.write_bytes(old)
        await home.app.vault_sweep.sweep()
        assert zoo.read_text() == "It is closed."


async def test_once_a_loss_is_accepted_notes_from_the_api_are_back_and_others_gone(tmp_path: Path) -> None:
    vault = tmp_path / "home/vault"
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        await live_on(home)
        (vault / ANNS / "notes/own.md").write_text("A note of my own.")
        await home.app.vault_sweep.sweep()
        before = await state(home)
        for path in vault.rglob("*.md"):
            path.unlink()
        await home.app.vault_sweep.sweep()
        assert await noted(home) == ["diary.md", "fresh.md", "own.md"]  # Nobody was asked yet.
        await verified(home, repair=True)
        await home.drain()
        assert (await verified(home))["ok"]
        before["notes"]["notes"].pop()
        assert await state(home) == before


async def test_of_a_note_that_came_through_the_api_nothing_is_left_with_its_user(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        await live_on(home)
        shutil.copytree(tmp_path / "home/vault", tmp_path / "copy")
        assert any(path.name == "journal.db" for path in files_holding(tmp_path / "home", ["lighthouse"]))
        (note,) = await home.app.notes.at([f"{ANNS}/notes/fresh.md"])
        kept = note, await home.app.notes.text(note.path)
        assert kept[1] == "The lighthouse is open."
        await tell(home, "DELETE", "users/ann")
        await home.drain()
        proof = await verified(home, forgotten=True)
        assert (proof["problems"], proof["looked_at"]["kept texts of notes"]) == ([], 0)
        index = tmp_path / "home/vault" / ANNS / "index.md"
        assert not index.exists()
        assert files_holding(tmp_path / "home", ["lighthouse", "ferry"]) == []
        await home.app.notes.seen(*kept)
        assert (await verified(home, forgotten=True))["problems"] == ["kept texts of notes: 1 of 1"]
        shutil.copytree(tmp_path / "copy", tmp_path / "home/vault", dirs_exist_ok=True)
        assert "[[notes/fresh]]" in index.read_text()
        await home.app.vault_sweep.sweep()
        await home.app.index_notes.write_due()
        assert files_holding(tmp_path / "home/vault", ["lighthouse", "ferry"]) == []
        assert not index.exists()


def quiet(folder: Path) -> Settings:
    return Settings(home=folder, embedding={"kind": "none"}, llm={"discover": False})


def texts_of(state: Json) -> dict[str, list[str]]:
    return {
        "entries": sorted(entry["text"] for entry in state["entries"]["entries"]),
        "turns": [turn["content"] for turn in state["turns"]["turns"]],
        "threads": [thread["thread_id"] for thread in state["threads"]["threads"]],
        "presets": [preset["instructions"] for preset in state["presets"]["presets"]],
        "notes": [note["text"] for note in state["notes"]["notes"]],
    }


async def test_by_the_ledger_alone_nothing_comes_back_that_was_deleted_or_forgotten(tmp_path: Path) -> None:
    async with gone_back(tmp_path / "home"):
        ledger = (tmp_path / "home/ledger").read_text()
        assert not any(word in ledger for word in WORDS)
        (tmp_path / "home/journal.db").unlink()
        report, _ = await rebuild_home(quiet(tmp_path / "home"), open_home)
        assert f"{TODAY}: fa-2 was deleted; it was left out" in report.problems
        assert files_holding(tmp_path / "home", WORDS) == []
        async with opened(tmp_path / "home") as home:
            await home.drain()
            await home.app.vault_sweep.sweep()
            await home.drain()
            told = texts_of(await state(home))
            # Of t3 and the newer note nothing is left, and nobody knows that the other one is an old copy.
            assert (told["threads"], told["notes"]) == (["t1"], ["The ferry leaves at 4."])
            assert not any(word in str(told) for word in WORDS)
            assert files_holding(tmp_path / "home", WORDS) == []


def files_holding(home: Path, words: Iterable[str]) -> list[Path]:
    """Every file of a home, the index and the journal included, that holds one of these words."""
    return [path for path, held in files_under(home).items() if any(word.encode() in held for word in words)]


async def test_by_the_ledger_alone_a_server_that_had_a_key_stays_closed(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        token = bearer(home.app.lock.token)
        (await home.client.post("/api/v1/keys", json={}, headers=token)).raise_for_status()
    (tmp_path / "home/journal.db").unlink()
    await rebuild_home(quiet(tmp_path / "home"), open_home)
    async with opened(tmp_path / "home") as home:
        assert (await home.client.get("/api/v1/threads")).status_code == 401


async def test_a_rebuild_without_the_journal_says_that_it_cannot_tell_old_copies_from_edits(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "home") as home:
        await home.add("t1", "My sister is Marta.", user_id="ann")
        await home.drain()
    existing, deleted = (
        "old copies of existing files can't be told",
        "old copies of deleted files can't be told",
    )
    report, _ = await rebuild_home(quiet(tmp_path / "home"), open_home)
    assert "can't be told" not in str(report.lost)
    (tmp_path / "home/journal.db").unlink()
    report, _ = await rebuild_home(quiet(tmp_path / "home"), open_home)
    assert existing in str(report.lost)
    assert deleted not in str(report.lost)
    (tmp_path / "home/journal.db").unlink()
    (tmp_path / "home/ledger").unlink()
    report, _ = await rebuild_home(quiet(tmp_path / "home"), open_home)
    assert existing in str(report.lost)
    assert deleted in str(report.lost)


async def test_the_ledger_is_in_backups_and_is_written_again_where_it_is_missing(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        await live_on(home)
        lines = (tmp_path / "home/ledger").read_text().splitlines()
        assert "ledger" in await files_to_back_up(
            tmp_path / "home", home.app.vault, home.app.ledger_outbox.ledger
        )
    (tmp_path / "home/ledger").unlink()
    async with opened(tmp_path / "home"):
        assert sorted((tmp_path / "home/ledger").read_text().splitlines()) == sorted(lines)


CAT = b"GIF89a a cat, as bytes and not as a picture"


async def show(home: Home, thread: str, user: str, url: str = data_url(image_name(CAT, "gif"), CAT)) -> int:
    part = {"type": "image_url", "image_url": {"url": url}}
    body = {"user_id": user, "role": "user", "content": "Look!", "parts": [part]}
    return (await home.client.post(f"/api/v1/threads/{thread}/turns", json=body)).status_code


async def is_served(home: Home, thread: str, user: str) -> bool:
    path = f"/api/v1/threads/{thread}/images/{image_name(CAT, 'gif')}"
    return (await home.client.get(path, params={"user_id": user})).status_code == 200


async def test_an_image_that_was_forgotten_and_is_put_back_is_neither_served_nor_kept(tmp_path: Path) -> None:
    """Ann's with its thread, Bob's with all that is his; Cleo still shows hers."""
    folder, vault, copy = tmp_path / "home", tmp_path / "home/vault", tmp_path / "copy"

    def images(user: str, root: Path = vault) -> list[Path]:
        return list(root.glob(f"default/users/{user}/images/*"))

    async with opened(folder) as home:
        for user in ("ann", "bob", "cleo"):
            assert await show(home, f"{user}s", user) == 201
        await home.drain()
        shutil.copytree(vault, copy)
        await tell(home, "DELETE", "threads/anns", user_id="ann")
        await tell(home, "DELETE", "users/bob")
        await home.drain()
        for user in ("ann", "bob"):
            await home.add(f"{user}2", "A thread.", user_id=user)
        shutil.copytree(copy, vault, dirs_exist_ok=True)
        assert [len(images(user, copy)) for user in ("ann", "bob", "cleo")] == [1, 1, 1]
        served = [await is_served(home, thread, thread[:-1]) for thread in ("ann2", "bob2")]
        assert (served, await is_served(home, "cleos", "cleo")) == ([False, False], True)
        assert await show(home, "ann2", "ann", reference(image_name(CAT, "gif"))) == 422
        await home.app.vault_sweep.sweep()
        assert [len(images(user)) for user in ("ann", "bob", "cleo")] == [0, 0, 1]
        names = [path for path in home.app.vault_sweep.reports.old_copies if "/images/" in path]
        assert [name.split("/")[2] for name in names] == ["ann", "bob"]
        await home.drain()
    (folder / "journal.db").unlink()
    shutil.copytree(copy, vault, dirs_exist_ok=True)
    await rebuild_home(quiet(folder), open_home)
    async with opened(folder) as home:
        await home.app.vault_sweep.sweep()
        assert [len(images(user)) for user in ("ann", "bob", "cleo")] == [0, 0, 1]
        assert await show(home, "ann3", "ann") == 201  # A person wants it back.
        await home.app.vault_sweep.sweep()
        assert await is_served(home, "ann3", "ann")


async def test_a_forgotten_note_is_told_from_another_even_past_what_is_read_of_it(tmp_path: Path) -> None:
    vault = tmp_path / "home/vault"
    anns, bobs = (vault / f"default/users/{user}/notes/long.md" for user in ("ann", "bob"))
    long = "A quokka lives there. " * (NOTE_BYTES // 20)
    async with opened(tmp_path / "home") as home:
        await home.add("t1", "Hello.", user_id="bob")
        for path in (anns, bobs):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(long)
        await home.app.vault_sweep.sweep()
        await tell(home, "DELETE", "memory/notes/long.md", user_id="ann")
        await tell(home, "DELETE", "users/bob")
        await home.drain()
        for path in (anns, bobs):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(long)
        await home.app.vault_sweep.sweep()
        await eventually(lambda: not list(vault.glob("default/users/*/notes/*")), seconds=20)
        anns.parent.mkdir(exist_ok=True)
        anns.write_text(f"{long} And a wombat.")  # Another note.
        await home.app.vault_sweep.sweep()
        assert (await noted(home), anns.exists()) == (["long.md"], True)


def copies_of(path: Path) -> list[Path]:
    names = (f"{path.stem} (conflicted copy 2026-05-08).md", f"{path.stem}.sync-conflict-20260508-AB.md")
    return [path.with_name(name) for name in (*names, f"{path.stem} 2.md")]


async def test_conflict_copies_of_sync_tools_are_listed_and_never_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vault = tmp_path / "home/vault"
    own = vault / ANNS / "notes" / "chapter 2.md"
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        sources = [vault / TODAY, vault / ANNS / "threads/t1/0001.md", vault / "default/presets/old.md"]
        copies = {copy: source.read_bytes() for source in sources for copy in copies_of(source)}
        await live_on(home)
        before = await state(home)
        for copy, content in copies.items():
            copy.write_bytes(content)
        (vault / ANNS / "notes" / "chapter.md").write_text("one")
        own.write_text("two")
        await home.app.vault_sweep.sweep()
        await home.drain()
        seen = await state(home)
        assert await noted(home) == ["chapter 2.md", "chapter.md", "diary.md", "fresh.md"]
        assert {**seen, "notes": before["notes"]} == before
        (told,) = (await tell(home, "GET", "../../health"))["degraded"]
        assert "9 conflict copies of sync tools are not read" in told
        checked = await verified(home)
        names = [copy.relative_to(vault).as_posix() for copy in copies]
        assert all(f"{name}: a conflict copy of a sync tool" in str(checked["notes"]) for name in names)
        assert all(f"{name} is a conflict copy of a sync tool" in caplog.text for name in names)
        found = await verified(home, forgotten=True)
        held = [name for name in names if "threads/t1" not in name]
        assert sorted(found["problems"]) == sorted(
            f"{name}: a conflict copy that holds what was deleted or forgotten; remove it" for name in held
        )
    (tmp_path / "home/journal.db").unlink()
    report, _ = await rebuild_home(quiet(tmp_path / "home"), open_home)
    assert all(
        f"{name}: a conflict copy of a sync tool; it was left out" in report.problems for name in names
    )
    async with opened(tmp_path / "home") as home:
        assert texts_of(await state(home))["entries"] == texts_of(before)["entries"]
        assert texts_of(await state(home))["presets"] == texts_of(before)["presets"]


async def test_a_conflict_copy_goes_with_the_memory_that_is_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        await live_before(home)
        copies = copies_of(tmp_path / "home/vault" / TODAY)
        for copy in copies:
            shutil.copy(tmp_path / "home/vault" / TODAY, copy)
        await home.app.vault_sweep.sweep()
        await tell(home, "DELETE", "memory/entries/fa-2", user_id="ann")
        await home.drain()
        assert not any(copy.exists() for copy in copies)
        assert (await verified(home, forgotten=True))["problems"] == []


async def test_a_thread_that_is_used_again_before_its_files_went_is_no_old_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "home/vault/default/users/ann/threads/t1/0001.md"
    async with opened(tmp_path / "home") as home:

        async def say(text: str, prefix: str) -> None:
            messages = said([("user", text)], prefix=prefix)
            await tell(home, "POST", "memory/add", {**ANN, "session_id": "t1", "messages": messages})

        await say("I live in Berlin.", "m")
        await eventually(written.is_file)
        store = home.app.transcriber.store
        state, begun, may_go_on = store.state, asyncio.Event(), asyncio.Event()

        async def waits(thread: ThreadRef) -> TranscriptState | None:
            begun.set()
            await may_go_on.wait()
            return await state(thread)

        monkeypatch.setattr(store, "state", waits)
        await say("I like parks.", "n")
        await begun.wait()
        forgetting = asyncio.create_task(tell(home, "DELETE", "threads/t1", user_id="ann"))
        await eventually(home.app.transcripts.is_purging)
        await say(f"I love {WORD} soup.", "o")
        may_go_on.set()
        await forgetting
        await eventually(lambda: WORD.encode() in files_under(written.parent).get(written, b""))
        assert (await home.client.get("/health")).json()["degraded"] == []
        assert "Berlin" not in written.read_text()
