"""Entries are in the vault as in the journal, whoever changed them, and whenever we died."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.entries.entry import EntryChange, FiledEntry
from recollect.domain.identity import text_digest
from recollect.domain.markdown.entry_document import read_document
from recollect.domain.model import Note
from recollect.infra.journal.entry_changes import forget_entries_of
from recollect.service.vault.entry_files import import_entries
from recollect.service.verify import entry_problems
from tests.entry_house import ANN, DAY, SETTLED, TODAY, TOMORROW, House, entry_house, fact, rendered
from tests.fakes import START


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with entry_house(tmp_path) as house:
        yield house


async def test_entries_are_written_to_the_file_of_their_day(house: House) -> None:
    await house.put(fact(2), fact(1))
    assert house.read(TODAY) == rendered(fact(1).entry, fact(2).entry)
    assert house.changed == [{ANN}]
    await house.files.look_at([TODAY])
    assert (await house.waiting(), list(house.reports.recent)) == ([], [])  # It is no hand edit.
    assert await house.is_sound()


async def test_the_steps_in_which_entries_come_leave_no_trace_in_the_file(house: House) -> None:
    for number in (5, 1, 4, 2, 3):
        await house.put(fact(number))
    await house.remove("fa-4")
    await house.put(replace(await house.got("fa-2"), entry=fact(2, "Ann likes two.").entry))
    assert house.read(TODAY) == rendered(
        fact(1).entry, fact(2, "Ann likes two.").entry, fact(3).entry, fact(5).entry
    )


async def test_the_file_of_the_last_entry_goes_with_it_and_the_search_knows_at_once(house: House) -> None:
    await house.put(fact(1), fact(2, when=START + DAY))
    await house.notes.seen(Note(TODAY, ANN, "digest", START))
    house.changed.clear()
    await house.remove("fa-1")
    assert list(house.vault.files) == [TOMORROW]
    assert [file.path for file in await house.store.files()] == [TOMORROW]
    assert await house.notes.known(ANN) == []
    assert {ANN} in house.changed


async def test_an_entry_that_is_removed_while_its_file_is_written_goes_from_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put(fact(1), fact(2))
    entries_in = house.store.entries_in

    async def read_then_remove(path: str) -> list[FiledEntry]:
        found = await entries_in(path)
        await house.entries.apply(EntryChange("default", ANN, "extraction", "gone", remove=("fa-2",)))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(house.store, "entries_in", read_then_remove)
        await house.put(fact(3))
    assert house.read(TODAY) == rendered(fact(1).entry, fact(3).entry)
    assert await house.is_sound()


async def test_an_entry_whose_day_changes_moves_to_the_file_of_that_day(house: House) -> None:
    await house.put(fact(1), fact(2))
    known = await house.got("fa-1")
    await house.put(replace(known, entry=replace(known.entry, when=START + DAY)))
    assert house.read(TODAY) == rendered(fact(2).entry)
    assert "^fa-1" in house.read(TOMORROW)
    assert await house.is_sound()


async def test_what_a_person_and_the_journal_changed_at_once_is_all_there(house: House) -> None:
    await house.put(fact(1), fact(2), fact(3))
    house.vault.files[TODAY] = house.read(TODAY).replace("## Ann likes number 1.", "## Ann loves number 1.")
    await house.put(
        replace(await house.got("fa-2"), entry=fact(2, "Ann likes two.").entry), fact(4), work=False
    )
    await house.work()
    await house.work(SETTLED)
    assert sorted(await house.texts()) == [
        "Ann likes number 3.",
        "Ann likes number 4.",
        "Ann likes two.",
        "Ann loves number 1.",
    ]
    assert sorted(entry.text for entry in read_document(TODAY, house.read(TODAY)).entries) == sorted(
        await house.texts()
    )
    assert list(house.vault.files) == [TODAY]
    assert await house.is_sound()


async def test_where_both_changed_one_entry_the_person_wins_and_the_other_is_history(house: House) -> None:
    await house.put(fact(1))
    house.vault.files[TODAY] = house.read(TODAY).replace("## Ann likes number 1.", "## By hand.")
    await house.put(replace(await house.got("fa-1"), entry=fact(1, "By extraction.").entry))
    await house.work(SETTLED)
    assert await house.texts() == ["By hand."]
    history = await house.entries.history("default", "fa-1")
    assert [past.entry and past.entry.text for past in history] == ["Ann likes number 1.", "By extraction."]
    assert "## By hand." in house.read(TODAY)
    assert await house.is_sound()


async def test_a_deleted_entry_does_not_come_back_with_a_save_that_still_holds_it(house: House) -> None:
    await house.put(fact(1), fact(2))
    text = house.read(TODAY)
    await house.entries.apply(EntryChange("default", ANN, "person", "x", remove=("fa-1",), keep_deleted=True))
    await house.save(TODAY, text + "\nmine\n", wait=SETTLED)
    assert await house.texts() == [fact(2).entry.text]
    assert house.read(TODAY) == rendered(fact(2).entry) + "\nmine\n"


async def test_a_file_is_noted_for_the_index_while_it_holds_more_than_entries(house: House) -> None:
    await house.put(fact(1))
    await house.edit(TODAY, "## Ann likes number 1.", "## Ann loves number 1.", wait=SETTLED)
    assert await house.notes.known() == []
    await house.save(TODAY, house.read(TODAY) + "\nmine\n", wait=SETTLED)
    await house.put(fact(2))
    (note,) = await house.notes.known()
    assert note.digest == text_digest(house.read(TODAY))
    await house.edit(TODAY, "\nmine\n", "", wait=SETTLED)
    assert await house.notes.known() == []


async def test_what_a_person_wrote_is_noted_whenever_we_died(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put(fact(1))
    house.vault.files[TODAY] = house.read(TODAY) + "\nmine\n"
    await house.files.look_at([TODAY])
    await house.die_at(house.files.notes, "at", monkeypatch)
    file = await house.store.file(TODAY)
    assert file is not None
    assert file.digest == text_digest(house.read(TODAY))
    assert [note.path for note in await house.notes.known()] == [TODAY]


@pytest.mark.parametrize("step", ["announce", "write_unless_foreign", "record"])
async def test_a_death_at_any_step_of_writing_leaves_the_same_bytes(
    house: House, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put(fact(1), fact(2))
    await house.put(fact(3), work=False)
    await house.entries.apply(EntryChange("default", ANN, "extraction", "x", remove=("fa-1",)))
    target = house.store if hasattr(house.store, step) else house.vault
    await house.die_at(target, step, monkeypatch)
    await house.work(60_000)
    assert house.read(TODAY) == rendered(fact(2).entry, fact(3).entry)
    assert list(house.vault.files) == [TODAY]
    assert list(house.reports.recent) == []
    assert await house.is_sound()


async def test_a_person_who_edits_what_was_written_before_we_died_loses_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put(fact(1))
    await house.put(fact(2), work=False)
    await house.die_at(house.store, "record", monkeypatch)
    house.vault.files[TODAY] = house.read(TODAY).replace("## Ann likes number 2.", "## Ann loves two.")
    await house.work(60_000)
    await house.work(SETTLED)
    assert sorted(await house.texts()) == ["Ann likes number 1.", "Ann loves two."]
    assert [past.actor for past in await house.entries.history("default", "fa-1")] == []
    assert await house.is_sound()


async def test_a_file_that_is_moved_away_and_back_while_it_is_written_keeps_what_a_person_wrote_beside(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git does, or an editor that saves by renaming: the text that is back is one that the journal knows."""
    await house.put(fact(1))
    await house.save(TODAY, house.read(TODAY) + "\nA word of mine.\n", wait=SETTLED)
    await house.put(fact(2), work=False)
    away = house.read(TODAY)
    del house.vault.files[TODAY]
    announce = house.store.announce

    async def back_meanwhile(*announced: Any) -> None:
        await announce(*announced)
        house.vault.files.setdefault(TODAY, away)

    monkeypatch.setattr(house.store, "announce", back_meanwhile)
    await house.work()
    await house.work(SETTLED)
    assert "A word of mine." in house.read(TODAY)
    assert "Ann likes number 2." in house.read(TODAY)
    assert list(house.vault.files) == [TODAY]
    assert await house.is_sound()


