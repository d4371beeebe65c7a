"""Forgetting: the words go from journal and vault, and text-free tombstones stay."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from recollect.domain.access import Caller
from recollect.domain.forgetting import parse_tombstones
from recollect.domain.identity import key_within_user, message_key
from recollect.domain.job import PURGE, TRANSCRIBE, Job
from recollect.domain.model import Append, NewTurn, ThreadRef
from recollect.domain.paths import forgotten_path, thread_folder
from recollect.errors import IndexUnavailable, StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.service.forget.forget import delete_thread
from recollect.service.vault.transcripts import Transcriber
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault
from tests.unit.vault_house import purging

KEY = key_within_user("default", "t1")
TOMBSTONES = forgotten_path("default", "ann", KEY)


@pytest.fixture
async def journal(vault: PersonsVault, tmp_path: Path) -> AsyncIterator[Journal]:
    """Ann's thread of two messages, written to the vault."""
    async with Journal(tmp_path / "journal.db", transcript_delay_ms=0) as journal:
        journal.jobs.handlers = {
            TRANSCRIBE: Transcriber(journal.transcripts, vault, FailPoints()).handle,
            PURGE: purging(journal, vault),
        }
        await say(journal, "ann", "a secret", "m1")
        await say(journal, "ann", "another secret", "m2")
        await journal.jobs.run_due()
        yield journal


async def purge_of_files(journal: Journal) -> Job:
    (job,) = [job for job in await journal.waiting() if job.kind == PURGE and "step" not in job.payload]
    return job


async def say(journal: Journal, user_id: str, text: str, message_id: str) -> None:
    turn = NewTurn("user", text, START, user_id, message_id)
    await journal.threads.append(Append("default", "t1", [turn], user_id))


async def test_conflict_files_of_a_forgotten_thread_go_too(journal: Journal, vault: PersonsVault) -> None:
    folder = thread_folder("default", "ann", "t1")
    vault.files[f"{folder}/0001.conflict-12345678.md"] = "an edited secret"
    await delete_thread(journal.threads, Caller(), "t1", None)
    await journal.jobs.run_due()
    assert list(vault.files) == [TOMBSTONES]


async def test_tombstones_of_a_second_forgetting_join_the_first(
    journal: Journal, vault: PersonsVault
) -> None:
    await journal.delete("t1")
    await journal.jobs.run_due()
    await say(journal, "ann", "a third", "m3")
    await journal.delete("t1")
    await journal.jobs.run_due()
    file, problems = parse_tombstones(vault.files[TOMBSTONES])
    assert file is not None
    assert file.messages == tuple((number, message_key(f"m{number}")) for number in (1, 2, 3))
    assert list(problems) == []
    assert not [path for path in vault.files if "conflict" in path]


async def test_what_is_said_after_a_deletion_is_transcribed(journal: Journal, vault: PersonsVault) -> None:
    await journal.delete("t1")
    await say(journal, "ann", "hello again", "m3")
    await journal.jobs.run_due()
    assert "hello again" in vault.files[f"{thread_folder('default', 'ann', 't1')}/0001.md"]


async def test_a_purge_waits_for_the_vault_to_come_back(journal: Journal, vault: PersonsVault) -> None:
    vault.take_away()
    await delete_thread(journal.threads, Caller(), "t1", None)
    await journal.jobs.run_due()
    vault.bring_back()
    journal.clock.advance(60_000)
    await journal.jobs.run_due()
    assert list(vault.files) == [TOMBSTONES]


async def test_the_index_forgets_while_the_vault_is_away(journal: Journal, vault: PersonsVault) -> None:
    forgotten = []

    async def forget_index(thread: ThreadRef) -> None:
        forgotten.append(thread)

    journal.jobs.handlers[PURGE] = purging(journal, vault, forget_index)
    vault.take_away()
    await delete_thread(journal.threads, Caller(), "t1", None)
    await journal.jobs.run_due()
    assert forgotten == [("default", "ann", "t1")]


async def test_the_vault_forgets_while_the_index_cannot(journal: Journal, vault: PersonsVault) -> None:
    async def fail(thread: ThreadRef) -> None:
        raise IndexUnavailable("the disk is full")

    journal.jobs.handlers[PURGE] = purging(journal, vault, fail)
    await delete_thread(journal.threads, Caller(), "t1", None)
    await journal.jobs.run_due()
    assert list(vault.files) == [TOMBSTONES]
    job = await purge_of_files(journal)
    assert job.error is not None
    assert "the disk is full" in job.error


async def test_running_the_purge_twice_leaves_the_same_files(journal: Journal, vault: PersonsVault) -> None:
    await journal.delete("t1")
    job = await purge_of_files(journal)
    purge: Callable[..., Awaitable[None]] = journal.jobs.handlers[PURGE]
    await purge(job)
    once = dict(vault.files)
    await purge(job)
    assert vault.files == once


async def test_a_purge_that_died_between_its_steps_is_finished_by_the_next(
    journal: Journal, vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(path: str) -> None:
        raise StorageUnavailable("killed")

    await delete_thread(journal.threads, Caller(), "t1", None)
    job = await purge_of_files(journal)
    with monkeypatch.context() as dying:
        dying.setattr(vault, "remove_folder", die)
        with pytest.raises(StorageUnavailable):
            await purging(journal, vault)(job)
    assert TOMBSTONES in vault.files
    await journal.jobs.run_due()
    assert list(vault.files) == [TOMBSTONES]
