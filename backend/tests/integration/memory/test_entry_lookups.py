"""No lookup of entries, notes and turns, and no forgetting, reads those of others: each goes by an index of its own."""

from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from recollect.infra.journal import entries as entry_store
from recollect.infra.journal import files as note_store
from recollect.infra.journal import index as index_ledger
from recollect.infra.journal.connector import Connection, Operation, Parameters
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import FORGET_VERSIONS
from recollect.infra.journal.entry_changes import VERSIONS_NAMING
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.infra.journal.threads import NEWEST_TURNS_OF_USER
from tests.contract import journals
from tests.contract.journals import Journal
from tests.explaining import Explained, fill, forget_in_every_way

T = TypeVar("T")

ANN = "default/users/ann"
BOUND = {"space": "default", "user_id": "ann", "thread_id": "t1", "turns": "[1]"}
FORGOTTEN = {"folder": "default/users/ann/threads/t1", "turns": "[1]"}
NOTED = {"generation": "g1", "owner": "default/users/ann", "path": "p", "digest": "d"}


@pytest.mark.parametrize(
    ("sql", "parameters", "plan"),
    [
        (entry_store.OF_CELL, ["x"] * 4, "entries_of_cell (space=? AND owner=? AND cell=? AND strategy=?)"),
        (
            entry_store.OF_CATEGORY,
            [*["x"] * 4, "5"],
            "entries_of_category (space=? AND owner=? AND kind=? AND category=?)",
        ),
        (entry_store.IN_FILES, ["[]"], "entries_in_file (path=?)"),
        (entry_store.OF_PERSON, ["x"] * 3, "entries_of_person (space=? AND owner=? AND kind=?)"),
        (
            entry_store.WITH_TEXT,
            ["x"] * 4,
            "entries_by_text (space=? AND owner=? AND kind=? AND text_key=?)",
        ),
        (entry_store.LAST_SAID, ["x", "x", "[]"], "e USING INDEX"),
        (entry_store.LAST_SAID, ["x", "x", "[]"], "s USING PRIMARY KEY (entry_pk=?)"),
        (entry_store.LAST_SAID, ["x", "x", "[]"], "(thread_pk=? AND position=?)"),
        (note_store.OF_OWNER, ["x"], "notes_by_owner (owner=?)"),
        (note_store.AT_PATHS, ["[]"], "notes USING PRIMARY KEY (path=?)"),
        (index_ledger.NOTES_BEHIND, NOTED, "n USING INDEX notes_by_owner (owner=?)"),
        (index_ledger.NOTES_BEHIND, NOTED, "f USING INDEX vault_files_of_owner (owner=? AND kind=?)"),
        (index_ledger.NOTES_BEHIND, NOTED, "i USING PRIMARY KEY (generation=? AND path=?)"),
        (
            index_ledger.NOTES_GONE,
            NOTED,
            "i USING COVERING INDEX indexed_notes_of_owner (generation=? AND owner=?)",
        ),
        (index_ledger.NOTES_GONE, NOTED, "n USING PRIMARY KEY (path=?)"),
        (
            index_ledger.UNEMBEDDED_NOTES,
            NOTED,
            "i USING INDEX indexed_notes_of_owner (generation=? AND owner=? AND embedded=?)",
        ),
        (index_ledger.IS_UNEMBEDDED, NOTED, "indexed_notes USING PRIMARY KEY (generation=? AND path=?)"),
        (entry_store.CITING, BOUND, "e USING INTEGER PRIMARY KEY (rowid=?)"),
        (entry_store.CITING, BOUND, "entry_sources_by_turn (thread_pk=?)"),
        (FORGET_VERSIONS, FORGOTTEN, "version_sources_by_source (source=?)"),
        (VERSIONS_NAMING, ["default", "x", "[]"], "version_sources_by_source (source=?)"),
        (
            NEWEST_TURNS_OF_USER,
            {"space": "default", "user_id": "ann", "threads": "5", "turns": "6"},
            "threads_by_use (space=? AND user_id=? AND pinned=?)",
        ),
    ],
)
async def test_a_lookup_goes_by_its_index(
    tmp_path: Path, sql: str, parameters: list[str] | dict[str, str], plan: str
) -> None:
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    await database.open()
    steps = [row["detail"] for row in await database.read(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    await database.close()
    assert any(plan in step for step in steps), steps
    scanned = [step for step in steps if step.startswith("SCAN")]
    of_subqueries = {"SCAN s", "SCAN used", "SCAN pinned"}
    assert all("json_each" in step or "subquery" in step or step in of_subqueries for step in scanned), steps


class Explaining(SqliteConnector):
    """Notes how each statement is carried out; the cascade of a DELETE too."""

    def __init__(self, path: Path, *, steps: list[str]) -> None:
        super().__init__(path)
        self.steps = steps

    async def write(self, operation: Operation[T], *, urgent: bool = False) -> T:
        return await super().write(lambda connection: operation(Explained(connection, self._note)))

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        return await super().read(lambda connection: operation(Explained(connection, self._note)))

    def _note(self, connection: Connection, sql: str, parameters: Parameters) -> None:
        plan = connection.all(f"EXPLAIN QUERY PLAN {sql}", parameters)
        self.steps += [f"{row['detail']} of {sql}" for row in plan]


async def test_forgetting_looks_for_nothing_among_the_rows_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(journals, "CONNECTOR", partial(Explaining, steps=steps))
    async with Journal(tmp_path / "journal.db") as journal:
        await fill(journal)
        steps.clear()
        await forget_in_every_way(journal)
    assert len(steps) > 100
    # Of webhooks a space has a few, and they are kept in memory.
    few = ("VIRTUAL TABLE", "CONSTANT ROW", "SCAN webhooks")
    scans = [step for step in steps if step.startswith("SCAN") and not any(each in step for each in few)]
    assert not scans, "\n".join(scans)
