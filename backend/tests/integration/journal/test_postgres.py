"""The journal in PostgreSQL: what was acknowledged is kept once, whatever breaks; and what is wrong is told in words."""

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import (
    HomeInUse,
    HomeUnusable,
    RecollectError,
    SchemaTooNew,
    StorageUnavailable,
    Unavailable,
)
from recollect.infra.journal import postgres_connection
from recollect.infra.journal.audit_lines import SqlAuditLines
from recollect.infra.journal.connection import HEAD, migrations_folder
from recollect.infra.journal.connector import Connection, Operation
from recollect.infra.journal.database import Database
from recollect.infra.journal.postgres import PostgresConnector, name_of
from recollect.infra.journal.postgres_schema import BASE, current_revision, upgrade_postgres
from tests.cut_line import CutLine
from tests.postgres import TABLE, Cluster, cluster_of_session, insert, opened, own_cluster, through, words


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of_session()


@pytest.fixture(scope="module")
def mortal() -> Iterator[Cluster]:
    """A server that is killed."""
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture
async def database(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(cluster.url(str(tmp_path))) as database:
        await database.write(lambda connection: connection.run(TABLE))
        yield database


# --- transactions -----------------------------------------------------------------------------------


async def test_a_write_is_there_after_reopening(database: Database) -> None:
    await database.write(insert("a"))
    await database.close()
    await database.open()
    assert await words(database) == {"a": 1}


async def test_concurrent_writes_share_commits(database: Database) -> None:
    groups = database.connector.groups
    await asyncio.gather(*(database.write(insert(str(number))) for number in range(300)))
    assert database.connector.groups - groups < 150
    assert len(await words(database)) == 300


@pytest.mark.parametrize(
    "bad",
    [
        insert("b", then=ValueError("no")),
        insert("bad"),
        lambda connection: connection.all("INSERT INTO words VALUES (?)", ()),
        lambda connection: connection.all("INSERT INTO nowhere VALUES (1)"),
    ],
    ids=["raises", "breaks a constraint", "binds too little", "names no table"],
)
async def test_an_operation_that_raises_is_undone_alone(database: Database, bad: Operation[Any]) -> None:
    together = [insert("before"), bad, insert("after"), bad]
    results = await asyncio.gather(*map(database.write, together), return_exceptions=True)
    assert [isinstance(result, Exception) for result in results] == [False, True, False, True]
    assert await words(database) == {"before": 1, "after": 1}


async def test_a_transaction_in_which_an_error_was_swallowed_is_not_taken_for_committed(
    database: Database,
) -> None:
    def swallow(connection: Connection) -> str:
        insert("lost")(connection)
        with pytest.raises(Exception, match="nowhere"):
            connection.all("SELECT 1 FROM nowhere")
        return "done"

    with pytest.raises(Exception, match=r"InFailedSqlTransaction|^$|aborted"):
        await database.write(swallow)
    assert await words(database) == {}


@pytest.mark.parametrize("sql", ["INSERT INTO words VALUES ('x')", "DELETE FROM words", "DROP TABLE words"])
async def test_readers_cannot_write(database: Database, sql: str) -> None:
    with pytest.raises(Exception, match="read-only"):
        await database.read(sql)


async def test_a_query_sees_one_moment(database: Database) -> None:
    await database.write(insert("a"))
    loop = asyncio.get_running_loop()

    def look_twice(connection: Connection) -> tuple[Any, Any]:
        before = connection.all("SELECT word FROM words")
        asyncio.run_coroutine_threadsafe(database.write(insert("b")), loop).result(10)
        return before, connection.all("SELECT word FROM words")

    before, after = await database.query(look_twice)
    assert [row["word"] for row in before] == [row["word"] for row in after] == ["a"]


async def test_texts_compare_as_in_sqlite(database: Database) -> None:
    """Byte by byte in an order, and without regard to case where it is asked for, in every script."""
    await database.execute_many("INSERT INTO marks VALUES (?, 0)", [(word,) for word in "bBaäA"])
    ordered = await database.read("SELECT name FROM marks ORDER BY name")
    assert [word for (word,) in ordered] == [*"ABabä"]
    found = await database.one("SELECT casefold(?) AS folded", ("ÄÖÜ ЖЗ",))
    assert found is not None
    assert found["folded"] == "äöü жз"


async def test_deleted_rows_leave_no_bytes_in_the_tables(database: Database, cluster: Cluster) -> None:
    word = "quixel7q" * 20
    await database.write(insert(word))
    await database.write(lambda connection: connection.run("DELETE FROM words"))
    await database.connector.overwrite()
    with cluster.operator() as driver:
        driver.execute("CHECKPOINT")
    files = (cluster.folder / "data" / "base").rglob("*")
    assert not [path for path in files if path.is_file() and b"quixel7q" in path.read_bytes()]


# --- what breaks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [signal.SIGQUIT, *(pytest.param(how, marks=pytest.mark.slow) for how in (signal.SIGKILL, signal.SIGINT))],
)
@pytest.mark.timeout(180)
async def test_what_was_acknowledged_is_kept_once_when_the_server_ends_under_load(
    mortal: Cluster, tmp_path: Path, how: signal.Signals
) -> None:
    acknowledged: list[str] = []
    enough = asyncio.Event()
    stops = (60, 180, 300)

    async with opened(mortal.url(f"{tmp_path} {how}"), wait_seconds=60) as database:
        await database.write(lambda connection: connection.run(TABLE))

        async def write(worker: int) -> None:
            for number in range(60):
                acknowledged.append(await database.write(insert(f"{worker}-{number}")))
                if len(acknowledged) in stops:
                    enough.set()
                if number % 25 == 0:
                    await words(database)

        writing = [asyncio.create_task(write(worker)) for worker in range(8)]
        for _ in stops:
            await enough.wait()
            enough.clear()
            await asyncio.to_thread(mortal.stop, how)
            await asyncio.to_thread(mortal.start)
        await asyncio.gather(*writing)
        assert len(acknowledged) == 8 * 60
        assert await words(database) == Counter(acknowledged)
        assert database.connector.problem() is None


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_commit_without_an_answer_is_made_once(
    cluster: Cluster, tmp_path: Path, arrives: bool
) -> None:
    with CutLine(cluster.port) as line:
        url = through(line, cluster.url(str(tmp_path), loopback=True), cluster)
        async with opened(url) as database:
            await database.write(lambda connection: connection.run(TABLE))
            for number in range(10):
                (line.cut_after_commit if arrives else line.cut_before_commit)()
                both = (insert(f"{number}"), insert(f"{number} too"))
                await asyncio.gather(*map(database.write, both))
            assert line.cuts == 10
            assert await words(database) == Counter(f"{n}{too}" for n in range(10) for too in ("", " too"))


