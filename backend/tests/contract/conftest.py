"""What the contract suites of the journal's stores run on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.journals import Journal, sqlite_journal


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with sqlite_journal(tmp_path / "journal.db") as opened:
        yield opened
