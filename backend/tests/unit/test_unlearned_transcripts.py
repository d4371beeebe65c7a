"""A transcript that a person touches before its place was learned is found by a sweep, at once and not in a minute."""

from collections.abc import AsyncIterator

import pytest

from recollect.service.vault.sweep import HandEdits
from recollect.service.vault.transcripts import EditReports
from tests.contract.journals import Journal
from tests.eventually import eventually
from tests.persons_vault import PersonsVault, ToldWatcher

PATH = "default/users/me/threads/t1/0001.md"


class Watched:
    """A vault that is watched and was swept once, while it was empty."""

    def __init__(self, journal: Journal, vault: PersonsVault) -> None:
        self.vault = vault
        self.watcher = ToldWatcher(vault.root)
        self.edits = HandEdits(
            journal.transcripts, journal.notes, self.vault, self.watcher, EditReports(), clock=journal.clock
        )


@pytest.fixture
async def watched(journal: Journal, vault: PersonsVault) -> AsyncIterator[Watched]:
    watched = Watched(journal, vault)
    await watched.edits.start()
    await eventually(lambda: watched.edits.sweeps == 1)
    yield watched
    await watched.edits.stop()


async def test_one_that_is_gone_already(watched: Watched) -> None:
    watched.watcher.tell(PATH)
    await eventually(lambda: watched.edits.sweeps == 2)


async def test_one_whose_front_matter_is_damaged(watched: Watched) -> None:
    watched.vault.files[PATH] = "recollect: 1\nkind: transcript\n"
    watched.watcher.tell(PATH)
    await eventually(lambda: watched.edits.sweeps == 2)
