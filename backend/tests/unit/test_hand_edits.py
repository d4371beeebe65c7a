"""What people do to the files of the vault is taken in, restored or asked about."""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.identity import text_digest
from recollect.domain.job import TAKE_IN, TRANSCRIBE, Job
from recollect.domain.markdown.transcript import parse_part
from recollect.domain.model import NOTE_BYTES, Append, NewTurn, Turn
from recollect.domain.vault_file import FileStamp, VaultFile
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.service.rebuild import rebuild
from recollect.service.vault.reader import FileFollower
from recollect.service.vault.sweep import HandEdits
from recollect.service.vault.transcripts import EditReports, Transcriber
from recollect.service.verify import Verifier
from tests.contract.journals import Journal, sqlite_journal
from tests.eventually import eventually
from tests.fakes import START
from tests.persons_vault import PersonsVault, ToldWatcher

ANN = "default/users/ann"
NOTE = f"{ANN}/notes/porto.md"


def part_of(thread: str, part: int = 1) -> str:
    return f"default/users/me/threads/{thread}/{part:04d}.md"


class House:
    """A journal and a vault with their jobs, and a person at the vault."""

    def __init__(self, journal: Journal, vault: PersonsVault) -> None:
        self.journal, self.vault = journal, vault
        self.notes = journal.notes
        self.watcher = ToldWatcher(vault.root)
        self.reports = EditReports()
        self.revised: list[tuple[str, str]] = []
        self.noted: list[set[str]] = []
        self.transcriber = Transcriber(
            self.journal.transcripts,
            self.vault,
            FailPoints(),
            lambda space, thread: self.revised.append((space, thread)),
            self.reports,
        )
        self.edits = self.editing()
        self.journal.jobs.handlers = {
            TRANSCRIBE: self.transcriber.handle,
            TAKE_IN: self.transcriber.handle_take_in,
        }

    def editing(self, *followers: FileFollower) -> HandEdits:
        return HandEdits(
            self.journal.transcripts,
            self.notes,
            self.vault,
            self.watcher,
            self.reports,
            clock=self.journal.clock,
            settle_seconds=0,
            on_notes_changed=self.noted.append,
            followers=followers,
        )

    async def talk(self, *threads: str) -> None:
        for thread in threads:
            turns = [NewTurn("user", f"{thread} says {number}", START, "ann") for number in range(3)]
            await self.journal.threads.append(Append("default", thread, turns))
        await self.work()
        await self.edits.sweep()

    async def work(self) -> int:
        return await self.journal.jobs.run_due()

    async def see(self, *paths: str) -> None:
        """The watcher tells of these paths, and the jobs that follow run."""
        await self.edits.look_at(paths)
        await self.work()

    async def sweep(self) -> None:
        await self.edits.sweep()
        await self.work()

    async def looks_asked_for(self) -> list[Job]:
        return [job for job in await self.journal.jobs.list_jobs(space=None) if job.kind == TAKE_IN]

    async def turns(self, thread: str = "t1") -> list[Turn]:
        return await self.journal.threads.get_history(thread)

    async def is_sound(self) -> bool:
        verifier = Verifier(
            self.journal.threads,
            self.journal.transcripts,
            self.journal.coverage,
            self.vault,
            self.transcriber,
        )
        return (await verifier.verify()).ok

    def edit(self, path: str, old: str, new: str) -> str:
        assert old in self.vault.files[path]
        self.vault.files[path] = self.vault.files[path].replace(old, new, 1)
        return self.vault.files[path]

    @property
    def conflicts(self) -> list[str]:
        return [text for path, text in self.vault.files.items() if "conflict" in path]


@pytest.fixture
async def house(vault: PersonsVault, tmp_path: Path) -> AsyncIterator[House]:
    async with sqlite_journal(tmp_path / "journal.db", transcript_delay_ms=0) as journal:
        yield House(journal, vault)


# Transcripts


async def test_an_edit_that_the_watcher_saw_is_a_revision(house: House) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await house.see(part_of("t1"))
    assert [(turn.content, turn.edited) for turn in await house.turns()] == [
        ("t1 says 0", False),
        ("Porto", True),
        ("t1 says 2", False),
    ]
    assert (house.reports.revisions, house.revised, house.conflicts) == (1, [("default", "t1")], [])
    assert "- edited: yes\n\n> Porto" in house.vault.files[part_of("t1")]
    assert await house.is_sound()


