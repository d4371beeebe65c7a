"""What the store of notes promises."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.domain.model import Note
from recollect.infra.journal.database import Database
from recollect.infra.journal.files import SqlNoteStore

ANN, BOB = "default/users/ann", "default/users/bob"
PORTO = Note(f"{ANN}/notes/porto.md", ANN, "d1", 1000)
LISBON = Note(f"{ANN}/notes/lisbon.md", ANN, "d2", 2000)
BOBS = Note(f"{BOB}/notes/porto.md", BOB, "d3", 3000)


@pytest.fixture
async def notes(tmp_path: Path) -> AsyncIterator[SqlNoteStore]:
    database = Database(tmp_path / "journal.db")
    await database.open()
    yield SqlNoteStore(database)
    await database.close()


async def test_notes_that_were_seen_are_known_by_path(notes: SqlNoteStore) -> None:
    for note in (PORTO, BOBS, LISBON):
        await notes.seen(note)
    assert await notes.known() == [LISBON, PORTO, BOBS]
    assert await notes.known(BOB) == [BOBS]


async def test_notes_are_found_at_their_paths(notes: SqlNoteStore) -> None:
    for note in (PORTO, LISBON, BOBS):
        await notes.seen(note)
    assert await notes.at([BOBS.path, LISBON.path, "default/users/ann/notes/never.md"]) == [LISBON, BOBS]
    assert await notes.at([]) == []


async def test_a_note_that_is_seen_again_is_known_as_it_is_now(notes: SqlNoteStore) -> None:
    edited = replace(PORTO, digest="d9", modified=9000)
    await notes.seen(PORTO)
    await notes.seen(edited)
    assert await notes.known() == [edited]


async def test_notes_that_are_gone_are_known_no_longer(notes: SqlNoteStore) -> None:
    for note in (PORTO, LISBON, BOBS):
        await notes.seen(note)
    await notes.gone([PORTO.path, BOBS.path, "default/users/ann/notes/never.md"])
    assert await notes.known() == [LISBON]
