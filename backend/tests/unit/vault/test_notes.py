"""Notes: what counts as one, and what is said of one that is read in part."""

import pytest

from recollect.domain.model import NOTE_BYTES, Note
from recollect.domain.paths import is_note
from recollect.domain.recall.rows import note_rows
from recollect.service.vault.notes import NoteFollower
from recollect.service.vault.reader import EditReports, VaultReader
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault

FOLDER = "default/users/ann/notes"


@pytest.mark.parametrize("name", ["a.md", "U.MD", "x.markdown", "Y.Markdown", "deep/er/z.md"])
def test_markdown_is_a_note_however_its_ending_is_written(name: str) -> None:
    assert is_note(f"{FOLDER}/{name}")


@pytest.mark.parametrize("path", [f"{FOLDER}/a.txt", f"{FOLDER}/md", "default/users/ann/a.md"])
def test_other_files_are_no_notes(path: str) -> None:
    assert not is_note(path)


@pytest.mark.parametrize("ending", ["md", "MD", "markdown"])
def test_a_note_goes_by_its_name_without_the_ending(ending: str) -> None:
    (row,) = note_rows(Note(f"{FOLDER}/v1.2 plans.{ending}", "default/users/ann", "", 0), "hello")
    assert row.sender == "v1.2 plans"


async def test_a_note_that_is_read_in_part_is_told_of_until_it_is_short_or_gone(
    journal: Journal, vault: PersonsVault
) -> None:
    store = journal.notes
    notes = NoteFollower(store, vault, VaultReader(vault), EditReports(), lambda owners: None)
    long, other = f"{FOLDER}/long.md", f"{FOLDER}/other.md"
    for path in (long, other):
        vault.files[path] = "x" * (NOTE_BYTES + 1)
    await notes.look_at([long, other])
    assert (notes.problem() or "").startswith("2 notes are longer")
    vault.files[long] = "short"
    await notes.look_at([long])
    assert (notes.problem() or "").startswith("1 note is longer")
    del vault.files[other]
    await notes.let_go([note for note in await store.known() if note.path == other])
    assert notes.problem() is None
