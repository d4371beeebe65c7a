"""An index on a real journal and vault."""

from collections.abc import AsyncIterator

import pytest

from recollect.service import coordination
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault
from tests.unit.index_house import House, Picky


@pytest.fixture
async def house(
    journal: Journal, vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    """An indexer and a search that retry at once, with an embedding model that refuses single texts."""
    monkeypatch.setattr(coordination, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(coordination, "_LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(coordination, "_LONGEST_IMPATIENT_PAUSE", 0.01)
    opened = House(journal, vault, Picky())
    await opened.open()
    yield opened
    await opened.close()
