"""What a person deleted stays deleted: the list of it in the vault."""

from dataclasses import replace
from pathlib import Path

from recollect.domain.entries.entry import Deletion, EntryChange
from recollect.domain.forgetting import (
    Remembered,
    deletions_path,
    is_deletions_path,
    parse_deletions,
    render_deletions,
)
from recollect.domain.job import DELETIONS, Job
from recollect.service.vault.entry_files import EntryDeletions, read_deletions
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault

OWNER = "default/users/ann"
DELETIONS_OF_ANN = [
    Deletion("fa-2", "facts", "c-1", ("t-1", "t-2")),
    Deletion("fa-3", "facts", "c-1", ("t-3",), "3f9a2c71d0", 1_778_248_980_000),
    Deletion("fa-4", "facts", "", (), "3f9a2c71d1", 5),
    Deletion("fa-1", "facts", "", ()),
    Deletion("sk-1", "skills", "", ("ca-1", "ca-2")),
]


def test_the_list_comes_back_as_it_was_written() -> None:
    text = render_deletions("default", DELETIONS_OF_ANN)
    space, deletions = parse_deletions(text)
    assert (space, deletions) == ("default", sorted(DELETIONS_OF_ANN, key=lambda deletion: deletion.entry_id))
    assert render_deletions("default", list(reversed(DELETIONS_OF_ANN))) == text


def test_the_ledger_which_is_never_cleared_holds_no_digest_of_what_was_deleted() -> None:
    written, read = Remembered(), Remembered()
    written.deletions = {("default", each.entry_id): (OWNER, each) for each in DELETIONS_OF_ANN}
    for line in written.lines():
        read.take(line)
    plain = [replace(each, statement="", said=0) for each in DELETIONS_OF_ANN]
    assert [each for _, each in read.deletions.values()] == plain


def test_its_place_is_told_from_every_other_file() -> None:
    assert is_deletions_path(deletions_path(OWNER))
    assert not is_deletions_path(f"{OWNER}/notes/forgotten.md")
    assert not is_deletions_path(f"{OWNER}/profile.md")


async def test_deleted_entries_are_known_again_in_a_new_journal(
    journal: Journal, vault: PersonsVault, tmp_path: Path
) -> None:
    store = journal.entries
    deletions = tuple(DELETIONS_OF_ANN)
    await store.apply(EntryChange("default", OWNER, "person", "deleted", deletions=deletions))
    job = Job(1, DELETIONS, "lane", "default", None, None, {"owner": OWNER})
    await EntryDeletions(store, vault).handle(job)
    await EntryDeletions(store, vault).handle(job)
    async with Journal(tmp_path / "again.db") as again:
        remembered = Remembered()
        await read_deletions(vault, await vault.list_files(), remembered)
        await again.builder.add_remembered(remembered)
        assert await again.entries.deletions("default", OWNER) == await store.deletions("default", OWNER)