async def test_a_second_server_is_refused_at_once_and_told_who_has_the_journal(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.url(str(tmp_path))
    async with opened(url) as database:
        async with asyncio.timeout(10):
            with pytest.raises(HomeInUse, match=r"another server \(recollect .*is using the journal"):
                await Database(PostgresConnector(url)).open()
        assert await database.write(lambda connection: connection.one("SELECT 1")[0]) == 1
    async with opened(url):
        pass


async def test_journals_in_two_schemas_do_not_keep_each_other_out(cluster: Cluster, tmp_path: Path) -> None:
    async with opened(cluster.url(f"{tmp_path} one")), opened(cluster.url(f"{tmp_path} two")):
        pass


async def test_a_server_whose_journal_was_taken_over_writes_no_more(cluster: Cluster, tmp_path: Path) -> None:
    straight = cluster.url(str(tmp_path), loopback=True)
    with CutLine(cluster.port) as line:
        async with opened(through(line, straight, cluster), wait_seconds=10) as old:
            await old.write(lambda connection: connection.run(TABLE))
            line.cut(for_good=True)
            late = asyncio.create_task(old.write(insert("late")))
            async with opened(straight) as new:
                line.mend()
                with pytest.raises(StorageUnavailable, match="another server has taken over"):
                    await late
                with pytest.raises(StorageUnavailable, match="taken over"):
                    await old.write(insert("later"))
                assert "taken over" in str(old.connector.problem())
                await new.write(insert("new"))
                assert await words(new) == {"new": 1}


async def test_the_lock_is_taken_again_after_a_restart(mortal: Cluster, tmp_path: Path) -> None:
    url = mortal.url(str(tmp_path))
    async with opened(url) as database:
        await asyncio.to_thread(mortal.stop)
        await asyncio.to_thread(mortal.start)
        await database.write(lambda connection: connection.run(TABLE))
        with pytest.raises(HomeInUse):
            await Database(PostgresConnector(url)).open()


async def test_what_waits_too_long_for_the_server_is_told_so_and_is_not_written_later(
    mortal: Cluster, tmp_path: Path
) -> None:
    async with opened(mortal.url(str(tmp_path)), wait_seconds=0.5) as database:
        await database.write(lambda connection: connection.run(TABLE))
        await asyncio.to_thread(mortal.stop)
        try:
            for _ in range(2):
                with pytest.raises(Unavailable, match="does not answer") as away:
                    await database.write(insert("late"))
                assert away.value.retry_after
            assert "does not answer" in str(database.connector.problem())
            with pytest.raises(Unavailable, match="does not answer"):
                await words(database)
        finally:
            await asyncio.to_thread(mortal.start)
        await database.write(insert("again"))
        assert database.connector.problem() is None
        assert await words(database) == {"again": 1}


async def test_a_start_waits_for_the_server(mortal: Cluster, tmp_path: Path) -> None:
    url = mortal.url(str(tmp_path))
    await asyncio.to_thread(mortal.stop)
    starting = threading.Timer(0.3, mortal.start)
    starting.start()
    async with opened(url):
        starting.join()


# --- what is wrong from the beginning ---------------------------------------------------------------


async def problem(url: str) -> str:
    connector = PostgresConnector(url, wait_seconds=0.2)
    with pytest.raises(RecollectError) as refused:
        await connector.open()
    assert "hunter2" not in refused.value.message
    assert "wrong" not in refused.value.message
    return refused.value.message


async def test_what_keeps_the_journal_from_being_opened_is_told_with_what_to_do(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loopback = cluster.url(str(tmp_path), loopback=True)
    assert "Check user, password" in await problem(loopback.replace("hunter2", "wrong"))
    assert "createdb" in await problem(loopback.replace("/journals", "/nowhere"))
    assert "Is it running?" in await problem(loopback.replace(f":{cluster.port}", ":1"))
    with cluster.operator() as driver:
        driver.execute("CREATE DATABASE latin OWNER recollect ENCODING LATIN1 TEMPLATE template0 LOCALE 'C'")
    assert "needs UTF8" in await problem(loopback.replace("/journals", "/latin"))
    assert "hunter2" not in caplog.text


def test_an_address_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(HomeUnusable, match="RECOLLECT_DATABASE_URL") as refused:
        PostgresConnector("postgresql://ann:hunter2@host:port:1/x?what=hunter2")
    assert "hunter2" not in refused.value.message


def test_an_address_is_named_without_its_password() -> None:
    assert (
        name_of("postgresql://ann:hunter2@db.example:5433/memory")
        == "postgresql://ann@db.example:5433/memory"
    )
    assert name_of("postgresql:///memory") == "postgresql://localhost/memory"


async def test_an_old_server_is_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "_OLDEST_SERVER", 99)
    assert "needs 99 or newer" in await problem(cluster.url(str(tmp_path)))


async def test_a_database_with_tables_of_others_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.url(str(tmp_path))
    with cluster.inside(url) as driver:
        driver.execute("CREATE TABLE turns (theirs INT)")
    assert "not a journal's" in await problem(url)
    with cluster.inside(url) as driver:
        assert driver.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
        ).fetchone() == (1,)