@pytest.mark.parametrize("dies", [False, True])
async def test_a_save_before_an_announced_entry_is_in_place_does_not_remove_the_entry(
    house: House, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put(*map(fact, range(5)))
    await house.put(fact(6), work=False)
    announce = house.store.announce

    async def saved_meanwhile(*announced: Any) -> None:
        await announce(*announced)
        monkeypatch.setattr(house.store, "announce", announce)
        house.vault.files[TODAY] = house.read(TODAY) + "\nA word of mine.\n"

    monkeypatch.setattr(house.store, "announce", saved_meanwhile)
    if dies:
        await house.die_at(house.vault, "write_unless_foreign", monkeypatch)
    for _ in range(4):
        await house.work(60_000)
    assert "Ann likes number 6." in await house.texts()
    assert "Ann likes number 6." in house.read(TODAY)
    assert "A word of mine." in house.read(TODAY)
    assert await house.is_sound()


async def test_the_vault_alone_brings_the_entries_back(house: House) -> None:
    await house.put(fact(1), fact(2), fact(3, when=START + DAY))
    await house.edit(TODAY, "## Ann likes number 1.", "## Ann loves number 1.", wait=SETTLED)
    before = await house.entries.list_entries("default", ANN)
    await house.journal.database.write(lambda connection: forget_entries_of(connection, "default", ANN))
    await house.journal.execute("DELETE FROM written_files")  # As in a new journal.
    assert await house.texts() == []
    assert await import_entries(house.vault, house.store) == (3, [])
    back = await house.entries.list_entries("default", ANN)
    assert [replace(known, revision=0) for known in back] == [replace(known, revision=0) for known in before]
    assert [known.is_edited for known in back] == [known.is_edited for known in before]
    assert await house.waiting() == []
    assert await house.is_sound()


async def test_an_import_says_what_it_could_not_bring_back(house: House) -> None:
    house.vault.files[TODAY] = rendered(fact(1).entry, fact(2).entry).replace("2026-05-08T", "in May ", 1)
    house.vault.files[TOMORROW] = rendered(fact(2).entry, fact(3).entry)
    house.vault.files[f"{ANN}/episodes/2026-05-08.md"] = rendered(fact(4).entry)
    count, problems = await import_entries(house.vault, house.store)
    assert count == 2
    assert [problem.split(":")[0] for problem in problems] == [
        f"{ANN}/episodes/2026-05-08.md",
        TODAY,
        TOMORROW,
    ]


async def test_verify_says_what_differs(house: House) -> None:
    await house.put(fact(1), fact(2, when=START + DAY), fact(3, when=START + 2 * DAY))
    del house.vault.files[TODAY]
    house.vault.files[TOMORROW] = house.read(TOMORROW) + "\nmine\n"
    house.vault.files[f"{ANN}/facts/new.md"] = rendered(fact(9).entry)
    assert await entry_problems(house.store, house.vault) == [
        f"{TODAY} is missing",
        f"{TOMORROW} differs from the journal",
        f"{ANN}/facts/new.md was not imported",
    ]


async def test_everything_can_be_settled_at_once(house: House) -> None:
    await house.put(fact(1), work=False)
    house.vault.files[TOMORROW] = rendered(fact(2, when=START + DAY).entry)
    await house.files.settle_all()
    assert "^fa-1" in house.read(TODAY)
    assert " · edited: yes · " in house.read(TOMORROW)
    assert await house.is_sound()
