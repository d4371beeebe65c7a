"""What every statement of the journal costs, as the database plans it: noted before it runs."""

from collections.abc import Callable, Iterable
from typing import Any

from recollect.domain.entries.entry import FACTS, EntryChange, KnownEntry, Source
from recollect.domain.forgetting import SETTLE, Task, task_of
from recollect.domain.model import Entry, ThreadRef
from recollect.infra.journal.connector import Connection, Parameters
from recollect.infra.journal.forgetting import SqlForgetting
from tests.contract.journals import Journal
from tests.fakes import START

ANN = "default/users/ann"
Explain = Callable[[Connection, str, Parameters], None]


class Explained:
    """A connection on which each statement is explained before it runs."""

    def __init__(self, connection: Connection, explain: Explain) -> None:
        self._connection, self._explain, self.kept = connection, explain, connection.kept

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        self._explain(self._connection, sql, parameters)
        return self._connection.run(sql, parameters)

    def many(self, sql: str, rows: Iterable[Any]) -> None:
        for row in rows:
            self.run(sql, row)

    def one(self, sql: str, parameters: Parameters = ()) -> Any:
        self._explain(self._connection, sql, parameters)
        return self._connection.one(sql, parameters)

    def all(self, sql: str, parameters: Parameters = ()) -> Any:
        self._explain(self._connection, sql, parameters)
        return self._connection.all(sql, parameters)


async def fill(journal: Journal) -> None:
    """Three threads of Ann, with a fact of each."""
    for thread in ("t1", "t2", "t3"):
        await journal.add(thread, "one", "two", user_id="ann")
        source = Source("ann", thread, "t-1")
        entry = Entry(f"fa-{thread}", "x", "x", START, (f"threads/{thread}/0001#^t-1",))
        known = KnownEntry("default", ANN, FACTS, entry, (source,), "c-1", "facts")
        await journal.entries.apply(EntryChange("default", ANN, "extraction", "read", (known,)))


async def forget_in_every_way(journal: Journal) -> None:
    """A turn, two threads, a note and Ann herself."""
    store = SqlForgetting(journal.database, clock=journal.clock)
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
