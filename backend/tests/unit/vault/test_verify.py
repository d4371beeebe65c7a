"""Verify finds what is missing or differs, and repairs what is gone."""

from collections.abc import Callable

import pytest

from recollect.domain.boundary import memcell_id
from recollect.domain.model import Append, Memcell, NewTurn, Thread, ThreadRef
from recollect.failpoints import FailPoints
from recollect.service.vault.transcripts import Transcriber
from recollect.service.verify import Verification, Verifier
from tests.contract.journals import Journal, announce_part
from tests.fakes import START
from tests.persons_vault import PersonsVault

FOLDER = "default/users/me/threads/t1"
FIRST = f"{FOLDER}/0001.md"
SECOND = f"{FOLDER}/0002.md"


@pytest.fixture
async def journal(journal: Journal, vault: PersonsVault) -> Journal:
    """A thread of two parts, the last messages in a memcell, all written."""
    turns = [NewTurn("user", f"{number} " + "x" * 15_000, START, "ann") for number in range(3)]
    await journal.threads.append(Append("default", "t1", turns))
    stored = await journal.history("t1", 2)
    cell_id = memcell_id(ThreadRef("default", "me", "t1"), [turn.message_id for turn in stored])
    cell = Memcell(cell_id, tuple(turn.turn_id for turn in stored), "gap")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell], "rules")
    await transcriber(journal, vault).transcribe(ThreadRef("default", "me", "t1"))
    return journal


def transcriber(journal: Journal, vault: PersonsVault) -> Transcriber:
    return Transcriber(journal.transcripts, vault, FailPoints())


async def verify(journal: Journal, vault: PersonsVault, *, repair: bool = False) -> Verification:
    verifier = Verifier(
        journal.threads, journal.transcripts, journal.coverage, vault, transcriber(journal, vault)
    )
    return await verifier.verify(repair=repair)


async def test_a_sound_home_is_ok(journal: Journal, vault: PersonsVault) -> None:
    found = await verify(journal, vault)
    assert found.ok
    assert (found.threads, found.parts, found.pending, found.problems, found.notes) == (1, 2, 0, [], [])


async def test_every_space_is_verified(journal: Journal, vault: PersonsVault) -> None:
    turn = NewTurn("user", "x", START, "ann")
    await journal.threads.append(Append("work", "t1", [turn]))
    found = await verify(journal, vault)
    assert {space: coverage.messages for space, coverage in found.coverage.items()} == {
        "default": 3,
        "work": 1,
    }
    assert found.threads == 2


@pytest.mark.parametrize("path", [FIRST, SECOND])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (None, "is missing"),
        (lambda text: text + "\n", "differs from the journal"),
        (lambda text: text[:-9], "differs from the journal"),
        (lambda text: "", "differs from the journal"),
    ],
)
async def test_a_file_that_is_gone_or_altered_is_found_and_nothing_is_changed(
    journal: Journal, vault: PersonsVault, path: str, change: Callable[[str], str] | None, problem: str
) -> None:
    text = vault.files.pop(path)
    if change is not None:
        vault.files[path] = change(text)
    before = dict(vault.files), await journal.transcripts.parts(ThreadRef("default", "me", "t1"))
    found = await verify(journal, vault)
    assert (found.ok, found.problems) == (False, [f"{path} {problem}"])
    assert (dict(vault.files), await journal.transcripts.parts(ThreadRef("default", "me", "t1"))) == before


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("DELETE FROM unprocessed_buffer", "missing: t-1 of thread 't1'"),
        ("DELETE FROM turns WHERE position = 1", "missing: 1 turns of thread 't1'"),
        ("DELETE FROM turns WHERE position = 3", "memcell"),
        ("DELETE FROM transcript_parts WHERE part = 1", "journal: part 2 of thread 't1'"),
    ],
    ids=["in neither", "vanished", "cell without turns", "part lost"],
)
async def test_damage_in_the_journal_is_found(
    journal: Journal, vault: PersonsVault, damage: str, problem: str
) -> None:
    await journal.execute(damage)
    found = await verify(journal, vault)
    assert not found.ok
    assert any(problem in each for each in found.problems)


