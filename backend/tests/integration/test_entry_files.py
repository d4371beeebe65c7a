"""Entries are in the vault as in the journal, whoever changed them."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.domain.entries.entry import FACTS, EntryChange, KnownEntry, Source
from recollect.domain.job import ENTRIES, Job, Unfinished
from recollect.domain.markdown.entry_file import EntryFile, parse_entries, render_entries
from recollect.domain.model import Entry, NewTurn, Note
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.jobs import SqlJobStore
from recollect.service.vault.entry_files import EntryFiles
from recollect.service.vault.entry_import import import_entries
from recollect.service.vault.transcripts import EditReports
from recollect.service.verify import entry_problems
from tests.contract.journals import Journal, sqlite_journal
from tests.fakes import START
from tests.persons_vault import PersonsVault, new_vault

ANN = "default/users/ann"
TODAY, TOMORROW = f"{ANN}/facts/2026-05-08.md", f"{ANN}/facts/2026-05-09.md"
DAY = 86_400_000
SETTLED = 2000


def fact(number: int, text: str | None = None, when: int | None = None) -> KnownEntry:
    said = text or f"Ann likes number {number}."
    time = START + number if when is None else when
    entry = Entry(
        f"fa-{number}", said, said, time, ("threads/t1/0001#^t-1",), "facts, rules", {"cell": "c-1"}
    )
    return KnownEntry("default", ANN, FACTS, entry, (Source("t1", "t-1"),), "c-1", "facts")


def rendered(*entries: Entry) -> str:
    return render_entries(EntryFile(FACTS, "users/ann", entries))


class Died(Exception):
    """Stands for the process going away."""


class House:
    """A journal and a vault with their jobs, and a person at the vault."""

    def __init__(self, journal: Journal, vault: PersonsVault) -> None:
        self.journal, self.vault, self.clock = journal, vault, journal.clock
        self.entries = journal.entries
        self.store = SqlEntryFileStore(journal.database, clock=journal.clock)
        self.reports = EditReports()
        self.changed: list[set[str]] = []
        self.notes = journal.notes
        self.files = EntryFiles(
            self.store, self.entries, vault, self.notes, self.reports, self.changed.append
        )

    async def put(self, *known: KnownEntry, work: bool = True) -> None:
        await self.entries.apply(EntryChange("default", ANN, "extraction", "read", known))
        if work:
            await self.work()

    async def remove(self, *names: str) -> None:
        await self.entries.apply(EntryChange("default", ANN, "extraction", "gone", remove=names))
        await self.work()

    async def work(self, milliseconds: int = 0) -> None:
        """So much later, all that is due is done."""
        self.clock.advance(milliseconds)
        store = SqlJobStore(self.journal.database)
        while True:
            claimed, _ = await store.claim(self.clock(), self.clock() + 1, [([ENTRIES], 1)])
            if not claimed:
                return
            for job in claimed:
                try:
                    await self.files.handle(job)
                except Unfinished:
                    await store.put_back(job, self.clock(), attempts=0, error=None)
                except BaseException:
                    await store.put_back(job, self.clock(), attempts=1, error="died")
                    raise
                else:
                    await store.complete(job)

    async def waiting(self) -> list[Job]:
        return [job for job in await self.journal.jobs.list_jobs(space=None) if job.kind == ENTRIES]

    async def save(self, path: str, text: str, *, wait: int = 0) -> None:
        """A person saves a file, the watcher tells, and the jobs that follow run."""
        self.vault.files[path] = text
        await self.files.look_at([path])
        await self.work()
        if wait:
            await self.work(wait)

    async def edit(self, path: str, old: str, new: str, *, wait: int = 0) -> None:
        text = self.read(path)
        assert old in text
        await self.save(path, text.replace(old, new), wait=wait)

    def read(self, path: str) -> str:
        return self.vault.files[path]

    async def texts(self) -> list[str]:
        return [known.entry.text for known in await self.entries.list_entries("default", ANN)]

    async def got(self, name: str) -> KnownEntry:
        known = await self.entries.get("default", name)
        assert known is not None
        return known

    async def is_sound(self) -> bool:
        assert await entry_problems(self.store, self.vault) == []
        return True


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with sqlite_journal(tmp_path / "journal.db") as journal:
        await journal.threads.add_turn("t1", NewTurn("user", "Hi.", START, "ann"), user_id="ann")
        yield House(journal, await new_vault(tmp_path / "vault"))


async def test_entries_are_written_to_the_file_of_their_day(house: House) -> None:
    await house.put(fact(2), fact(1))
    assert house.read(TODAY) == rendered(fact(1).entry, fact(2).entry)
    assert house.changed == [{ANN}]
    assert await house.is_sound()


async def test_the_steps_in_which_entries_come_leave_no_trace_in_the_file(house: House) -> None:
    for number in (5, 1, 4, 2, 3):
        await house.put(fact(number))
    await house.remove("fa-4")
    await house.put(replace(await house.got("fa-2"), entry=fact(2, "Ann likes two.").entry))
    assert house.read(TODAY) == rendered(
        fact(1).entry, fact(2, "Ann likes two.").entry, fact(3).entry, fact(5).entry
    )


async def test_what_is_searched_knows_at_once_that_a_file_went(house: House) -> None:
    await house.put(fact(1))
    await house.notes.seen(Note(TODAY, ANN, "digest", START))
    house.changed.clear()
    await house.remove("fa-1")
    assert await house.notes.known(ANN) == []
    assert {ANN} in house.changed


async def test_the_file_of_the_last_entry_goes_with_it(house: House) -> None:
    await house.put(fact(1), fact(2, when=START + DAY))
    await house.remove("fa-1")
    assert list(house.vault.files) == [TOMORROW]
    assert [file.path for file in await house.store.files()] == [TOMORROW]


async def test_an_entry_whose_day_changes_moves_to_the_file_of_that_day(house: House) -> None:
    await house.put(fact(1), fact(2))
    known = await house.got("fa-1")
    await house.put(replace(known, entry=replace(known.entry, when=START + DAY)))
    assert house.read(TODAY) == rendered(fact(2).entry)
    assert "^fa-1" in house.read(TOMORROW)
    assert await house.is_sound()


async def test_what_is_written_is_no_hand_edit(house: House) -> None:
    await house.put(fact(1))
    await house.files.look_at([TODAY])
    assert await house.waiting() == []
    assert list(house.reports.recent) == []


async def test_a_persons_words_are_theirs_and_their_file_is_left_alone_for_a_while(house: House) -> None:
    await house.put(fact(1), fact(2))
    await house.edit(TODAY, "> Ann likes number 1.", "> Ann loves number 1.")
    known = await house.got("fa-1")
    assert (known.entry.text, known.is_edited, known.cell, known.sources) == (
        "Ann loves number 1.",
        True,
        "c-1",
        (Source("t1", "t-1"),),
    )
    assert "edited" not in house.read(TODAY)
    await house.work(SETTLED)
    assert "- edited: yes\n\n> Ann loves number 1." in house.read(TODAY)
    assert not (await house.got("fa-2")).is_edited
    assert [past.actor for past in await house.entries.history("default", "fa-1")] == ["person"]
    assert await house.is_sound()


async def test_where_an_entry_came_from_is_not_for_a_person_to_take_out(house: House) -> None:
    await house.put(fact(1), fact(2))
    await house.save(
        TODAY, rendered(Entry("fa-1", "Ann loves it.", "Ann loves it.", START + 1), fact(2).entry)
    )
    known = await house.got("fa-1")
    assert (known.entry.text, known.is_edited, known.sources) == (
        "Ann loves it.",
        True,
        (Source("t1", "t-1"),),
    )
    await house.work(SETTLED)
    written = house.read(TODAY).partition("^fa-2")[0]
    for line in ("- from: [[threads/t1/0001#^t-1]]", "- by: facts, rules", "- cell: c-1"):
        assert line in written
    assert await house.is_sound()


async def test_a_pin_by_hand_is_no_edit_and_the_file_is_not_written(house: House) -> None:
    await house.put(fact(1))
    await house.edit(TODAY, "- cell: c-1\n", "- cell: c-1\n- pinned: yes\n", wait=SETTLED)
    known = await house.got("fa-1")
    assert (known.is_pinned, known.is_edited) == (True, False)
    assert await house.waiting() == []
    assert await house.is_sound()


async def test_a_persons_own_lines_stay_byte_for_byte_when_entries_come_and_go(house: House) -> None:
    await house.put(fact(1), fact(3))
    theirs = house.read(TODAY).replace("\n## ", "\nMy own line.  \n\n%% mine %%\n\n## ").replace("\n", "\r\n")
    await house.save(TODAY, theirs, wait=SETTLED)
    assert house.read(TODAY) == theirs
    await house.put(fact(2))
    await house.remove("fa-2")
    assert house.read(TODAY) == theirs
    assert house.reports.unreadable == 0
    assert await house.is_sound()


async def test_what_a_person_and_the_journal_changed_at_once_is_all_there(house: House) -> None:
    await house.put(fact(1), fact(2), fact(3))
    house.vault.files[TODAY] = house.read(TODAY).replace("> Ann likes number 1.", "> Ann loves number 1.")
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
    assert sorted(entry.text for entry in parse_entries(house.read(TODAY)).entries) == sorted(
        await house.texts()
    )
    assert list(house.vault.files) == [TODAY]
    assert await house.is_sound()


async def test_where_both_changed_one_entry_the_person_wins_and_the_other_is_history(house: House) -> None:
    await house.put(fact(1))
    house.vault.files[TODAY] = house.read(TODAY).replace("> Ann likes number 1.", "> By hand.")
    await house.put(replace(await house.got("fa-1"), entry=fact(1, "By extraction.").entry))
    await house.work(SETTLED)
    assert await house.texts() == ["By hand."]
    history = await house.entries.history("default", "fa-1")
    assert [past.entry and past.entry.text for past in history] == ["Ann likes number 1.", "By extraction."]
    assert "> By hand." in house.read(TODAY)
    assert await house.is_sound()


async def test_a_section_that_a_person_removed_is_gone_for_good(house: House) -> None:
    await house.put(fact(1), fact(2))
    await house.save(TODAY, rendered(fact(2).entry), wait=SETTLED)
    assert await house.texts() == [fact(2).entry.text]
    assert [grave.entry_id for grave in await house.entries.buried("default", ANN)] == ["fa-1"]
    assert house.read(TODAY) == rendered(fact(2).entry)
    assert await house.is_sound()


async def test_what_an_editor_takes_back_is_there_again(house: House) -> None:
    await house.put(fact(1), fact(2))
    whole = house.read(TODAY)
    await house.save(TODAY, rendered(fact(2).entry), wait=SETTLED)
    await house.save(TODAY, whole, wait=SETTLED)
    assert (await house.got("fa-1")).entry.text == fact(1).entry.text
    assert await house.entries.buried("default", ANN) == []
    assert await house.is_sound()


async def test_many_entries_gone_at_once_are_no_deletion_until_a_person_has_them_written_anew(
    house: House,
) -> None:
    await house.put(*map(fact, range(10)))
    await house.save(TODAY, rendered(*(fact(number).entry for number in range(6))), wait=SETTLED)
    await house.work(SETTLED)
    assert len(await house.texts()) == 10
    assert "4 of 10 entries vanished from a file" in (house.files.problem() or "")
    await house.files.write_anew([])
    await house.work()
    await house.work(SETTLED)
    assert house.files.problem() is None
    assert house.read(TODAY) == rendered(*(fact(number).entry for number in range(10)))
    assert await house.is_sound()


async def test_many_entries_that_come_back_are_no_loss_any_more(house: House) -> None:
    await house.put(*map(fact, range(5)))
    whole = house.read(TODAY)
    await house.save(TODAY, rendered(fact(0).entry))
    assert house.files.problem() is not None
    await house.save(TODAY, whole + "\nmine\n")
    assert house.files.problem() is None
    assert len(await house.texts()) == 5


async def test_an_emptied_file_changes_nothing_and_is_written_with_the_next_entry(house: House) -> None:
    await house.put(fact(1))
    await house.save(TODAY, "", wait=SETTLED)
    assert await house.texts() == [fact(1).entry.text]
    await house.put(fact(2))
    assert house.read(TODAY) == rendered(fact(1).entry, fact(2).entry)


async def test_a_damaged_section_is_reported_and_stays_while_its_neighbours_are_taken_in(
    house: House,
) -> None:
    await house.put(fact(1), fact(2))
    broken = house.read(TODAY).replace("> Ann likes number 1.", "Ann likes number 1.")
    await house.save(TODAY, broken.replace("> Ann likes number 2.", "> Ann loves it."), wait=SETTLED)
    assert (await house.got("fa-1")).entry == fact(1).entry
    assert (await house.got("fa-2")).entry.text == "Ann loves it."
    assert house.reports.unreadable == 1
    await house.put(fact(3))
    assert "\nAnn likes number 1.\n" in house.read(TODAY)
    assert "> Ann likes number 3." in house.read(TODAY)


async def test_a_damaged_section_that_has_to_be_written_over_is_kept_beside(house: House) -> None:
    await house.put(fact(1))
    await house.edit(TODAY, "> Ann likes number 1.", "Ann likes number 1.", wait=SETTLED)
    broken = house.read(TODAY)
    await house.put(replace(await house.got("fa-1"), entry=fact(1, "Ann likes one.").entry))
    beside = [path for path in list(house.vault.files) if ".conflict-" in path]
    assert [house.read(path) for path in beside] == [broken]
    assert "> Ann likes one." in house.read(TODAY)


async def test_a_damaged_section_that_is_mended_is_unchanged(house: House) -> None:
    await house.put(fact(1))
    whole = house.read(TODAY)
    await house.edit(TODAY, "> Ann likes number 1.", "Ann likes number 1.", wait=SETTLED)
    await house.save(TODAY, whole, wait=SETTLED)
    assert (await house.got("fa-1")).revision == 1


async def test_a_section_without_an_id_is_an_entry_of_the_persons(house: House) -> None:
    await house.put(fact(1))
    theirs = house.read(TODAY) + "\n## Ann hates coriander\n\n> She really does.\n"
    await house.save(TODAY, theirs)
    assert house.read(TODAY) == theirs
    (new,) = [
        known
        for known in await house.entries.list_entries("default", ANN)
        if known.entry.title == "Ann hates coriander"
    ]
    assert (new.entry.text, new.is_edited, new.path) == ("She really does.", True, TODAY)
    await house.work(SETTLED)
    assert f"## Ann hates coriander ^{new.entry_id}\n" in house.read(TODAY)
    assert len(await house.texts()) == 2
    assert await house.is_sound()


async def test_a_section_without_an_id_that_is_saved_twice_is_one_entry(house: House) -> None:
    section = "---\nrecollect: 1\nkind: facts\nowner: users/ann\n---\n\n## Ann hates coriander\n\n> She {}.\n"
    await house.save(f"{ANN}/facts/mine.md", section.format("does"))
    await house.save(f"{ANN}/facts/mine.md", section.format("really does"), wait=SETTLED)
    assert await house.texts() == ["She really does."]
    assert await house.is_sound()


async def test_a_section_without_a_time_is_not_kept_beside_when_it_gets_its_id(house: House) -> None:
    file = f"{ANN}/facts/mine.md"
    header = "---\nrecollect: 1\nkind: facts\nowner: users/ann\n---\n\n"
    await house.save(file, f"{header}## Ann hates coriander\n\n> She does.\n", wait=SETTLED)
    assert "## Ann hates coriander ^" in house.read(file)
    assert [path for path in list(house.vault.files) if ".conflict-" in path] == []


async def test_a_section_with_an_unknown_id_keeps_it(house: House) -> None:
    await house.save(TODAY, rendered(fact(7).entry), wait=SETTLED)
    known = await house.got("fa-7")
    assert (known.is_edited, known.sources, known.cell, known.strategy) == (
        True,
        (Source("t1", "t-1"),),
        "c-1",
        "facts",
    )
    assert "- edited: yes" in house.read(TODAY)


@pytest.mark.parametrize("first", ["cut", "paste"])
async def test_an_entry_that_a_person_moves_to_another_file_is_the_same_entry(
    house: House, first: str
) -> None:
    await house.put(fact(1), fact(2), fact(3, when=START + DAY))
    cut, pasted = rendered(fact(2).entry), rendered(fact(1).entry, fact(3, when=START + DAY).entry)
    steps = [(TODAY, cut), (TOMORROW, pasted)]
    for path, text in steps if first == "cut" else reversed(steps):
        await house.save(path, text)
    await house.work(SETTLED)
    await house.work(SETTLED)
    known = await house.got("fa-1")
    assert (known.path, known.is_edited) == (TOMORROW, False)
    assert await house.entries.buried("default", ANN) == []
    assert (house.read(TODAY), house.read(TOMORROW)) == (cut, pasted)
    assert await house.is_sound()


async def test_a_copy_of_an_entry_is_reported_and_the_first_one_counts(house: House) -> None:
    await house.put(fact(1), fact(3, when=START + DAY))
    await house.save(
        TOMORROW, rendered(fact(1, "Copied.").entry, fact(3, when=START + DAY).entry), wait=SETTLED
    )
    assert (await house.got("fa-1")).entry == fact(1).entry
    assert house.reports.unreadable == 1


async def test_the_entries_of_a_renamed_file_are_the_same_entries(house: House) -> None:
    await house.put(fact(1), fact(2))
    renamed = f"{ANN}/facts/pets.md"
    house.vault.files[renamed] = house.read(TODAY)
    del house.vault.files[TODAY]
    await house.files.look_at([renamed])
    await house.files.let_go([TODAY])
    await house.work()
    await house.work(SETTLED)
    assert [(await house.got(name)).path for name in ("fa-1", "fa-2")] == [renamed, renamed]
    assert [file.path for file in await house.store.files()] == [renamed]
    assert await house.entries.buried("default", ANN) == []
    assert list(house.vault.files) == [renamed]
    assert await house.is_sound()


async def test_the_entries_of_a_file_that_a_person_removed_are_gone(house: House) -> None:
    await house.put(fact(1), fact(2, when=START + DAY))
    del house.vault.files[TODAY]
    await house.files.let_go([TODAY])
    await house.work(SETTLED)
    assert await house.texts() == [fact(2).entry.text]
    assert [file.path for file in await house.store.files()] == [TOMORROW]
    assert await house.is_sound()


async def test_an_owners_folder_that_is_renamed_deletes_nothing(house: House) -> None:
    await house.put(fact(1), fact(2))
    before, renamed = house.read(TODAY), TODAY.replace(ANN, "default/users/anna")
    house.vault.files[renamed] = before
    del house.vault.files[TODAY]
    await house.files.look_at([renamed])
    await house.files.let_go([TODAY])
    await house.work(SETTLED)
    await house.work(SETTLED)
    assert [(await house.got(name)).is_edited for name in ("fa-1", "fa-2")] == [False, False]
    assert await house.entries.buried("default", ANN) == []
    assert (house.read(TODAY), house.read(renamed)) == (before, before)
    assert f"{TODAY}: is written anew: {renamed} is in another's folder" in house.reports.recent


async def test_a_file_that_comes_back_in_time_was_never_removed(house: House) -> None:
    await house.put(fact(1))
    text = house.read(TODAY)
    del house.vault.files[TODAY]
    await house.files.let_go([TODAY])
    house.vault.files[TODAY] = text
    await house.work(SETTLED)
    assert await house.texts() == [fact(1).entry.text]


async def test_a_file_that_is_lost_can_be_written_anew(house: House) -> None:
    await house.put(fact(1))
    text = house.read(TODAY)
    del house.vault.files[TODAY]
    await house.files.write_anew([TODAY])
    await house.work()
    assert house.read(TODAY) == text


async def test_a_file_cannot_speak_for_another_owner_or_kind(house: House) -> None:
    await house.put(fact(1))
    stolen = house.read(TODAY)
    await house.save("default/users/bob/facts/2026-05-08.md", stolen)
    await house.save(f"{ANN}/episodes/2026-05-08.md", stolen)
    await house.save("default/users/bob/facts/bare.md", stolen.split("---\n")[2])
    assert await house.entries.list_entries("default", "default/users/bob") == []
    assert (await house.got("fa-1")).path == TODAY
    assert house.reports.unreadable == 3


async def test_a_deleted_entry_does_not_come_back_with_a_save_that_still_holds_it(house: House) -> None:
    await house.put(fact(1), fact(2))
    text = house.read(TODAY)
    await house.entries.apply(EntryChange("default", ANN, "person", "x", remove=("fa-1",), bury=True))
    await house.save(TODAY, text + "\nmine\n", wait=SETTLED)
    assert await house.texts() == [fact(2).entry.text]
    assert house.read(TODAY) == rendered(fact(2).entry) + "\nmine\n"


@pytest.mark.parametrize("step", ["announce", "write", "record"])
async def test_a_death_at_any_step_of_writing_leaves_the_same_bytes(
    house: House, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put(fact(1), fact(2))
    await house.put(fact(3), work=False)
    await house.entries.apply(EntryChange("default", ANN, "extraction", "x", remove=("fa-1",)))
    target = house.vault if step == "write" else house.store
    name = "write_unless_foreign" if step == "write" else step

    async def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(target, name, die)
        with suppress(Died):
            await house.work()
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

    async def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(house.store, "record", die)
        with suppress(Died):
            await house.work()
    house.vault.files[TODAY] = house.read(TODAY).replace("> Ann likes number 2.", "> Ann loves two.")
    await house.work(60_000)
    await house.work(SETTLED)
    assert sorted(await house.texts()) == ["Ann likes number 1.", "Ann loves two."]
    assert [past.actor for past in await house.entries.history("default", "fa-1")] == []
    assert await house.is_sound()


async def test_the_vault_alone_brings_the_entries_back(house: House) -> None:
    await house.put(fact(1), fact(2), fact(3, when=START + DAY))
    await house.edit(TODAY, "> Ann likes number 1.", "> Ann loves number 1.", wait=SETTLED)
    before = await house.entries.list_entries("default", ANN)
    await house.entries.forget_owner("default", ANN)
    assert await house.texts() == []
    result = await import_entries(house.vault, house.store)
    assert (result.entries, result.files, result.problems) == (3, 2, [])
    back = await house.entries.list_entries("default", ANN)
    assert [replace(known, revision=0) for known in back] == [replace(known, revision=0) for known in before]
    assert [known.is_edited for known in back] == [known.is_edited for known in before]
    assert await house.waiting() == []
    assert await house.is_sound()


async def test_an_import_says_what_it_could_not_bring_back(house: House) -> None:
    house.vault.files[TODAY] = rendered(fact(1).entry, fact(2).entry).replace("2026-05-08T", "in May ", 1)
    house.vault.files[TOMORROW] = rendered(fact(2).entry, fact(3).entry)
    house.vault.files[f"{ANN}/episodes/2026-05-08.md"] = rendered(fact(4).entry)
    result = await import_entries(house.vault, house.store)
    assert result.entries == 2
    assert [problem.split(":")[0] for problem in result.problems] == [
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
        f"{ANN}/facts/new.md is not taken in",
    ]


async def test_everything_can_be_settled_at_once(house: House) -> None:
    await house.put(fact(1), work=False)
    house.vault.files[TOMORROW] = rendered(fact(2, when=START + DAY).entry)
    await house.files.settle_all()
    assert "^fa-1" in house.read(TODAY)
    assert "- edited: yes" in house.read(TOMORROW)
    assert await house.is_sound()
