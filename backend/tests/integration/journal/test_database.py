"""One SQLite file: writes share commits, each is undone alone, and readers can only read."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import StorageUnavailable, Unavailable
from recollect.infra.journal.connector import Connection, Operation
from recollect.infra.journal.database import Database
from recollect.infra.journal.sqlite import SqliteConnector

KEEP = "CREATE TABLE words (word TEXT NOT NULL UNIQUE CHECK (word != 'bad'))"

KEEP_IF_NEW = KEEP.replace("TABLE", "TABLE IF NOT EXISTS")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    await database.open()
    await database.write(lambda connection: connection.run(KEEP))
    yield database
    await database.close()


def sqlite(database: Database) -> SqliteConnector:
    assert isinstance(database.connector, SqliteConnector)
    return database.connector


def insert(word: str, then: Exception | None = None) -> Operation[str]:
    def operation(connection: Connection) -> str:
        connection.run("INSERT INTO words VALUES (?)", (word,))
        if then is not None:
            raise then
        return word

    return operation


async def words(database: Database) -> set[str]:
    return {row["word"] for row in await database.read("SELECT word FROM words")}


async def in_one_group(database: Database, *operations: Operation[Any]) -> list[Any]:
    """Run operations in one commit: they arrive while the writer is busy with another."""
    busy, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(connection: Connection) -> None:
        loop.call_soon_threadsafe(busy.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)

    holding = asyncio.create_task(sqlite(database).outside_transaction(hold))
    await busy.wait()
    groups = database.connector.groups
    tasks = [asyncio.create_task(database.write(operation)) for operation in operations]
    await asyncio.sleep(0)
    go_on.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await holding
    assert database.connector.groups == groups + 1
    return results


async def test_a_write_is_there_after_reopening(database: Database) -> None:
    await database.write(insert("a"))
    await database.close()
    await database.open()
    assert await words(database) == {"a"}


async def test_concurrent_writes_share_commits(database: Database) -> None:
    groups, operations = database.connector.groups, database.connector.operations
    await asyncio.gather(*(database.write(insert(str(number))) for number in range(500)))
    assert database.connector.operations - operations == 500
    assert database.connector.groups - groups < 250
    assert len(await words(database)) == 500


@pytest.mark.parametrize(
    "bad",
    [
        insert("b", then=ValueError("no")),
        insert("bad"),
        lambda connection: connection.all("INSERT INTO words VALUES (?)", ()),
        lambda connection: connection.all("INSERT INTO nowhere VALUES (1)"),
        lambda connection: connection.all("INSERT INTO words VALUES (?)", (2**70,)),
    ],
    ids=["raises", "breaks a constraint", "binds too little", "names no table", "overflows"],
)
async def test_an_operation_that_raises_is_undone_alone_and_its_neighbours_stay(
    database: Database, bad: Operation[Any]
) -> None:
    before, error, after = await in_one_group(database, insert("before"), bad, insert("after"))
    assert (before, after) == ("before", "after")
    assert isinstance(error, Exception)
    assert await words(database) == {"before", "after"}


async def test_an_urgent_write_waits_for_one_that_runs_and_no_more(database: Database) -> None:
    """The group that is under way ends with it; what is left of that one follows, and all of it is kept."""
    running, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    order: list[str] = []

    def noted(word: str) -> Operation[str]:
        def operation(connection: Connection) -> str:
            order.append(word)
            if word == "first":
                loop.call_soon_threadsafe(running.set)
                assert go_on.wait(30)
            return insert(word)(connection)

        return operation

    asked = [asyncio.create_task(database.write(noted(word))) for word in ("first", "second", "third")]
    await running.wait()
    asked.append(asyncio.create_task(database.write(noted("urgent"), urgent=True)))
    await asyncio.sleep(0)
    go_on.set()
    assert await asyncio.gather(*asked) == ["first", "second", "third", "urgent"]
    assert order == ["first", "urgent", "second", "third"]
    assert await words(database) == set(order)


async def test_a_full_disk_is_told_and_nothing_is_half_written(database: Database) -> None:
    async def allow(pages: int) -> None:
        pragma = f"PRAGMA max_page_count = {pages}"
        await sqlite(database).outside_transaction(lambda connection: connection.one(pragma))

    await allow(1)
    with pytest.raises(StorageUnavailable, match="full"):
        await asyncio.gather(*(database.write(insert(f"{number}" * 9000)) for number in range(9)))
    await allow(1_000_000)
    assert await words(database) == set()
    assert await database.write(insert("there is room again")) == "there is room again"


async def test_the_writer_is_durable_and_checks_references(database: Database) -> None:
    def pragmas(connection: Connection) -> dict[str, Any]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "secure_delete")
        return {name: connection.one(f"PRAGMA {name}")[0] for name in names}

    found = await database.write(pragmas)
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "secure_delete": 1,
    }


async def test_normal_is_a_choice(tmp_path: Path) -> None:
    database = Database(SqliteConnector(tmp_path / "normal.db", synchronous="NORMAL"))
    await database.open()
    pragma = "PRAGMA synchronous"
    assert await database.write(lambda connection: connection.one(pragma)[0]) == 1
    await database.close()


async def test_a_reader_waits_for_a_busy_file(database: Database) -> None:
    (row,) = await database.read("PRAGMA busy_timeout")
    assert row["timeout"] == 5000


@pytest.mark.parametrize("sql", ["INSERT INTO words VALUES ('x')", "DELETE FROM words", "DROP TABLE words"])
async def test_readers_cannot_write(database: Database, sql: str) -> None:
    await database.write(insert("a"))
    with pytest.raises(Exception, match=r"readonly|read-only|cannot be written"):
        await database.read(sql)
    assert await words(database) == {"a"}


async def test_a_query_sees_one_moment(database: Database) -> None:
    await database.write(insert("a"))
    loop = asyncio.get_running_loop()

    def look_twice(connection: Connection) -> tuple[Any, Any]:
        before = connection.all("SELECT word FROM words")
        asyncio.run_coroutine_threadsafe(database.write(insert("b")), loop).result(10)
        return before, connection.all("SELECT word FROM words")

    before, after = await database.query(look_twice)
    assert [row["word"] for row in before] == [row["word"] for row in after] == ["a"]
    assert await words(database) == {"a", "b"}


async def test_a_query_that_raises_does_not_spoil_its_connection(database: Database) -> None:
    def refuse(connection: Connection) -> None:
        connection.all("SELECT word FROM words")
        raise ValueError("no")

    for _ in range(8):
        with pytest.raises(ValueError, match="no"):
            await database.query(refuse)
    for number in range(8):
        await database.write(insert(str(number)))
        assert str(number) in await words(database)


async def test_an_error_that_ended_the_view_itself_is_the_one_that_is_told(database: Database) -> None:
    def fail(connection: Connection) -> None:
        connection.run("ROLLBACK")  # As SQLite does of itself when the disk fails.
        raise ValueError("the disk fails")

    with pytest.raises(ValueError, match="the disk fails"):
        await database.query(fail)
    assert await words(database) == set()


async def test_queries_run_beside_each_other_and_beside_a_write(database: Database) -> None:
    together = threading.Barrier(3, timeout=10)

    def meet(connection: Connection) -> int:
        together.wait()
        return len(connection.all("SELECT word FROM words"))

    met = await asyncio.gather(database.query(meet), database.query(meet), database.write(meet))
    assert list(met) == [0, 0, 0]


async def test_a_reader_that_is_cancelled_at_any_moment_keeps_no_old_view(database: Database) -> None:
    def look(connection: Connection) -> None:
        connection.all("SELECT word FROM words")
        connection.all("SELECT word FROM words")

    for steps in [*range(40)] * 5:
        task = asyncio.create_task(database.query(look))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for number in range(12):
        await database.write(insert(str(number)))
        assert str(number) in await words(database)


async def test_closing_waits_for_what_is_read(tmp_path: Path) -> None:
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    await database.open()
    begun, go_on = threading.Event(), threading.Event()

    def look(connection: Connection) -> int:
        begun.set()
        go_on.wait(10)
        return len(connection.all("SELECT name FROM sqlite_master"))

    looking = asyncio.create_task(database.query(look))
    await asyncio.to_thread(begun.wait, 10)
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    go_on.set()
    assert await looking > 0
    await closing


async def test_a_writer_that_is_cancelled_leaves_the_others_alone(database: Database) -> None:
    tasks = [asyncio.create_task(database.write(insert(str(number)))) for number in range(20)]
    await asyncio.sleep(0)
    tasks[7].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await words(database) >= {str(number) for number in range(20) if number != 7}
    assert [task.cancelled() for task in tasks].count(True) == 1


async def test_a_closed_database_is_unavailable(tmp_path: Path) -> None:
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    for _ in range(2):
        with pytest.raises(Unavailable):
            await database.write(lambda connection: None)
        with pytest.raises(Unavailable):
            await database.read("SELECT 1")
        await database.open()
        await database.close()


async def test_closing_finishes_what_was_handed_in(database: Database) -> None:
    writes = [asyncio.create_task(database.write(insert(str(number)))) for number in range(50)]
    await asyncio.sleep(0)
    await database.close()
    assert await asyncio.gather(*writes) == [str(number) for number in range(50)]


async def test_a_write_that_comes_while_it_closes_is_answered(database: Database) -> None:
    """Done or refused, but never left waiting."""
    closing = asyncio.create_task(database.close())
    answers: list[object] = []
    async with asyncio.timeout(30):
        while not closing.done():
            answers += await asyncio.gather(database.write(lambda connection: 1), return_exceptions=True)
            await asyncio.sleep(
                0.001
            )  # A loop that never rests would keep the thread that closes it from running.
    assert all(answer == 1 or isinstance(answer, Unavailable) for answer in answers)


async def test_the_log_is_folded_into_the_file_at_the_end(database: Database) -> None:
    await database.write(insert("a"))
    await database.close()
    log = sqlite(database).path.with_name(sqlite(database).path.name + "-wal")
    assert not log.exists() or log.stat().st_size == 0


async def test_a_file_that_is_no_database_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_text("this is no database, and it is long enough to be read as one" * 20, encoding="utf-8")
    database = Database(SqliteConnector(path))
    with pytest.raises(Unavailable, match="damaged"):
        await database.open()
    await database.close()


def test_a_database_opens_in_one_event_loop_after_another(tmp_path: Path) -> None:
    database = Database(SqliteConnector(tmp_path / "journal.db"))

    async def count_words(word: str) -> int:
        await database.open()
        try:
            await database.write(lambda connection: connection.run(KEEP_IF_NEW))
            await database.write(insert(word))
            return len(await words(database))
        finally:
            await database.close()

    assert [asyncio.run(count_words(word)) for word in "abc"] == [1, 2, 3]