@pytest.mark.parametrize("found_by", ["sweep", "catch_up"])
async def test_an_edit_that_the_watcher_missed_is_found(house: House, found_by: str) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await (house.sweep() if found_by == "sweep" else house.edits.catch_up(house.journal.jobs))
    assert (await house.turns())[1].content == "Porto"


async def test_an_edit_is_taken_in_before_new_messages_are_written(house: House) -> None:
    """Nobody saw it: the message comes first."""
    await house.talk("t1")
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await house.journal.threads.append(Append("default", "t1", [NewTurn("user", "more", START, "ann")]))
    await house.work()
    assert [turn.content for turn in await house.turns()] == ["t1 says 0", "Porto", "t1 says 2", "more"]
    assert list(parse_part(house.vault.files[part_of("t1")]).turns) == await house.turns()
    assert house.conflicts == []


async def test_a_second_edit_of_a_marked_turn_is_left_as_the_person_wrote_it(house: House) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "t1 says 1", "Lisbon")
    await house.see(part_of("t1"))
    theirs = house.edit(part_of("t1"), "Lisbon", "Porto")
    await house.see(part_of("t1"))
    assert (await house.turns())[1].content == "Porto"
    assert house.vault.files[part_of("t1")] == theirs


@pytest.mark.parametrize("remembered", [True, False], ids=["since the start", "by its digest"])
async def test_our_own_writes_queue_nothing(house: House, remembered: bool) -> None:
    await house.talk("t1", "t2")
    if not remembered:
        house.vault._own.clear()
    await house.edits.look_at([part_of("t1"), part_of("t2")])
    await house.edits.sweep()
    assert await house.looks_asked_for() == []


async def test_title_and_tags_are_taken_in(house: House) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "part: 1\n", "part: 1\ntitle: Porto\ntags: [family, trip]\n")
    await house.see(part_of("t1"))
    thread = await house.journal.threads.get_thread("t1")
    assert thread is not None
    assert (thread.title, thread.tags, house.conflicts) == ("Porto", ("family", "trip"), [])
    assert await house.is_sound()


async def test_an_older_copy_that_comes_back_is_an_edit_like_any_other(house: House) -> None:
    await house.talk("t1", "t2")
    saved = house.vault.files[part_of("t1")]
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await house.see(part_of("t1"))
    house.vault.files[part_of("t1")] = saved
    await house.see(part_of("t1"))
    assert ((await house.turns())[1].content, house.conflicts) == ("t1 says 1", [])
    assert await house.is_sound()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\nmy own remark\n",
        lambda text: text.removeprefix("---\n"),
        lambda text: text.replace("part: 1\n", "part: 1\naliases: [x]\n"),
        lambda text: text.replace("- id: ", "- id: x", 1),
        lambda text: text[: text.rindex("## user")],
        lambda text: "nothing of it left",
    ],
    ids=["stray text", "front matter", "a property", "message id", "a turn gone", "all gone"],
)
async def test_what_cannot_be_taken_in_is_kept_beside_and_our_form_restored(
    house: House, change: Callable[[str], str]
) -> None:
    await house.talk("t1", "t2")
    ours = house.vault.files[part_of("t1")]
    theirs = house.vault.files[part_of("t1")] = change(ours)
    await house.see(part_of("t1"))
    assert house.vault.files[part_of("t1")] == ours
    assert house.conflicts == [theirs]
    assert house.reports.restored + house.reports.unreadable >= 1
    assert any(part_of("t1") in line for line in house.reports.recent)
    assert await house.is_sound()


async def test_an_edit_that_comes_while_another_is_taken_in_is_taken_in_too(house: House) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "t1 says 1", "Lisbon")
    revise = house.journal.transcripts.revise

    async def revise_while_a_person_saves(*arguments: Any, **named: Any) -> int:
        house.journal.transcripts.revise = revise  # type: ignore[method-assign]
        house.edit(part_of("t1"), "Lisbon", "Porto")
        return await revise(*arguments, **named)

    house.journal.transcripts.revise = revise_while_a_person_saves  # type: ignore[method-assign]
    await house.see(part_of("t1"))
    assert (await house.turns())[1].content == "Porto"
    assert house.conflicts == []


