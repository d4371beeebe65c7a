"""What every contract suite runs on: the fake, then the real thing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.journals import Journal, fake_journal, sqlite_journal


@pytest.fixture(params=["fake", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    if request.param == "fake":
        yield fake_journal()
    else:
        async with sqlite_journal(tmp_path / "journal.db") as opened:
            yield opened
