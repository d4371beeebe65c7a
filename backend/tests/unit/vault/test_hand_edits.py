"""What people do to transcripts is taken in, or kept beside."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.markdown.transcript import parse_part
from recollect.domain.model import Append, NewTurn, ThreadRef
from recollect.domain.vault_file import VaultFile
from recollect.failpoints import FailPoints
from recollect.service.rebuild import rebuild
from recollect.service.vault.transcripts import Transcriber
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault
from tests.unit.vault_house import NOTE, House, part_of


@pytest.fixture
async def house(vault: PersonsVault, tmp_path: Path) -> AsyncIterator[House]:
    async with Journal(tmp_path / "journal.db", transcript_delay_ms=0) as journal:
        yield House(journal, vault)


async def test_an_edit_that_the_watcher_saw_is_a_revision(house: House) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await house.see(part_of("t1"))
    assert [(turn.content, turn.edited) for turn in await house.turns()] == [
        ("t1 says 0", False),
        ("Porto", True),
        ("t1 says 2", False),
    ]
    assert (house.reports.revisions, house.revised, house.conflicts) == (
        1,
        [ThreadRef("default", "me", "t1")],
        [],
    )
    assert "- edited: yes\n\n> Porto" in house.vault.files[part_of("t1")]
    assert await house.is_sound()


async def test_a_version_of_ours_that_is_replaced_while_it_is_looked_at_is_no_old_copy(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.talk("t1")
    look = house.vault.look

    async def between_two_messages(path: str, limit: int | None = None) -> VaultFile | None:
        monkeypatch.setattr(house.vault, "look", look)
        await _say(house, "one")
        found = await look(path, limit)
        await _say(house, "two")
        return found

    monkeypatch.setattr(house.vault, "look", between_two_messages)
    await house.see(part_of("t1"))
    assert not house.reports.goes_back()  # Else what a person removes next would be restored.
    assert await house.is_sound()


async def _say(house: House, words: str) -> None:
    await house.journal.threads.append(Append("default", "t1", [NewTurn("user", words, START, "ann")]))
    await house.work()


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


async def test_our_own_writes_queue_nothing(house: House) -> None:
    await house.talk("t1", "t2")
    await house.edits.look_at([part_of("t1"), part_of("t2")])
    await house.edits.sweep()
    assert await house.looks_asked_for() == []


async def test_title_and_tags_are_applied(house: House) -> None:
    await house.talk("t1", "t2")
    house.edit(part_of("t1"), "part: 1\n", "part: 1\ntitle: Porto\ntags: [family, trip]\n")
    await house.see(part_of("t1"))
    thread = await house.journal.threads.get_thread("t1")
    assert thread is not None
    assert (thread.title, thread.tags, house.conflicts) == ("Porto", ("family", "trip"), [])
    assert await house.is_sound()


async def test_an_older_copy_that_comes_back_is_no_edit_and_the_current_version_is_restored(
    house: House,
) -> None:
    await house.talk("t1", "t2")
    saved = house.vault.files[part_of("t1")]
    house.edit(part_of("t1"), "t1 says 1", "Porto")
    await house.see(part_of("t1"))
    house.vault.files[part_of("t1")] = saved
    await house.see(part_of("t1"))
    assert ((await house.turns())[1].content, house.conflicts) == ("Porto", [])
    assert "Porto" in house.vault.files[part_of("t1")]
    assert list(house.reports.old_copies) == [part_of("t1")]
    assert await house.is_sound()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\nmy own remark\n",
        lambda text: text.removeprefix("---\n"),
        lambda text: text.replace("part: 1\n", "part: 1\ncssclasses: [x]\n"),
        lambda text: text.replace("aliases: [", "aliases: [x, "),
        lambda text: text.replace("%% id: ", "%% id: x", 1),
        lambda text: text[: text.rindex("## user")],
        lambda text: "nothing of it left",
    ],
    ids=["stray text", "front matter", "a property", "an alias", "message id", "a turn gone", "all gone"],
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
    await house.journal.delete("t1")
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
    house.vault.age()
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
    async with Journal(tmp_path / "again.db") as again:
        await rebuild(house.vault, again.builder, FailPoints())
        assert await again.history("t1") == await house.turns()
        await Transcriber(again.transcripts, house.vault, FailPoints()).transcribe(
            ThreadRef("default", "me", "t1")
        )
    assert house.conflicts == [theirs]