async def test_a_person_who_saves_faster_than_we_take_in_finds_it_beside(house: House) -> None:
    await house.talk("t1", "t2")
    number = 0
    revise = house.journal.transcripts.revise

    async def revise_while_a_person_saves(*arguments: Any, **named: Any) -> int:
        nonlocal number
        number += 1
        house.edit(part_of("t1"), f"save {number - 1}.", f"save {number}.")
        return await revise(*arguments, **named)

    house.journal.transcripts.revise = revise_while_a_person_saves  # type: ignore[method-assign]
    house.edit(part_of("t1"), "t1 says 1", "save 0.")
    await house.see(part_of("t1"))
    assert any(f"save {number}." in text for text in house.conflicts)
    assert await house.is_sound()


async def test_a_file_of_a_thread_that_is_forgotten_is_nobodys(house: House) -> None:
    await house.talk("t1", "t2")
    await house.journal.threads.delete_thread("t1")
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await house.edits.look_at([part_of("t1")])
    del house.vault.files[part_of("t1")]
    await house.edits.look_at([part_of("t1")])
    assert await house.looks_asked_for() == []


async def test_a_copy_elsewhere_is_left_alone(house: House) -> None:
    await house.talk("t1", "t2")
    copy = part_of("t1").replace("/t1/", "/t1-copy/")
    house.vault.files[copy] = house.vault.files[part_of("t1")].replace("says 1", "said 1")
    await house.see(copy)
    await house.sweep()
    assert house.reports.revisions == 0
    assert "said 1" in house.vault.files[copy]


async def test_a_sweep_reads_only_what_changed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.talk("t1", "t2", "t3")
    house.vault.files[NOTE] = "note"
    for path in house.vault.files:  # What was written just now is read again in any case.
        os.utime(house.vault.root / path, (START // 1000, START // 1000))
    await house.sweep()
    look, looked_at = house.vault.look, list[str]()

    async def counted(path: str, limit: int | None = None) -> VaultFile | None:
        looked_at.append(path)
        return await look(path, limit)

    monkeypatch.setattr(house.vault, "look", counted)
    await house.sweep()
    assert looked_at == []


async def test_a_rebuild_brings_back_the_mark_and_keeps_what_it_cannot_read(
    house: House, tmp_path: Path
) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await house.see(part_of("t1"))
    theirs = house.edit(part_of("t1"), "part: 1\n", "part: 1\ncssclasses: wide\n")
    async with sqlite_journal(tmp_path / "again.db") as again:
        await rebuild(house.vault, again.builder, FailPoints())
        assert await again.threads.get_history("t1") == await house.turns()
        await Transcriber(again.transcripts, house.vault, FailPoints()).transcribe("default", "t1")
    assert house.conflicts == [theirs]


# Gone


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


class Remembered:
    """Files that another follows, and removes when what they held is forgotten."""

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

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        return {}

    async def let_go(self, paths: Iterable[str]) -> None:
        self.let_go_of += paths

    async def write_anew(self, paths: Iterable[str]) -> None:
        raise AssertionError("nobody asked for it")


@pytest.mark.parametrize("while_sweeping", [False, True])
async def test_files_that_go_because_what_they_held_is_forgotten_are_no_loss(
    house: House, monkeypatch: pytest.MonkeyPatch, while_sweeping: bool
) -> None:
    facts = Remembered(house.vault, *(f"{ANN}/facts/2026-05-0{day}.md" for day in range(1, 6)))
    house.edits = house.editing(facts)
    await house.talk("t1")
    assert len(await house.notes.known()) == 5
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


@pytest.mark.parametrize("text", [None, "recollect: 1\nkind: transcript\n"], ids=["gone", "damaged"])
async def test_a_transcript_whose_place_was_never_learned_is_left_to_a_sweep_at_once(
    house: House, text: str | None
) -> None:
    await house.edits.start()
    await eventually(lambda: house.edits.sweeps == 1)
    if text is not None:
        house.vault.files[part_of("t1")] = text
    house.watcher.tell(part_of("t1"))
    await eventually(lambda: house.edits.sweeps == 2)
    await house.edits.stop()
