"""A journal, a vault and an index, real ones in a temporary folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recollect.service import coordination
from tests.contract.journals import Journal, sqlite_journal
from tests.persons_vault import PersonsVault, new_vault
from tests.unit.index_house import House, Picky


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with sqlite_journal(tmp_path / "journal.db") as opened:
        yield opened


@pytest.fixture
async def vault(tmp_path: Path) -> PersonsVault:
    return await new_vault(tmp_path / "vault")


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