async def test_a_turn_in_buffer_and_cell_is_found(journal: Journal, vault: PersonsVault) -> None:
    await journal.execute(
        "INSERT INTO unprocessed_buffer SELECT thread_pk, pk, 'default', 't1', message_id FROM turns"
        " WHERE position = 2"
    )
    assert not (await verify(journal, vault)).ok


async def test_what_is_not_written_yet_is_pending_and_no_problem(
    journal: Journal, vault: PersonsVault
) -> None:
    turn = NewTurn("user", "new", START, "ann")
    await journal.threads.append(Append("default", "t1", [turn, turn]))
    await journal.update("t1", {"title": "new"})
    found = await verify(journal, vault)
    assert found.ok
    assert found.pending == 2


async def test_an_incognito_thread_needs_no_file(journal: Journal, vault: PersonsVault) -> None:
    thread = Thread("default", "t2", "me", START, START, incognito=True)
    await journal.threads.create_thread(thread)
    await journal.threads.append(Append("default", "t2", [NewTurn("user", "psst", START, "ann")]))
    found = await verify(journal, vault)
    assert (found.ok, found.pending) == (True, 0)


@pytest.mark.parametrize(
    ("path", "noted"),
    [
        (f"{FOLDER}/0001.conflict-12345678.md", True),
        ("default/users/me/threads/gone/0001.md", True),
        ("default/users/me/notes/shopping.md", False),
    ],
    ids=["a conflict file", "of no thread", "a person's note"],
)
async def test_what_else_lies_among_the_transcripts_is_noted(
    journal: Journal, vault: PersonsVault, path: str, noted: bool
) -> None:
    vault.files[path] = "a text"
    found = await verify(journal, vault)
    assert (found.ok, [note.partition(":")[0] for note in found.notes]) == (True, [path] if noted else [])


# Repair


async def test_repair_writes_what_is_gone(journal: Journal, vault: PersonsVault) -> None:
    before = dict(vault.files)
    vault.files.clear()
    found = await verify(journal, vault, repair=True)
    assert (found.ok, found.repaired) == (True, 2)
    assert vault.files == before
    assert (await verify(journal, vault)).ok


async def test_repair_leaves_what_a_person_changed(journal: Journal, vault: PersonsVault) -> None:
    vault.files[FIRST] += "my own note\n"
    before = dict(vault.files)
    found = await verify(journal, vault, repair=True)
    assert vault.files == before
    assert found.problems == [f"{FIRST} differs from the journal"]


async def test_a_repaired_part_is_ours_again(journal: Journal, vault: PersonsVault) -> None:
    vault.files.clear()
    await verify(journal, vault, repair=True)
    await journal.update("t1", {"title": "Porto"})
    await transcriber(journal, vault).transcribe(ThreadRef("default", "me", "t1"))
    assert sorted(vault.files) == [FIRST, SECOND]


@pytest.mark.parametrize("digest", ["recorded", None])
async def test_an_attempt_that_failed_hides_nothing(
    journal: Journal, vault: PersonsVault, digest: str | None
) -> None:
    """A part that waits to be written again must still be what we last wrote."""
    if digest is None:
        await journal.transcripts.forget_part(ThreadRef("default", "me", "t1"), 1)
    (part, *_) = await journal.transcripts.parts(ThreadRef("default", "me", "t1"))
    await announce_part(journal.transcripts, ThreadRef("default", "me", "t1"), part, "0" * 64)
    vault.files[FIRST] = "junk"
    assert f"{FIRST} differs from the journal" in (await verify(journal, vault)).problems


async def test_a_missing_vault_is_found(journal: Journal, vault: PersonsVault) -> None:
    vault.take_away()
    assert "the vault is missing" in (await verify(journal, vault)).problems
