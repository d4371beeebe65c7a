"""What a person deleted stays deleted: the list of it in the vault."""

from pathlib import Path

from recollect.domain.entries.entry import Buried
from recollect.domain.forgetting import buried_path, is_buried_path, parse_buried, render_buried
from recollect.domain.job import GRAVES, Job
from recollect.service.vault.entry_import import Graves, import_graves
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault

OWNER = "default/users/ann"
GRAVES_OF_ANN = [
    Buried("fa-2", "facts", "c-1", ("t-1", "t-2")),
    Buried("fa-1", "facts", "", ()),
    Buried("sk-1", "skills", "", ("ca-1", "ca-2")),
]


def test_the_list_comes_back_as_it_was_written() -> None:
    text = render_buried("default", GRAVES_OF_ANN)
    space, graves = parse_buried(text)
    assert (space, graves) == ("default", sorted(GRAVES_OF_ANN, key=lambda grave: grave.entry_id))
    assert render_buried("default", list(reversed(GRAVES_OF_ANN))) == text


def test_its_place_is_told_from_every_other_file() -> None:
    assert is_buried_path(buried_path(OWNER))
    assert not is_buried_path(f"{OWNER}/notes/forgotten.md")
    assert not is_buried_path(f"{OWNER}/profile.md")


async def test_deleted_entries_are_known_again_in_a_new_journal(
    journal: Journal, vault: PersonsVault, tmp_path: Path
) -> None:
    store = journal.entries
    await store.bury("default", OWNER, GRAVES_OF_ANN)
    job = Job(1, GRAVES, "lane", "default", None, {"owner": OWNER})
    await Graves(store, vault).handle(job)
    await Graves(store, vault).handle(job)
    async with Journal(tmp_path / "anew.db") as anew:
        await import_graves(vault, anew.entries)
        assert await anew.entries.buried("default", OWNER) == await store.buried("default", OWNER)
