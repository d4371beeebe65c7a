"""Writes entries and their files, and dies on the way if it is told to. Started by tests."""

import asyncio
import sys
from pathlib import Path

from recollect.domain.entries.entry import FACTS, EntryChange, KnownEntry
from recollect.domain.model import Entry
from recollect.failpoints import FailPoints
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.infra.vault import Vault
from recollect.service.vault.entry_edits import EntryTaker
from recollect.service.vault.entry_files import EntryFiles
from recollect.service.vault.reader import EditReports

OWNER = "default/users/ann"
START = 1_778_248_980_000
STEPS = 6


def changes(step: int) -> EntryChange:
    """New facts of two days, and from the second step on one that goes."""
    put = tuple(_fact(step, number, day) for number in range(2) for day in range(2))
    gone = (f"fa-{step - 1}-0-0",) if step else ()
    return EntryChange("default", OWNER, "extraction", "read", put, gone)


def _fact(step: int, number: int, day: int) -> KnownEntry:
    text = f"Ann likes {step}, {number} and {day}."
    when = START + day * 86_400_000 + (step * 7 + number) % 5
    return KnownEntry("default", OWNER, FACTS, Entry(f"fa-{step}-{number}-{day}", text, text, when))


async def write(home: Path, fail_point: str | None) -> None:
    """Everything, or as far as the fail point. What was done before is not done again."""
    fail_points = FailPoints(fail_point)
    database = Database(SqliteConnector(home / "journal.db", fail_points=fail_points))
    vault = Vault(home / "vault", fail_points=fail_points)
    await database.open()
    await vault.open(expected=False)
    entries = SqlEntryStore(database, clock=lambda: START)
    store, reports = SqlEntryFileStore(database, clock=lambda: START), EditReports()
    taker = EntryTaker(store, entries, vault, reports, lambda: START)
    files = EntryFiles(store, vault, reports, taker, SqlNoteStore(database))
    for step in range(STEPS):
        if await entries.get("default", f"fa-{step}-1-1") is None:
            await entries.apply(changes(step))
        await files.settle_all()
    await database.close()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
