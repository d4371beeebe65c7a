"""An old copy is told from an edit whatever line ends, byte order mark or name a tool gave it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.app import open_home
from recollect.service.rebuild import rebuild_home
from tests.entry_house import ANN as ANNS
from tests.entry_house import TODAY, fact
from tests.http_client import Home, Json, opened
from tests.integration.journal.test_old_copies import ANN, quiet, tell, verified

WORD = "quokka"


async def look(home: Home) -> None:
    await home.app.vault_sweep.sweep()
    await home.drain()


async def texts(home: Home) -> list[str]:
    found = await tell(home, "GET", "memory/entries", user_id="ann", limit="100")
    return sorted(entry["text"] for entry in found["entries"])


async def names(home: Home) -> list[str]:
    return [note["name"] for note in (await tell(home, "GET", "memory/notes", user_id="ann"))["notes"]]


def with_crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def with_mark(content: bytes) -> bytes:
    return b"\xef\xbb\xbf" + content


@pytest.mark.parametrize("changed", [with_crlf, with_mark])
async def test_line_ends_and_a_byte_order_mark_do_not_make_an_edit_of_an_old_copy(
    tmp_path: Path, changed: Callable[[bytes], bytes]
) -> None:
    vault = tmp_path / "home/vault"
    note, preset, thread = (
        vault / path
        for path in (f"{ANNS}/notes/zoo.md", "default/presets/old.md", f"{ANNS}/threads/t1/0001.md")
    )
    async with opened(tmp_path / "home") as home:
        await home.add("t1", "My sister is Marta.", user_id="ann")
        await home.put(fact(1), fact(2, f"Ann saw a {WORD}."))
        await tell(home, "PUT", "presets/old", {"instructions": "Be brief."})
        await tell(home, "POST", "memory/notes", {**ANN, "name": "zoo", "text": f"A {WORD}\nlives there.\n"})
        await home.drain()
        old = {path: path.read_bytes() for path in (vault / TODAY, note, preset, thread)}
        await tell(home, "PATCH", "memory/entries/fa-1", {"text": "Ann likes number 11.", "user_id": "ann"})
        await tell(home, "DELETE", "memory/entries/fa-2", user_id="ann")
        await home.put(*(fact(number) for number in range(3, 6)))
        await home.add("t1", "Marta moves to Porto.", user_id="ann")
        await tell(home, "DELETE", "presets/old")
        await tell(home, "DELETE", "memory/notes/zoo.md", user_id="ann")
        await home.drain()
        before, day, said = await texts(home), (vault / TODAY).read_bytes(), thread.read_bytes()
        for path, content in old.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(changed(content))
        await look(home)
        await look(home)
        assert await texts(home) == before
        assert ((vault / TODAY).read_bytes(), thread.read_bytes()) == (day, said)
        assert (note.exists(), preset.exists(), await names(home)) == (False, False, [])
        assert len(set(home.app.vault_sweep.reports.old_copies)) == 4


async def test_the_current_version_with_other_line_ends_stays_the_current_one(tmp_path: Path) -> None:
    day = tmp_path / "home/vault" / TODAY
    async with opened(tmp_path / "home") as home:
        await tell(home, "POST", "threads", {**ANN, "thread_id": "t1"})
        await home.put(fact(1), fact(2))
        await home.drain()
        before = await texts(home)
        day.write_bytes(with_crlf(day.read_bytes()))
        await look(home)
        assert (await texts(home), list(home.app.vault_sweep.reports.old_copies)) == (before, [])
        await home.put(fact(3))
        await look(home)
        assert len(await texts(home)) == 3
        assert (await verified(home))["ok"]


@pytest.mark.parametrize("changed", [with_crlf, with_mark])
async def test_a_note_stays_corrected_whatever_line_ends_either_version_comes_with(
    tmp_path: Path, changed: Callable[[bytes], bytes]
) -> None:
    zoo: Json = {**ANN, "name": "zoo", "text": f"A {WORD}\nlives there.\n"}
    note = tmp_path / f"home/vault/{ANNS}/notes/zoo.md"
    async with opened(tmp_path / "home") as home:
        await tell(home, "POST", "memory/notes", zoo)
        old = note.read_bytes()
        await tell(home, "POST", "memory/notes", {**zoo, "text": "A wombat\nlives there.\n", "replace": True})
        note.write_bytes(changed(note.read_bytes()))
        await look(home)
        assert list(home.app.vault_sweep.reports.old_copies) == []
        note.write_bytes(changed(old))
        await look(home)
        assert "A wombat" in note.read_text()
        assert (await verified(home))["ok"]


async def test_a_forgotten_note_comes_back_through_the_api_with_whatever_line_ends(tmp_path: Path) -> None:
    zoo: Json = {**ANN, "name": "zoo", "text": f"A {WORD}\nlives there.\n"}
    async with opened(tmp_path / "home") as home:
        await tell(home, "POST", "memory/notes", zoo)
        await tell(home, "DELETE", "memory/notes/zoo.md", user_id="ann")
        await home.drain()
        await tell(home, "POST", "memory/notes", {**zoo, "text": f"A {WORD}\r\nlives there.\r\n"})
        await look(home)
        assert await names(home) == ["zoo.md"]


async def found(home: Home) -> str:
    hits = await tell(home, "POST", "memory/search", {**ANN, "query": WORD, "top_k": 9})
    return str(hits["hits"])


async def test_a_forgotten_note_is_an_old_copy_under_whatever_name_it_comes_back(tmp_path: Path) -> None:
    """Bob has the same text, and Ann an empty note: both are theirs."""
    notes, bobs = (tmp_path / f"home/vault/default/users/{user}/notes" for user in ("ann", "bob"))
    text = f"A {WORD} lives there.\n"
    async with opened(tmp_path / "home") as home:
        for folder in (notes, bobs):
            folder.mkdir(parents=True)
            (folder / "diary.md").write_text(text)
        (notes / "same.md").write_text(text)
        for name in ("empty.md", "blank.md"):
            (notes / name).write_text("")
        await look(home)
        assert await names(home) == ["blank.md", "diary.md", "empty.md", "same.md"]
        for name in ("diary.md", "empty.md"):
            await tell(home, "DELETE", f"memory/notes/{name}", user_id="ann")
        await home.drain()
        assert not (notes / "same.md").exists()
        await home.app.vault_sweep.stop()
        (notes / "renamed.md").write_text(text)
        (notes / "below").mkdir()
        (notes / "below/crlf.md").write_bytes(with_crlf(text.encode()))
        proof = await home.app.forgotten_verifier.verify()
        assert (proof.problems, proof.looked_at["notes"]) == (["notes: 2 of 4"], 4)
        await home.app.vault_sweep.start()
        await look(home)
        assert (await names(home), WORD in await found(home)) == (["blank.md"], False)
        assert not (notes / "renamed.md").exists()
        assert (await verified(home, forgotten=True))["problems"] == []
        assert "renamed.md: an old copy came here" in str((await verified(home))["notes"])
        assert (bobs / "diary.md").exists()
    (tmp_path / "home/journal.db").unlink()
    (notes / "again.md").write_text(text)
    await rebuild_home(quiet(tmp_path / "home"), open_home)
    async with opened(tmp_path / "home") as home:
        await look(home)
        assert (await names(home), (bobs / "diary.md").exists()) == (["blank.md"], True)
        await tell(home, "POST", "memory/notes", {**ANN, "name": "wanted", "text": text})
        await look(home)
        assert await names(home) == ["blank.md", "wanted.md"]  # A person wants it back.


async def test_a_conflict_copy_of_a_note_is_listed_not_read_and_searched_by_the_proof(tmp_path: Path) -> None:
    notes = tmp_path / "home/vault" / ANNS / "notes"
    copies = ("diary.sync-conflict-20260101-000000-ABCDEFG.md", "diary (Ann's conflicted copy 2026-01-01).md")
    own = ["diary (draft).md", "diary 2.md", "diary.md", "plan (conflicted copy).md"]  # There is no plan.
    async with opened(tmp_path / "home") as home:
        notes.mkdir(parents=True)
        for name in own:
            (notes / name).write_text(f"This is {name}.")
        for name in copies:
            (notes / name).write_text(f"A {WORD}, as {name} has it.")
        await look(home)
        assert (await names(home), WORD in await found(home)) == (own, False)
        told = str((await verified(home))["notes"])
        assert all(f"{name}: a conflict copy of a sync tool" in told for name in copies)
        await tell(home, "DELETE", "memory/notes/diary.md", user_id="ann")
        await home.drain()
        assert not any((notes / name).exists() for name in copies)
        (notes / copies[0]).write_text(f"Another {WORD}.")
        await look(home)
        assert (await names(home), WORD in await found(home)) == ([own[0], own[1], own[3]], False)
        (problem,) = (await verified(home, forgotten=True))["problems"]
        assert problem.startswith(f"{ANNS}/notes/{copies[0]}: a conflict copy that holds")


@pytest.mark.parametrize("has_journal", [True, False], ids=["over the journal", "from the vault alone"])
@pytest.mark.parametrize("name", ["2000-01-01.md", "{} - Copy.md", "{}-DESKTOP.md"])
async def test_a_rebuild_takes_no_old_copy_beside_a_file_for_its_source(
    tmp_path: Path, name: str, has_journal: bool
) -> None:
    vault = tmp_path / "home/vault"
    day, preset = vault / TODAY, vault / "default/presets/brief.md"
    async with opened(tmp_path / "home") as home:
        await tell(home, "POST", "threads", {**ANN, "thread_id": "t1"})
        await home.put(fact(1), fact(2, f"Ann saw a {WORD}."))
        await tell(home, "PUT", "presets/brief", {"instructions": "Be brief."})
        await home.drain()
        for file in (day, preset):
            shutil.copy(file, tmp_path / file.name)
        await tell(home, "PATCH", "memory/entries/fa-1", {"text": "Ann likes number 11.", "user_id": "ann"})
        await tell(home, "DELETE", "memory/entries/fa-2", user_id="ann")
        await tell(home, "PUT", "presets/brief", {"instructions": "Be very brief."})
        await home.drain()
    for file in (day, preset):
        shutil.copy(tmp_path / file.name, file.with_name(name.format(file.stem)))
    if not has_journal:
        (tmp_path / "home/journal.db").unlink()
    await rebuild_home(quiet(tmp_path / "home"), open_home)
    async with opened(tmp_path / "home") as home:
        await look(home)
        assert await texts(home) == ["Ann likes number 11."]
        presets = (await tell(home, "GET", "presets"))["presets"]
        assert "Be very brief." in [each["instructions"] for each in presets]
