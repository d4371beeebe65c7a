"""What a person writes in files of entries is taken in, and what they did not mean to change stays."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.domain.entries.entry import Source
from recollect.domain.model import Entry
from tests.entry_house import ANN, DAY, SETTLED, TODAY, TOMORROW, House, entry_house, fact, rendered
from tests.fakes import START


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with entry_house(tmp_path) as house:
        yield house


async def test_a_persons_words_are_theirs_and_their_file_is_left_alone_for_a_while(house: House) -> None:
    await house.put(fact(1), fact(2))
    await house.edit(TODAY, "## Ann likes number 1.", "## Ann loves number 1.")
    known = await house.got("fa-1")
    assert (known.entry.text, known.is_edited, known.cell, known.sources) == (
        "Ann loves number 1.",
        True,
        "c-1",
        (Source("ann", "t1", "t-1"),),
    )
    assert "edited" not in house.read(TODAY)
    await house.work(SETTLED)
    assert re.search(
        r"## Ann loves number 1\. \^fa-1\n.*\n.*\n%% .* · edited: yes · corrected: 20\S+Z · cell: c-1 %%\n\n## ",
        house.read(TODAY),
    )
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
        (Source("ann", "t1", "t-1"),),
    )
    await house.work(SETTLED)
    written = house.read(TODAY).partition("^fa-2")[0]
    for line in ("- from: [[threads/t1/0001#^t-1]]", "%% by: facts, rules · ", " · cell: c-1 %%"):
        assert line in written
    assert await house.is_sound()


async def test_a_pin_by_hand_is_no_edit_and_the_file_is_not_written(house: House) -> None:
    await house.put(fact(1))
    await house.edit(TODAY, "\n%% by: ", "\n- pinned: yes\n%% by: ", wait=SETTLED)
    known = await house.got("fa-1")
    assert (known.is_pinned, known.is_edited) == (True, False)
    assert await house.waiting() == []
    assert await house.is_sound()


async def test_a_sentence_that_a_person_writes_as_a_heading_is_a_memory_of_theirs(house: House) -> None:
    await house.put(fact(1))
    await house.save(
        TODAY, f"{house.read(TODAY)}\n## Mira is a vet.\n\n## A section\nof my own\n", wait=SETTLED
    )
    assert sorted(await house.texts()) == sorted([fact(1).entry.text, "Mira is a vet."])
    (theirs,) = [
        each
        for each in await house.entries.list_entries("default", None)
        if each.entry.text == "Mira is a vet."
    ]
    assert theirs.is_edited
    assert f"\n## Mira is a vet. ^{theirs.entry_id}\n- when: " in house.read(TODAY)
    assert house.read(TODAY).endswith("\n\n## A section\nof my own\n")
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


async def test_a_section_that_a_person_removed_is_gone_until_they_bring_it_back(house: House) -> None:
    await house.put(fact(1), fact(2))
    whole = house.read(TODAY)
    await house.save(TODAY, rendered(fact(2).entry), wait=SETTLED)
    assert await house.texts() == [fact(2).entry.text]
    assert [deletion.entry_id for deletion in await house.entries.deletions("default", ANN)] == ["fa-1"]
    assert house.read(TODAY) == rendered(fact(2).entry)
    assert await house.is_sound()
    await house.save(TODAY, whole, wait=SETTLED)
    assert house.read(TODAY) == rendered(fact(2).entry)  # The file as it once was is an old copy.
    await house.save(TODAY, f"{whole}\nmine\n", wait=SETTLED)
    assert (await house.got("fa-1")).entry.text == fact(1).entry.text
    assert await house.entries.deletions("default", ANN) == []
    assert await house.is_sound()


@pytest.mark.parametrize("mended_by", ["writing it again", "the person"])
async def test_many_entries_gone_at_once_are_no_deletion(house: House, mended_by: str) -> None:
    await house.put(*map(fact, range(10)))
    whole = house.read(TODAY)
    await house.save(TODAY, rendered(*(fact(number).entry for number in range(6))), wait=SETTLED)
    await house.work(SETTLED)
    assert len(await house.texts()) == 10
    assert "4 of 10 entries vanished from a file" in (house.files.problem() or "")
    if mended_by == "the person":
        whole += "\nmine\n"
        await house.save(TODAY, whole)
    else:
        await house.files.write_again([])
        await house.work()
        await house.work(SETTLED)
    assert house.files.problem() is None
    assert (house.read(TODAY), len(await house.texts())) == (whole, 10)
    assert await house.is_sound()


async def test_an_emptied_file_changes_nothing_and_is_written_with_the_next_entry(house: House) -> None:
    await house.put(fact(1))
    await house.save(TODAY, "", wait=SETTLED)
    assert await house.texts() == [fact(1).entry.text]
    await house.files.let_go([TODAY])
    assert await house.waiting() == []
    await house.put(fact(2))
    assert house.read(TODAY) == rendered(fact(1).entry, fact(2).entry)


async def test_a_damaged_section_is_reported_and_stays_while_its_neighbours_are_applied(
    house: House,
) -> None:
    await house.put(fact(1), fact(2))
    broken = house.read(TODAY).replace("- when: ", "- when: around ", 1)
    await house.save(TODAY, broken.replace("## Ann likes number 2.", "## Ann loves it."), wait=SETTLED)
    assert (await house.got("fa-1")).entry == fact(1).entry
    assert (await house.got("fa-2")).entry.text == "Ann loves it."
    assert house.reports.unreadable == 1
    await house.put(fact(3))
    assert "\n- when: around " in house.read(TODAY)
    assert "## Ann likes number 3." in house.read(TODAY)


async def test_a_damaged_section_that_has_to_be_written_over_is_kept_beside(house: House) -> None:
    await house.put(fact(1))
    whole = house.read(TODAY)
    for _ in range(2):
        await house.save(TODAY, whole, wait=SETTLED)
        await house.edit(TODAY, "- when: ", "- when: around ", wait=SETTLED)
    assert (await house.got("fa-1")).revision == 1  # Mended, it was unchanged.
    broken = house.read(TODAY)
    await house.put(replace(await house.got("fa-1"), entry=fact(1, "Ann likes one.").entry))
    beside = [path for path in list(house.vault.files) if ".conflict-" in path]
    assert [house.read(path) for path in beside] == [broken]
    assert "## Ann likes one." in house.read(TODAY)


async def test_a_quote_below_a_sentence_is_its_text_and_without_it_the_heading_is(house: House) -> None:
    await house.put(fact(1), fact(2))
    await house.edit(
        TODAY, "cell: c-1 %%\n\n", "cell: c-1 %%\n\n> Ann likes one.\n> And two.\n\n", wait=SETTLED
    )
    known = await house.got("fa-1")
    assert (known.entry.title, known.entry.text) == ("Ann likes one.", "Ann likes one.\nAnd two.")
    assert "\n> Ann likes one.\n> And two.\n" in house.read(TODAY)
    await house.edit(TODAY, "> Ann likes one.\n> And two.\n", "", wait=SETTLED)
    assert (await house.got("fa-1")).entry.text == "Ann likes one."
    assert ">" not in house.read(TODAY)
    assert (await house.got("fa-2")).revision == 1
    assert await house.is_sound()


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


async def test_a_section_without_an_id_or_a_time_that_is_saved_twice_is_one_entry(house: House) -> None:
    file = f"{ANN}/facts/mine.md"
    section = "---\nrecollect: 1\nkind: facts\nowner: users/ann\n---\n\n## Ann hates coriander\n\n> She {}.\n"
    await house.save(file, section.format("does"))
    await house.save(file, section.format("really does"), wait=SETTLED)
    assert await house.texts() == ["She really does."]
    assert "## Ann hates coriander ^" in house.read(file)
    assert list(house.vault.files) == [file]
    assert await house.is_sound()


async def test_a_section_with_an_unknown_id_keeps_it(house: House) -> None:
    await house.save(TODAY, rendered(fact(7).entry), wait=SETTLED)
    known = await house.got("fa-7")
    assert (known.is_edited, known.sources, known.cell, known.strategy) == (
        True,
        (Source("ann", "t1", "t-1"),),
        "c-1",
        "facts",
    )
    assert " · edited: yes · " in house.read(TODAY)


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
    assert await house.entries.deletions("default", ANN) == []
    assert (house.read(TODAY), house.read(TOMORROW)) == (cut, pasted)
    assert await house.is_sound()


async def test_a_copy_of_an_entry_is_reported_and_the_first_one_counts(house: House) -> None:
    await house.put(fact(1), fact(3, when=START + DAY))
    await house.save(
        TOMORROW, rendered(fact(1, "Copied.").entry, fact(3, when=START + DAY).entry), wait=SETTLED
    )
    assert (await house.got("fa-1")).entry == fact(1).entry
    assert house.reports.unreadable == 1


@pytest.mark.parametrize("renamed", [f"{ANN}/facts/pets.md", TODAY.replace(ANN, "default/users/anna")])
async def test_the_entries_of_a_renamed_file_or_owners_folder_are_the_same_entries(
    house: House, renamed: str
) -> None:
    await house.put(fact(1), fact(2))
    before = house.vault.files[renamed] = house.vault.files.pop(TODAY)
    await house.files.look_at([renamed])
    await house.files.let_go([TODAY])
    for wait in (0, SETTLED, SETTLED):
        await house.work(wait)
    is_anns = renamed.startswith(f"{ANN}/")
    place = renamed if is_anns else TODAY
    known = [await house.got(name) for name in ("fa-1", "fa-2")]
    assert [(each.path, each.is_edited) for each in known] == [(place, False)] * 2
    assert [file.path for file in await house.store.files()] == [place]
    assert await house.entries.deletions("default", ANN) == []
    assert dict(house.vault.files) == dict.fromkeys({renamed, place}, before)
    assert is_anns or f"{TODAY}: is restored: {renamed} is in another's folder" in house.reports.recent


async def test_the_entries_of_a_file_that_a_person_removed_are_gone(house: House) -> None:
    await house.put(fact(1), fact(2, when=START + DAY))
    del house.vault.files[TODAY]
    await house.files.let_go([TODAY])
    await house.work(SETTLED)
    assert await house.texts() == [fact(2).entry.text]
    assert [file.path for file in await house.store.files()] == [TOMORROW]
    assert await house.is_sound()


@pytest.mark.parametrize("comes_back", ["by itself", "written again"])
async def test_a_file_that_comes_back_in_time_was_never_removed(house: House, comes_back: str) -> None:
    await house.put(fact(1))
    text = house.vault.files.pop(TODAY)
    if comes_back == "by itself":
        await house.files.let_go([TODAY])
        house.vault.files[TODAY] = text
    else:
        await house.files.write_again([TODAY])
    await house.work(SETTLED)
    assert (house.read(TODAY), await house.texts()) == (text, [fact(1).entry.text])


async def test_a_file_cannot_speak_for_another_owner_or_kind(house: House) -> None:
    await house.put(fact(1))
    stolen = house.read(TODAY)
    await house.save("default/users/bob/facts/2026-05-08.md", stolen)
    await house.save(f"{ANN}/episodes/2026-05-08.md", stolen)
    await house.save("default/users/bob/facts/bare.md", stolen.split("---\n")[2])
    assert await house.entries.list_entries("default", "default/users/bob") == []
    assert (await house.got("fa-1")).path == TODAY
    assert house.reports.unreadable == 3
