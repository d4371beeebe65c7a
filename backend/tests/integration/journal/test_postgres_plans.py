"""On PostgreSQL too, no lookup of entries and no forgetting reads the rows of others: an index serves each statement."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from recollect.domain.entries.entry import FACTS, EntryChange, KnownEntry, Source
from recollect.domain.forgetting import SETTLE, Task, task_of
from recollect.domain.model import Entry, ThreadRef
from recollect.infra.journal.connector import Connection, Operation, Parameters
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.postgres import PostgresConnector
from tests.contract import journals
from tests.contract.journals import Journal
from tests.fakes import START
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


class Explained:
    """A connection that notes which tables each statement reads from end to end, before it runs."""

    def __init__(self, connection: Connection, scans: list[str]) -> None:
        self._connection, self._scans, self.kept = connection, scans, connection.kept

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        self._explain(sql, parameters)
        return self._connection.run(sql, parameters)

    def many(self, sql: str, rows: Iterable[Any]) -> None:
        for row in rows:
            self.run(sql, row)

    def one(self, sql: str, parameters: Parameters = ()) -> Any:
        self._explain(sql, parameters)
        return self._connection.one(sql, parameters)

    def all(self, sql: str, parameters: Parameters = ()) -> Any:
        self._explain(sql, parameters)
        return self._connection.all(sql, parameters)

    def _explain(self, sql: str, parameters: Parameters) -> None:
        # The tables are small: an index that could be used is used.
        self._connection.run("SET LOCAL enable_seqscan = off")
        (plan,) = self._connection.one(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
        told = json.loads(plan) if isinstance(plan, str) else plan
        self._scans += [f"{table}: {sql}" for table in _scanned(told[0]["Plan"]) if table in LARGE]


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
        self.explained += 1
        return await super().write(lambda connection: operation(Explained(connection, self.scans)))

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        self.explained += 1
        return await super().read(lambda connection: operation(Explained(connection, self.scans)))


async def test_forgetting_looks_for_nothing_among_the_rows_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[str] = []
    connector = Explaining(cluster_of_session().url(str(tmp_path)), scans)
    monkeypatch.setattr(journals, "CONNECTOR", lambda path: connector)
    async with Journal(tmp_path / "journal.db") as journal:
        store = SqlForgetting(journal.database, clock=journal.clock)
        for thread in ("t1", "t2", "t3"):
            await journal.add(thread, "one", "two", user_id="ann")
            source = Source("ann", thread, "t-1")
            entry = Entry(f"fa-{thread}", "x", "x", START, (f"threads/{thread}/0001#^t-1",))
            known = KnownEntry("default", ANN, FACTS, entry, (source,), "c-1", "facts")
            await journal.entries.apply(EntryChange("default", ANN, "extraction", "read", (known,)))
        forgotten = ThreadRef("default", "ann", "t1")
        await store.forget_turns(forgotten, ["t-1"])
        (task,) = [task_of(job) for job in await journal.waiting() if job.payload.get("step") == SETTLE]
        assert await store.waits_for(Task("default", "bob", "t9", (1,))) is None
        await store.forget_late(task)
        await journal.delete("t1", user_id="ann")
        await journal.threads.delete(forgotten._replace(thread_id="t2"), "none")
        await store.forget_note("default", "ann", f"{ANN}/notes/porto.md", "d1")
        await store.forget_user("default", "ann")
        await store.forget_owner("default", "ann")
    assert connector.explained > 10
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
