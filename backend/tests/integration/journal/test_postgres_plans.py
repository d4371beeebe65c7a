"""On PostgreSQL too, no lookup of entries and no forgetting reads the rows of others: an index serves each statement."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from recollect.infra.journal.connector import Connection, Operation, Parameters
from recollect.infra.journal.postgres import PostgresConnector
from tests.contract import journals
from tests.contract.journals import Journal
from tests.explaining import Explained, fill, forget_in_every_way
from tests.postgres import cluster_of_session

T = TypeVar("T")
ANN = "default/users/ann"
LARGE = {
    *(
        "threads",
        "turns",
        "entries",
        "entry_sources",
        "entry_history",
        "version_sources",
        "receipts",
        "chains",
    ),
    *(
        "prompts",
        "context_blocks",
        "block_memories",
        "memcell",
        "memcell_turns",
        "vault_files",
        "written_files",
    ),
    *("notes", "indexed_notes", "index_progress", "unprocessed_buffer", "buried_entries", "tombstones"),
}
"""Tables that grow with what users say."""


UNSERVED = """
SELECT conrelid::regclass::text || '.' || conkey[1] FROM pg_constraint c
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1])"""


def _explain(connection: Connection, sql: str, parameters: Parameters) -> list[str]:
    """The large tables that it reads from end to end."""
    # The tables are small: an index that could be used is used.
    connection.run("SET LOCAL enable_seqscan = off")
    (plan,) = connection.one(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
    told = json.loads(plan) if isinstance(plan, str) else plan
    return [f"{table}: {sql}" for table in _scanned(told[0]["Plan"]) if table in LARGE]


def _scanned(node: dict[str, Any]) -> Iterable[str]:
    if node["Node Type"] == "Seq Scan":
        yield node["Relation Name"]
    for each in node.get("Plans", ()):
        yield from _scanned(each)


class Explaining(PostgresConnector):
    def __init__(self, url: str, scans: list[str]) -> None:
        super().__init__(url)
        self.scans = scans
        self.explained = 0

    async def write(self, operation: Operation[T], *, urgent: bool = False) -> T:
        return await super().write(lambda connection: operation(Explained(connection, self._note)))

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        return await super().read(lambda connection: operation(Explained(connection, self._note)))

    def _note(self, connection: Connection, sql: str, parameters: Parameters) -> None:
        self.explained += 1
        self.scans += _explain(connection, sql, parameters)


async def test_forgetting_looks_for_nothing_among_the_rows_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[str] = []
    connector = Explaining(cluster_of_session().url(str(tmp_path)), scans)
    monkeypatch.setattr(journals, "CONNECTOR", lambda path: connector)
    async with Journal(tmp_path / "journal.db") as journal:
        await fill(journal)
        await forget_in_every_way(journal)
    assert connector.explained > 100
    assert not scans, "\n".join(scans)


async def test_no_cascade_of_a_delete_reads_a_whole_table(tmp_path: Path) -> None:
    cluster = cluster_of_session()
    url = cluster.url(str(tmp_path))
    connector = PostgresConnector(url)
    await connector.open()
    await connector.close()
    with cluster.inside(url) as driver:
        assert driver.execute(UNSERVED).fetchall() == []
        assert driver.execute("SELECT count(*) > 10 FROM pg_constraint WHERE contype = 'f'").fetchone() == (
            True,
        )


async def test_a_statement_without_an_index_is_found(tmp_path: Path) -> None:
    scans: list[str] = []
    connector = Explaining(cluster_of_session().url(str(tmp_path)), scans)
    await connector.open()
    await connector.read(lambda connection: connection.all("SELECT pk FROM turns WHERE content = ?", ("x",)))
    await connector.close()
    assert scans == ["turns: SELECT pk FROM turns WHERE content = ?"]
