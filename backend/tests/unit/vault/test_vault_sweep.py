"""What people do to any file of the vault is noticed; what goes in numbers is asked about."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from recollect.domain.identity import text_digest
from recollect.domain.model import NOTE_BYTES, Note
from recollect.domain.vault_file import FileStamp, VaultFile
from recollect.errors import StorageUnavailable
from recollect.service.vault.reader import Look
from recollect.service.vault.sync import FileSync
from tests.contract.journals import Journal
from tests.entry_house import TODAY, entry_house, fact
from tests.eventually import eventually
from tests.fakes import START
from tests.persons_vault import PersonsVault
from tests.unit.vault_house import ANN, NOTE, House, part_of


@pytest.fixture
async def house(vault: PersonsVault, tmp_path: Path) -> AsyncIterator[House]:
    async with Journal(tmp_path / "journal.db", transcript_delay_ms=0) as journal:
        yield House(journal, vault)


async def test_a_file_that_is_gone_is_restored_and_reported(house: House) -> None:
    await house.talk("t1", "t2", "t3")
    ours = house.vault.files.pop(part_of("t1"))
    await house.sweep()
    assert house.vault.files[part_of("t1")] == ours
    assert house.reports.restored == 1


@pytest.mark.parametrize("left", [None, ""], ids=["gone", "emptied"])
async def test_too_many_files_gone_are_asked_about_until_they_are_back(
    house: House, left: str | None
) -> None:
    await house.talk(*(f"t{number}" for number in range(9)))
    gone = {path: house.vault.files.pop(path) for path in [part_of(f"t{number}") for number in range(3)]}
    kept = {} if left is None else dict.fromkeys(gone, left)
    house.vault.files.update(kept)
    await house.sweep()
    assert (house.edits.problem() or "").startswith("3 of 9 files vanished from the vault at once")
    assert {path: text for path, text in house.vault.files.items() if path in gone} == kept
    house.vault.files.update(gone)
    await house.sweep()
    assert house.edits.problem() is None
    assert house.reports.restored == 0


async def test_an_edit_is_taken_in_while_others_are_asked_about(house: House) -> None:
    await house.talk(*(f"t{number}" for number in range(9)))
    for number in range(3):
        del house.vault.files[part_of(f"t{number}")]
    await house.sweep()
    house.edit(part_of("t8"), "t8 says 1", "Porto")
    await house.see(part_of("t8"))
    assert (await house.turns("t8"))[1].content == "Porto"
    assert part_of("t0") not in house.vault.files


async def test_files_that_go_one_after_another_are_counted_together(house: House) -> None:
    """A folder that is being removed: no file is put back in front of whoever removes it."""
    await house.talk(*(f"t{number}" for number in range(9)))
    going = [part_of(f"t{number}") for number in range(5)]
    stamps = house.vault.stamps

    async def stamps_while_files_go(folder: str = "") -> dict[str, FileStamp]:
        if going:
            del house.vault.files[going.pop()]
        return await stamps(folder)

    house.vault.stamps = stamps_while_files_go  # type: ignore[method-assign]
    await house.sweep()
    assert "5 of 9 files" in (house.edits.problem() or "")
    assert house.reports.restored == 0


class Remembered(FileSync):
    """Files that another follows, and removes when what they held is forgotten."""

    vault: PersonsVault

    def __init__(self, vault: PersonsVault, *paths: str) -> None:
        self.vault = vault
        self.files = dict.fromkeys(paths, text_digest("a memory"))
        self.let_go_of: list[str] = []
        vault.files.update(dict.fromkeys(paths, "a memory"))

    def forget(self) -> None:
        for path in self.files:
            del self.vault.files[path]
        self.files = {}

    def follows(self, path: str) -> bool:
        return "/facts/" in path

    async def known(self) -> dict[str, str]:
        return dict(self.files)

    async def look_at(self, paths: Iterable[str], look: Look | None = None) -> dict[str, FileStamp]:
        return {}

    async def let_go(self, paths: Iterable[str]) -> None:
        self.let_go_of += paths

    async def write_again(self, paths: Iterable[str]) -> None:
        raise AssertionError("nobody asked for it")


@pytest.mark.parametrize("while_sweeping", [False, True])
async def test_files_that_go_because_what_they_held_is_forgotten_are_no_loss(
    house: House, monkeypatch: pytest.MonkeyPatch, while_sweeping: bool
) -> None:
    facts = Remembered(house.vault, *(f"{ANN}/facts/2026-05-0{day}.md" for day in range(1, 6)))
    house.edits = house.editing(facts)
    await house.talk("t1")
    for path, digest in facts.files.items():
        await house.notes.seen(Note(path, ANN, digest, START))
    stamps = house.vault.stamps

    async def forgotten_meanwhile(folder: str = "") -> dict[str, FileStamp]:
        facts.forget()
        return await stamps(folder)

    if while_sweeping:
        monkeypatch.setattr(house.vault, "stamps", forgotten_meanwhile)
    else:
        facts.forget()
    await house.sweep()
    assert house.edits.problem() is None
    assert facts.let_go_of == []
    assert await house.notes.known() == []


async def test_a_vault_that_is_not_there_is_left_alone(house: House) -> None:
    await house.talk("t1", "t2")
    house.vault.take_away()
    await house.sweep()
    await house.see(part_of("t1"), "")
    assert house.vault.files == {}
    house.vault.bring_back()
    await house.sweep()
    assert (house.edits.problem(), house.reports.restored) == (None, 0)


async def test_losses_that_a_person_accepts_are_let_go(house: House) -> None:
    paths = [f"{ANN}/notes/{number}.md" for number in range(9)]
    house.vault.files.update({path: path for path in paths})
    await house.sweep()
    for path in paths[:5]:
        del house.vault.files[path]
    await house.sweep()
    assert house.edits.problem() is not None
    assert len(await house.notes.known()) == 9
    await house.edits.accept_losses()
    assert house.edits.problem() is None
    assert [note.path for note in await house.notes.known()] == paths[5:]


# Notes


async def test_a_note_is_told_when_it_is_new_or_edited_and_not_otherwise(house: House) -> None:
    house.vault.files[NOTE] = "Marta moves"
    for _ in range(2):
        await house.see(NOTE)
    await house.sweep()
    (note,) = await house.notes.known()
    assert (note.path, note.owner, note.digest) == (NOTE, ANN, text_digest("Marta moves"))
    assert house.noted == [{ANN}]
    house.vault.files[NOTE] = "Marta stays"
    await house.sweep()
    assert (await house.notes.known())[0].digest == text_digest("Marta stays")
    assert house.noted == [{ANN}, {ANN}]


async def test_a_note_that_a_person_emptied_is_an_empty_note(house: House) -> None:
    house.vault.files[NOTE] = "Marta moves"
    await house.sweep()
    house.vault.files[NOTE] = ""
    await house.sweep()
    assert [note.digest for note in await house.notes.known()] == [text_digest("")]
    assert house.edits.problem() is None


async def test_a_renamed_note_is_gone_and_new(house: House) -> None:
    house.vault.files[NOTE] = "Marta moves"
    await house.sweep()
    house.vault.files[f"{ANN}/notes/other.md"] = house.vault.files.pop(NOTE)
    await house.sweep()
    assert [note.path for note in await house.notes.known()] == [f"{ANN}/notes/other.md"]


async def test_notes_in_a_folder_that_appears_are_found(house: House) -> None:
    house.vault.files[f"{ANN}/notes/trips/2026/porto.md"] = "Marta moves"
    await house.see(f"{ANN}/notes/trips")
    assert len(await house.notes.known()) == 1


async def test_a_note_that_is_too_long_is_reported_and_known(house: House) -> None:
    house.vault.files[NOTE] = "x" * (NOTE_BYTES + 1)
    await house.sweep()
    assert [note.path for note in await house.notes.known()] == [NOTE]
    assert house.reports.unreadable == 1


@pytest.mark.parametrize("path", [f"{ANN}/porto.md", "porto.md", f"{ANN}/episodes/porto.txt"])
async def test_what_lies_elsewhere_is_no_note(house: House, path: str) -> None:
    house.vault.files[path] = "x"
    await house.see(path)
    await house.sweep()
    assert await house.notes.known() == []


# Running


async def test_it_sweeps_at_the_start_and_follows_the_watcher_until_it_is_stopped(house: House) -> None:
    await house.talk("t1", "t2")
    await house.edits.start()
    await eventually(lambda: house.edits.sweeps == 2)
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    house.watcher.tell(part_of("t1"))
    await eventually(house.work)
    assert (await house.turns())[1].content == "Porto"
    await house.edits.stop()
    await house.edits.start()
    await eventually(lambda: house.edits.sweeps == 3)
    await house.edits.stop()


async def test_a_gone_file_that_the_watcher_saw_is_restored_without_waiting_for_the_next_sweep(
    house: House,
) -> None:
    await house.talk("t1", "t2", "t3")
    await house.edits.start()
    await eventually(lambda: house.edits.sweeps == 2)
    del house.vault.files[part_of("t1")]
    house.watcher.tell("default/users/me/threads/t1")
    await eventually(house.work)
    assert part_of("t1") in house.vault.files
    await house.edits.stop()


async def test_a_sweep_that_fails_is_told_and_tried_again(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    stamps = house.vault.stamps

    async def fail(folder: str = "") -> dict[str, FileStamp]:
        raise StorageUnavailable("the disk fails")

    house.vault.stamps = fail  # type: ignore[method-assign]
    await house.edits.start()
    await eventually(lambda: house.edits.problem() is not None)
    assert house.edits.problem() == "hand edits cannot be looked for: the disk fails"
    assert "hand edits cannot be looked for: the disk fails" in caplog.text
    assert "Traceback" not in caplog.text
    house.vault.stamps = stamps  # type: ignore[method-assign]
    house.watcher.tell("")
    await eventually(lambda: house.edits.problem() is None)
    await house.edits.stop()


async def test_a_watcher_that_breaks_is_told_and_the_sweep_goes_on(house: House) -> None:
    async def broken() -> AsyncIterator[set[str]]:
        yield set()
        raise RuntimeError("no more")

    house.watcher.changes = broken  # type: ignore[method-assign]
    await house.talk("t1", "t2")
    await house.edits.start()
    await eventually(lambda: (house.edits.problem() or "").startswith("the vault is watched no longer"))
    await eventually(lambda: house.edits.sweeps == 2)
    await house.edits.stop()


async def test_an_edit_that_cannot_be_looked_at_now_is_looked_at_again(house: House) -> None:
    await house.talk("t1", "t2")
    await house.edits.start()
    await eventually(lambda: house.edits.sweeps == 2)
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    look = house.vault.look

    async def look_later(path: str, limit: int | None = None) -> VaultFile | None:
        house.vault.look = look  # type: ignore[method-assign]
        raise StorageUnavailable("the disk is busy")

    house.vault.look = look_later  # type: ignore[method-assign]
    house.watcher.tell(part_of("t1"))
    await eventually(house.work)
    assert (await house.turns())[1].content == "Porto"
    await eventually(lambda: house.edits.problem() is None)
    await house.edits.stop()


async def test_a_transcript_that_is_gone_is_left_to_a_sweep_at_once(house: House) -> None:
    await house.edits.start()
    await eventually(lambda: house.edits.sweeps == 1)
    house.watcher.tell(part_of("t1"))
    await eventually(lambda: house.edits.sweeps == 2)
    await house.edits.stop()


async def test_files_of_entries_that_we_write_are_no_notes(tmp_path: Path) -> None:
    async with entry_house(tmp_path) as entries:
        sweeping = House(entries.journal, entries.vault).editing(entries.files)
        await entries.put(fact(1))
        await sweeping.look_at([TODAY])
        await sweeping.sweep()
        assert await entries.notes.known() == []
