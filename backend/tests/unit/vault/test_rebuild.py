"""Rebuild: the vault alone brings everything back, and damage in one file stays there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from recollect.domain.boundary import BoundaryRules
from recollect.domain.identity import key_within_user
from recollect.domain.job import BOUNDARY, FLUSH, PURGE, TRANSCRIBE
from recollect.domain.model import Append, NewTurn, Thread, ThreadRef
from recollect.domain.paths import forgotten_path
from recollect.failpoints import FailPoints
from recollect.service.rebuild import RebuildReport, rebuild
from recollect.service.remember.boundaries import Boundaries
from recollect.service.vault.transcripts import Transcriber
from recollect.service.verify import Verifier
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault
from tests.unit.vault_house import purging

HOUR = 3_600_000
FOLDER = "default/users/ann/threads/t1"
FIRST = f"{FOLDER}/0001.md"


def with_jobs(journal: Journal, vault: PersonsVault) -> Journal:
    boundaries = Boundaries(journal.cells, BoundaryRules(max_turns=10), None, FailPoints(), journal.clock)
    journal.jobs.handlers = {
        BOUNDARY: boundaries.look,
        FLUSH: boundaries.finish,
        TRANSCRIBE: Transcriber(journal.transcripts, vault, FailPoints()).handle,
        PURGE: purging(journal, vault),
    }
    return journal


@pytest.fixture
async def journal(journal: Journal, vault: PersonsVault) -> Journal:
    """Three threads in two spaces, with cells, a skipped turn, tombstones, tags; all written."""
    with_jobs(journal, vault)
    header = Thread(
        "default", "t1", "ann", START, START, "guide", "Marta: a title", ("family", "trip"), "calm", "big"
    )
    await journal.threads.create_thread(header)
    turns = [
        NewTurn("user", f"{number} " + "x" * 10_000, START + number * HOUR, "ann", f"m{number}")
        for number in range(8)
    ]
    turns[3] = NewTurn("system", "be kind", START + 3 * HOUR, "app", "m3")
    call = NewTurn(
        "assistant", "", START + 9 * HOUR, "bot", tool_calls=[{"id": "c1"}], reasoning="hm", model="q"
    )
    await journal.threads.append(Append("default", "t1", [*turns, call]))
    await journal.threads.append(
        Append("default", "другая/../тема", [NewTurn("user", "привет", START, "bob")], "bob")
    )
    await journal.threads.append(Append("work", "t1", [NewTurn("user", "b", START, "bob", "m1")], "bob"))
    await journal.threads.append(
        Append("work", "gone", [NewTurn("user", "secret", START, "bob", "m1")], "bob")
    )
    await run_all(journal)
    await journal.delete("gone", space="work")
    await journal.delete("t1", space="work")
    await journal.threads.append(Append("work", "t1", [NewTurn("user", "new", START, "bob", "m2")], "bob"))
    await run_all(journal)
    return journal


async def run_all(journal: Journal) -> None:
    """All that waits, however long it would wait."""
    while await journal.jobs.list_jobs(space=None):
        journal.clock.advance(60_000)
        await journal.jobs.run_due()


Again = Callable[[], Awaitable[tuple[Journal, RebuildReport]]]


@pytest.fixture
async def rebuilt(journal: Journal, vault: PersonsVault, tmp_path: Path) -> AsyncIterator[Again]:
    """Rebuilds another journal from the vault."""
    async with Journal(tmp_path / "again.db") as other:

        async def again() -> tuple[Journal, RebuildReport]:
            return with_jobs(other, vault), await rebuild(vault, other.builder, FailPoints())

        yield again


async def picture(journal: Journal, space: str) -> object:
    threads = await journal.threads.list_threads(space=space)
    return {
        thread.thread_id: (
            (thread.user_id, thread.created, thread.agent_id, thread.title, thread.tags),
            (thread.preset, thread.backend, thread.turn_count),
            await journal.history(thread.thread_id, space=space),
            await journal.cells.list_cells(ThreadRef(space, "ann", thread.thread_id)),
        )
        for thread in threads
    }


async def test_everything_comes_back_as_it_was_and_is_counted(journal: Journal, rebuilt: Again) -> None:
    again, report = await rebuilt()
    for space in ("default", "work"):
        assert await picture(again, space) == await picture(journal, space)
        found = await again.coverage.coverage(space=space)
        assert (found, found.missing) == (await journal.coverage.coverage(space=space), 0)
    (cells,) = await journal.database.read("SELECT count(*) AS number FROM memcell")
    assert (report.threads, report.turns, report.memcells, report.forgotten) == (3, 11, cells["number"], 2)
    assert report.problems == []


async def test_what_was_forgotten_stays_forgotten(rebuilt: Again) -> None:
    again, _ = await rebuilt()
    turn = NewTurn("user", "secret", START, "bob", "m1")
    (receipt,) = await again.threads.append(Append("work", "gone", [turn], "bob"))
    assert receipt.status == "forgotten"


async def test_a_turn_id_is_not_used_again_after_a_rebuild(rebuilt: Again) -> None:
    again, _ = await rebuilt()
    for thread_id in ("t1", "gone"):
        turn = NewTurn("user", "x", START, "bob")
        (receipt,) = await again.threads.append(Append("work", thread_id, [turn], "bob"))
        assert receipt.turn_id == ("t-3" if thread_id == "t1" else "t-2")


async def test_a_rebuilt_journal_equals_its_vault(vault: PersonsVault, rebuilt: Again) -> None:
    again, _ = await rebuilt()
    transcriber = Transcriber(again.transcripts, vault, FailPoints())
    found = await Verifier(again.threads, again.transcripts, again.coverage, vault, transcriber).verify()
    assert (found.problems, found.pending) == ([], 0)


async def test_the_jobs_after_a_rebuild_change_no_byte_of_what_was_written(
    vault: PersonsVault, rebuilt: Again
) -> None:
    before = dict(vault.files)
    again, _ = await rebuilt()
    await run_all(again)
    assert vault.files == before


# Damage


async def test_conflict_files_and_a_persons_notes_are_not_taken_for_transcripts(
    journal: Journal, vault: PersonsVault, rebuilt: Again
) -> None:
    vault.files[f"{FOLDER}/0001.conflict-12345678.md"] = vault.files[FIRST]
    vault.files["default/users/ann/notes/0001.md"] = vault.files[FIRST]
    vault.files["default/users/ann/threads/0001.md"] = vault.files[FIRST]
    again, report = await rebuilt()
    assert report.problems == []
    assert await picture(again, "default") == await picture(journal, "default")


async def test_a_thread_whose_front_matter_is_beyond_repair_is_reported_and_leaves_its_neighbours(
    journal: Journal, vault: PersonsVault, rebuilt: Again
) -> None:
    for path in [path for path in vault.files if path.startswith(FOLDER)]:
        vault.files[path] = vault.files[path].removeprefix("---\n")
    again, report = await rebuilt()
    assert any(FOLDER in problem for problem in report.problems)
    assert await picture(again, "work") == await picture(journal, "work")


async def test_a_damaged_turn_is_reported_and_the_others_come_back(
    vault: PersonsVault, rebuilt: Again
) -> None:
    vault.files[FIRST] = vault.files[FIRST].replace("## user · ann", "## usr · ann", 1)
    again, report = await rebuilt()
    assert len(report.problems) >= 1
    assert len(await again.history("t1")) == 8


@pytest.mark.parametrize("name", ["0099.md", "00001.md", "1.md", "².md", "٣.md"])
async def test_a_copy_of_a_part_under_another_name_does_no_harm(
    journal: Journal, vault: PersonsVault, name: str, rebuilt: Again
) -> None:
    vault.files[f"{FOLDER}/{name}"] = vault.files[FIRST]
    again, _ = await rebuilt()
    assert await picture(again, "default") == await picture(journal, "default")


async def test_a_copy_of_a_threads_folder_is_reported_and_the_thread_comes_back(
    journal: Journal, vault: PersonsVault, rebuilt: Again
) -> None:
    for path in [path for path in vault.files if path.startswith(f"{FOLDER}/")]:
        vault.files[path.replace(FOLDER, f"{FOLDER}-copy")] = vault.files[path]
    again, report = await rebuilt()
    assert any("-copy" in problem for problem in report.problems)
    assert await picture(again, "default") == await picture(journal, "default")


async def test_two_turns_with_one_message_id_are_reported_and_the_rest_comes_back(
    vault: PersonsVault, rebuilt: Again
) -> None:
    vault.files[FIRST] = vault.files[FIRST].replace("%% id: m1 %%", "%% id: m0 %%")
    again, report = await rebuilt()
    assert len(report.problems) >= 1
    assert len(await again.history("t1")) >= 8


async def test_a_damaged_tombstone_is_reported_and_the_others_come_back(
    vault: PersonsVault, rebuilt: Again
) -> None:
    path = forgotten_path("work", "bob", key_within_user("work", "gone"))
    vault.files[path] += "- t-x nonsense\n"
    _, report = await rebuilt()
    assert (len(report.problems), report.forgotten) == (1, 2)
