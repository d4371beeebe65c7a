"""A writer of entries, killed with SIGKILL at every step: the vault is byte for byte what it is without the kills."""

from pathlib import Path

import pytest

from recollect.infra.journal.database import Database
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.infra.vault import Vault
from recollect.service.verify import entry_problems
from tests import forking
from tests.entry_writer import START, write

pytestmark = pytest.mark.slow

SIGKILLED = -9
STEPS = (
    "journal.in_transaction",
    "journal.committed",
    "vault.written_beside",
    "vault.synced",
    "vault.renamed",
)
TIMES = (1, 4, 9)


def files(home: Path) -> dict[str, bytes]:
    root = home / "vault"
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*.md")}


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_leaves_the_same_bytes(tmp_path: Path, step: str) -> None:
    await write(tmp_path / "whole", None)
    home = tmp_path / "killed"
    killed = 0
    for times in TIMES:
        writer = forking.run("tests.entry_writer", str(home), f"{step}:{times}", timeout=60)
        killed += writer.returncode == SIGKILLED
    await write(home, None)
    assert killed >= 2
    assert files(home) == files(tmp_path / "whole")
    database = Database(SqliteConnector(home / "journal.db"))
    await database.open()
    store = SqlEntryFileStore(database, clock=lambda: START)
    assert await entry_problems(store, Vault(home / "vault")) == []
    await database.close()
