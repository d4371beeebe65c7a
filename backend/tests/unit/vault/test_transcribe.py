"""Transcripts follow the journal: the same bytes however often they are written, and never over a person's words."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.boundary import memcell_id
from recollect.domain.entries.entry import EPISODES, FACTS, EntryChange, KnownEntry, Source
from recollect.domain.job import TRANSCRIBE, Job
from recollect.domain.markdown.transcript import parse_part
from recollect.domain.model import Append, Entry, Memcell, NewTurn, Thread, ThreadRef
from recollect.domain.vault_file import PlacedTurn, VaultFile
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.service.vault.transcripts import PART_CHARS, Transcriber
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault, new_vault
from tests.unit.vault_house import purging

JOB = Job(1, TRANSCRIBE, "lane", "default", "me", "t1")
ME = "default/users/me"
FOLDER = f"{ME}/threads/t1"
FIRST = f"{FOLDER}/0001.md"


class Killed(BaseException):
    """Ends a handler where it stands, as a kill does: nothing after it runs."""


async def add(journal: Journal, *texts: str) -> None:
    turns = [NewTurn("user", text, START, "ann") for text in texts]
    await journal.threads.append(Append("default", "t1", turns))


async def close_all(journal: Journal) -> Memcell:
    turns = await journal.cells.look(ThreadRef("default", "me", "t1"), 1000)
    cell_id = memcell_id(ThreadRef("default", "me", "t1"), [turn.message_id for turn in turns])
    cell = Memcell(cell_id, tuple(turn.turn_id for turn in turns), "flush")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell], "rules")
    return cell


async def run(journal: Journal, vault: PersonsVault, store: SqlTranscriptStore | None = None) -> None:
    await Transcriber(store or journal.transcripts, vault, FailPoints()).handle(JOB)


def texts_in(vault: PersonsVault) -> list[str]:
    """What the parts of the thread say, in order."""
    parts = [parse_part(vault.files[path]) for path in sorted(vault.files) if path.startswith(FOLDER)]
    assert all(part.problems == () for part in parts)
    return [turn.content for part in parts for turn in part.turns]


async def test_a_transcript_says_what_the_journal_says(journal: Journal, vault: PersonsVault) -> None:
    await add(journal, "a", "b\r\n---\n## user", "c")
    await run(journal, vault)
    assert list(parse_part(vault.files[FIRST]).turns) == await journal.history("t1")


async def test_a_thread_without_turns_has_a_transcript_too(journal: Journal, vault: PersonsVault) -> None:
    await journal.threads.create_thread(Thread("default", "t1", "me", START, START, title="Marta"))
    await run(journal, vault)
    thread = parse_part(vault.files[FIRST]).thread
    assert thread is not None
    assert thread.title == "Marta"


@pytest.mark.parametrize("is_there", [False, True], ids=["gone", "incognito"])
async def test_a_thread_that_is_gone_or_incognito_has_none(
    journal: Journal, vault: PersonsVault, is_there: bool
) -> None:
    if is_there:
        await journal.threads.create_thread(Thread("default", "t1", "me", START, START, incognito=True))
        await add(journal, "psst")
    await run(journal, vault)
    assert vault.files == {}


async def test_a_memcell_closed_later_reaches_the_part_of_its_last_turn(
    journal: Journal, vault: PersonsVault
) -> None:
    await add(journal, "a", "b")
    await run(journal, vault)
    cell = await close_all(journal)
    await run(journal, vault)
    assert parse_part(vault.files[FIRST]).memcells == (cell,)


def made_of(cell: Memcell, kind: str, entry_id: str, when: int = START) -> KnownEntry:
    entry = Entry(entry_id, "Rex", "Rex", when, ("threads/t1/0001#^t-1",), "facts, rules")
    return KnownEntry("default", ME, kind, entry, (Source("me", "t1", "t-1"),), cell.memcell_id, "facts")


async def change(journal: Journal, *put: KnownEntry, remove: Sequence[str] = ()) -> None:
    known = [replace(each, revision=await revision_of(journal, each.entry_id)) for each in put]
    what = EntryChange("default", ME, "extraction", "read", tuple(known), remove=tuple(remove))
    await journal.entries.apply(what)


async def revision_of(journal: Journal, entry_id: str) -> int:
    known = await journal.entries.get("default", entry_id)
    return 0 if known is None else known.revision


def links_in(vault: PersonsVault) -> list[str]:
    return [link for cell in parse_part(vault.files[FIRST]).memcells for link in cell.links]


async def test_a_transcript_links_to_the_memories_made_of_it_as_long_as_they_are_there(
    journal: Journal, vault: PersonsVault
) -> None:
    await add(journal, "a", "b")
    cell = await close_all(journal)
    await run(journal, vault)
    await journal.execute("DELETE FROM jobs")
    fact, episode = made_of(cell, FACTS, "fa-1"), made_of(cell, EPISODES, "ep-1")
    await change(journal, fact, episode)
    assert TRANSCRIBE in [job.kind for job in await journal.waiting()]
    await run(journal, vault)
    assert links_in(vault) == ["episodes/2026-05-08#^ep-1", "facts/2026-05-08#^fa-1"]
    await journal.execute("DELETE FROM jobs")
    await change(journal, replace(fact, entry=replace(fact.entry, text="Rex barks.")))
    assert TRANSCRIBE not in [job.kind for job in await journal.waiting()], "the link is the same"
    await change(journal, made_of(cell, FACTS, "fa-1", START + 86_400_000))
    await run(journal, vault)
    assert links_in(vault) == ["episodes/2026-05-08#^ep-1", "facts/2026-05-09#^fa-1"]
    await change(journal, remove=["ep-1"])
    await run(journal, vault)
    assert links_in(vault) == ["facts/2026-05-09#^fa-1"]


async def test_links_are_few_and_only_those_that_a_link_can_hold(
    journal: Journal, vault: PersonsVault
) -> None:
    await add(journal, "a")
    cell = await close_all(journal)
    odd = replace(made_of(cell, EPISODES, "ep-0"), path=f"{ME}/episodes/my day.md")
    await change(journal, odd, *(made_of(cell, FACTS, f"fa-{number:02}") for number in range(50)))
    await run(journal, vault)
    assert links_in(vault) == [f"facts/2026-05-08#^fa-{number:02}" for number in range(20)]


async def test_a_memory_that_goes_while_the_transcript_is_written_loses_its_link_next_time(
    journal: Journal, vault: PersonsVault
) -> None:
    class Late(SqlTranscriptStore):
        async def announce(self, *written: Any) -> None:
            await super().announce(*written)
            await change(journal, remove=["fa-1"])

    await add(journal, "a")
    cell = await close_all(journal)
    await change(journal, made_of(cell, FACTS, "fa-1"))
    await run(journal, vault, Late(journal.database, clock=journal.clock))
    assert links_in(vault) == ["facts/2026-05-08#^fa-1"]
    await run(journal, vault)
    assert links_in(vault) == []


async def test_running_twice_leaves_the_same_bytes(journal: Journal, vault: PersonsVault) -> None:
    await add(journal, *("x" * 9000 for _ in range(20)))
    await close_all(journal)
    await run(journal, vault)
    once = dict(vault.files)
    await run(journal, vault)
    assert vault.files == once


async def test_turn_by_turn_leaves_the_same_bytes_as_all_at_once(
    journal: Journal, vault: PersonsVault, tmp_path: Path
) -> None:
    texts = [f"{number} " + "x" * 5000 for number in range(40)]
    for text in texts:
        await add(journal, text)
        await run(journal, vault)
    at_once = await new_vault(tmp_path / "at once")
    async with Journal(tmp_path / "other.db") as other:
        await add(other, *texts)
        await run(other, at_once)
    assert vault.files == at_once.files


# Parts


async def test_parts_are_split_by_size_and_lose_nothing(journal: Journal, vault: PersonsVault) -> None:
    texts = [f"{number} " + "x" * 5000 for number in range(60)]
    await add(journal, *texts)
    await run(journal, vault)
    assert sorted(vault.files) == [f"{FOLDER}/{part:04d}.md" for part in range(1, len(vault.files) + 1)]
    assert len(vault.files) >= 5
    assert max(len(text) for text in vault.files.values()) < 1.1 * PART_CHARS
    assert texts_in(vault) == texts


async def test_a_turn_over_the_limit_has_a_part_of_its_own(journal: Journal, vault: PersonsVault) -> None:
    await add(journal, "before", "x" * (PART_CHARS + 1), "after")
    await run(journal, vault)
    assert texts_in(vault) == ["before", "x" * (PART_CHARS + 1), "after"]
    assert len(vault.files) == 3


async def test_more_turns_than_are_read_at_once_are_all_written(
    journal: Journal, vault: PersonsVault
) -> None:
    texts = [str(number) for number in range(1234)]
    await add(journal, *texts)
    await run(journal, vault)
    assert texts_in(vault) == texts


class Counting(SqlTranscriptStore):
    """Counts the turns it hands out."""

    turns_read = 0

    async def turns(
        self, thread: ThreadRef, first: int, last: int | None = None, limit: int = 2**62
    ) -> list[PlacedTurn]:
        found = await super().turns(thread, first, last, limit)
        self.turns_read += len(found)
        return found


async def test_a_message_in_a_long_thread_costs_no_more_than_in_a_short_one(
    journal: Journal, vault: PersonsVault
) -> None:
    text, store = "x" * (PART_CHARS // 30), Counting(journal.database, clock=journal.clock)

    async def cost_of_a_part() -> tuple[int, int]:
        """Turns read and files written while as many messages come one by one as a part holds."""
        read, written = store.turns_read, 0
        for _ in range(30):
            before = await vault.stamps()
            await add(journal, text)
            await run(journal, vault, store)
            written += len((await vault.stamps()).items() - before.items())
        return store.turns_read - read, written

    short = await cost_of_a_part()
    await add(journal, *(text for _ in range(3000)))
    await run(journal, vault)
    long = await cost_of_a_part()
    assert long[0] <= 1.2 * short[0]
    assert long[1] <= 1.2 * short[1]


async def test_a_change_of_the_title_of_a_long_thread_writes_part_one_alone(
    journal: Journal, vault: PersonsVault
) -> None:
    await add(journal, *("x" * 9000 for _ in range(60)))
    await run(journal, vault)
    before = dict(vault.files)
    await journal.update("t1", {"title": "Porto"})
    await run(journal, vault)
    assert [path for path, text in vault.files.items() if before[path] != text] == [FIRST]


# Kills and outages


class DyingVault(PersonsVault):
    """Dies on the way into or out of a write, once for each time it is told to."""

    die: str | None = None

    async def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        die, self.die = self.die, None
        if die == "before":
            raise Killed
        found = await super().write_unless_foreign(path, text, ours)
        if die == "after":
            raise Killed
        return found


async def dying(tmp_path: Path) -> DyingVault:
    vault = DyingVault(tmp_path / "vault")
    await vault.open(expected=False)
    return vault


async def killed(journal: Journal, vault: DyingVault, when: str) -> None:
    vault.die = when
    with pytest.raises(Killed):
        await run(journal, vault)


@pytest.mark.parametrize("more", [False, True], ids=["same words", "more words"])
@pytest.mark.parametrize(
    "moments", [("before",), ("after",), ("after", "before"), ("after", "after"), ("before", "after")]
)
async def test_a_file_written_before_kills_is_recognised_as_ours(
    journal: Journal, tmp_path: Path, moments: Sequence[str], more: bool
) -> None:
    vault = await dying(tmp_path)
    await add(journal, "a")
    await run(journal, vault)
    for when in moments:
        await add(journal, "more")
        await killed(journal, vault, when)
    if more:
        await add(journal, "last")
    await run(journal, vault)
    assert list(vault.files) == [FIRST]
    assert texts_in(vault) == ["a", *("more" for _ in moments), *(["last"] if more else [])]


async def test_a_kill_amid_several_parts_leaves_no_conflict(journal: Journal, tmp_path: Path) -> None:
    vault = await dying(tmp_path)
    texts = [f"{number} " + "x" * 30_000 for number in range(9)]
    for text in texts:
        await add(journal, text)
        await killed(journal, vault, "after")
        await run(journal, vault)
    assert texts_in(vault) == texts
    assert not [path for path in vault.files if "conflict" in path]


async def test_an_outage_leaves_the_job_to_be_tried_again(journal: Journal, vault: PersonsVault) -> None:
    await add(journal, "a")
    vault.take_away()
    with pytest.raises(StorageUnavailable):
        await run(journal, vault)
    vault.bring_back()
    await run(journal, vault)
    assert texts_in(vault) == ["a"]


async def test_a_thread_deleted_while_it_is_written_leaves_no_file(
    journal: Journal, vault: PersonsVault
) -> None:
    """It is deleted between the plan and the announcement; its purge follows."""

    class Deleting(SqlTranscriptStore):
        async def announce(self, *written: Any) -> None:
            await journal.delete("t1")
            await super().announce(*written)

    await add(journal, "a")
    await run(journal, vault, Deleting(journal.database, clock=journal.clock))
    await purging(journal, vault)(replace(JOB, payload={"user_id": "me"}))
    assert FIRST not in vault.files


# People


async def test_nothing_is_kept_of_a_thread_that_is_deleted_while_its_file_is_applied(
    journal: Journal, vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(journal, "a")
    await run(journal, vault)
    vault.files[FIRST] += "\nmy own note\n"
    files = dict(vault.files)

    async def gone(thread: ThreadRef) -> None:
        return None

    async def deleted_meanwhile(thread: ThreadRef, first: int, last: int) -> list[Memcell]:
        monkeypatch.setattr(journal.transcripts, "state", gone)
        return []

    monkeypatch.setattr(journal.transcripts, "cells", deleted_meanwhile)
    transcriber = Transcriber(journal.transcripts, vault, FailPoints())
    await transcriber.look_again(ThreadRef("default", "me", "t1"), 1, restore=False)
    assert vault.files == files
    assert transcriber.reports.unreadable == 0


async def test_a_file_that_was_there_before_us_is_kept(journal: Journal, vault: PersonsVault) -> None:
    vault.files[FIRST] = "mine"
    await add(journal, "a")
    await run(journal, vault)
    assert "mine" in vault.files.values()


async def test_a_file_that_a_person_removed_is_written_again_with_the_next_message(
    journal: Journal, vault: PersonsVault
) -> None:
    await add(journal, "a")
    await run(journal, vault)
    del vault.files[FIRST]
    await add(journal, "b")
    await run(journal, vault)
    assert texts_in(vault) == ["a", "b"]