async def test_a_schema_of_a_newer_version_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.url(str(tmp_path))
    async with opened(url):
        pass
    with cluster.inside(url) as driver:
        driver.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNew):
        await PostgresConnector(url).open()


async def test_a_journal_of_the_first_schema_that_postgresql_had_is_upgraded(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.url(str(tmp_path))
    async with opened(url) as database:
        await database.execute("DROP TABLE audit_lines")
        await database.execute(f"UPDATE alembic_version SET version_num = '{BASE}'")
    async with opened(url) as database:
        lines = SqlAuditLines(database, kept=1)
        for line in ("one", "two"):
            await lines.append(line)
        assert await lines.all() == ["two"]


async def test_a_migration_in_the_words_of_sqlite_upgrades_postgresql_too(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.url(str(tmp_path))
    async with opened(url):
        pass
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    for file in (
        "env.py",
        *(f"versions/{path.name}" for path in (migrations_folder() / "versions").glob("*.py")),
    ):
        (folder / file).write_bytes((migrations_folder() / file).read_bytes())
    (folder / "versions" / "9000_more.py").write_text(
        f"""
from alembic import op

revision = "9000"
down_revision = "{HEAD}"


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    run("CREATE TABLE more (pk INTEGER PRIMARY KEY, name TEXT NOT NULL, body BLOB) WITHOUT ROWID")
    run("INSERT INTO more VALUES (?, ?, NULL)", (2**40, "50 %"))
    op.execute("ALTER TABLE threads ADD COLUMN more INTEGER NOT NULL DEFAULT 1")
""",
        encoding="utf-8",
    )
    with postgres_connection.connected(url, "test", application="test") as driver:
        assert upgrade_postgres(driver, "test", head="9000", migrations=folder)
        assert current_revision(driver) == "9000"
        assert tuple(driver.execute("SELECT pk, name FROM more").fetchone() or ()) == (2**40, "50 %")
