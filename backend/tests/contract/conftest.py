"""What the contract suites run on: a journal and a vault."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.journals import Journal, sqlite_journal
from tests.persons_vault import PersonsVault, new_vault


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with sqlite_journal(tmp_path / "journal.db") as opened:
        yield opened


@pytest.fixture
async def vault(tmp_path: Path) -> PersonsVault:
    return await new_vault(tmp_path / "vault")
