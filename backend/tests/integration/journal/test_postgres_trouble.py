"""The journal in PostgreSQL when a request, an operator or the server itself does what it should not."""

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import (
    HomeInUse,
    HomeUnusable,
    InvalidInput,
    RecollectError,
    StorageUnavailable,
    Unavailable,
)
from recollect.infra.journal import postgres_writer
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database
from recollect.infra.journal.moving import fill_postgres
from recollect.infra.journal.postgres import PostgresConnector, name_of
from recollect.infra.journal.rows import NewJob, add_causes, count_causes, queue_jobs, queued_job_id
from recollect.infra.journal.sqlite import SqliteConnector
from tests.postgres import TABLE, Cluster, cluster_of_session, insert, opened, own_cluster, words

WRITERS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'recollect % %'"
SOON = 10
NEW_THREAD = "INSERT INTO threads (space, thread_id, user_id, title, created, updated) VALUES ('default', ?, ?, ?, 1, 1)"


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of_session()


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A server whose settings are changed, and which is stopped."""
    with own_cluster("fsync=off") as cluster:
        yield cluster


def writer(cluster: Cluster) -> int:
    """The server's process for the one journal that is open."""
    with cluster.operator() as operator:
        ((pid,),) = operator.execute(WRITERS).fetchall()
    return int(pid)


def set_on_server(cluster: Cluster, *statements: str) -> None:
    with cluster.operator() as operator:
        for statement in ("SET synchronous_commit = local", *statements, "SELECT pg_reload_conf()"):
            operator.execute(statement.encode())


async def test_a_writer_that_could_not_take_the_lock_again_writes_only_when_it_has_it(
    own: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "_LOCK_SECONDS", 0.2)
    url = own.url(str(tmp_path))
    async with opened(url, wait_seconds=0.3) as database:
        await database.write(lambda connection: connection.run(TABLE))
        with own.inside(url) as other, own.operator() as operator:
            lock = "SELECT pg_advisory_lock(hashtext('recollect journal'), current_schema()::regnamespace::oid::bigint::int)"
            taking = threading.Thread(target=other.execute, args=(lock,))
            taking.start()
            operator.execute("SELECT pg_terminate_backend(%s)", (writer(own),))
            taking.join()
            with pytest.raises(Unavailable, match="does not answer"):
                await database.write(insert("without the lock"))
        await database.write(insert("with the lock"))
        with pytest.raises(HomeInUse):
            await PostgresConnector(url).open()
        assert await words(database) == {"with the lock": 1}


async def test_a_nul_is_kept_as_what_stands_for_what_cannot_be_shown(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with opened(cluster.url(str(tmp_path))) as database:
        await database.execute(NEW_THREAD, ("t", "me", "a\0b"))
        listed = json.dumps(["a\0b", "c\\u0000d", "\\\0\0"])
        found = await database.read("SELECT value FROM json_each(?)", (listed,))
        assert [value for (value,) in found] == ["a\ufffdb", "c\\u0000d", "\\\ufffd\ufffd"]
        same = "SELECT title FROM threads WHERE title = ? AND title IN (SELECT value FROM json_each(?))"
        assert [title for (title,) in await database.read(same, ("a\0b", listed))] == ["a\ufffdb"]
        picked = await database.one("SELECT json_extract(?, '$.x') AS x", (json.dumps({"x": "a\0"}),))
        assert picked is not None
        assert picked["x"] == "a\ufffd"


async def test_a_file_with_a_nul_is_copied_with_what_stands_for_it(cluster: Cluster, tmp_path: Path) -> None:
    file = Database(SqliteConnector(tmp_path / "journal.db"))
    await file.open()
    await file.execute(NEW_THREAD, ("t", "me", "a\0b"))
    await file.close()
    connector = PostgresConnector(cluster.url(str(tmp_path)))
    for _ in range(2):
        copied = await fill_postgres(tmp_path / "journal.db", connector, lambda done, total: None)
        assert copied["threads"].rows == 1
    async with opened(cluster.url(str(tmp_path))) as database:
        assert [title for (title,) in await database.read("SELECT title FROM threads")] == ["a\ufffdb"]


async def test_an_id_that_no_index_takes_is_the_mistake_of_that_request(
    cluster: Cluster, tmp_path: Path
) -> None:
    ids = "".join(chr(0x4E00 + 7919 * number % 20_000) for number in range(1024))
    async with opened(cluster.url(str(tmp_path))) as database:
        with pytest.raises(InvalidInput, match="too long"):
            await database.execute(NEW_THREAD, (ids[:512], ids[512:], None))
        assert database.connector.problem() is None


async def test_an_error_of_one_statement_is_no_outage_and_tells_no_text(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with opened(cluster.url(str(tmp_path))) as database:
        for bad, values in ((NEW_THREAD, ("t", None, "my diary")), ("SELECT CAST(? AS BIGINT)", ("x" * 9,))):
            with pytest.raises(Exception, match=r"null value|invalid input syntax") as refused:
                await database.execute(bad, values)
            assert not isinstance(refused.value, RecollectError)
            assert "diary" not in str(refused.value)
        assert database.connector.problem() is None


async def test_the_causes_of_a_waiting_job_are_counted(cluster: Cluster, tmp_path: Path) -> None:
    job = NewJob("kind", "lane", "default", None, 0, "{}")

    def twice(connection: Connection) -> int:
        queue_jobs(connection, [job], 0)
        job_id = queued_job_id(connection, job)
        assert count_causes(connection, job_id) == 0
        add_causes(connection, job_id, [{}, {}])
        return count_causes(connection, job_id)

    async with opened(cluster.url(str(tmp_path))) as database:
        assert await database.write(twice) == 2


async def test_a_schema_that_its_user_may_not_use_is_told_as_such(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.url(str(tmp_path)) + "_not_there"
    with pytest.raises(HomeUnusable, match="CREATE SCHEMA"):
        await PostgresConnector(url).open()
    async with opened(cluster.url(str(tmp_path))):
        pass
    with cluster.inside(cluster.url(str(tmp_path))) as driver:
        driver.execute("REVOKE SELECT ON alembic_version FROM CURRENT_USER")
    with pytest.raises(StorageUnavailable, match="its user may not do that"):
        await PostgresConnector(cluster.url(str(tmp_path))).exists()


async def test_a_start_waits_for_a_connection_to_be_free(own: Cluster, tmp_path: Path) -> None:
    url = own.url(str(tmp_path))
    set_on_server(own, "ALTER ROLE recollect CONNECTION LIMIT 0")
    free = "ALTER ROLE recollect CONNECTION LIMIT -1"
    freed = threading.Timer(0.3, set_on_server, (own, free))
    freed.start()
    try:
        async with opened(url) as database:
            assert database.connector.problem() is None
    finally:
        freed.join()


# --- what is late -----------------------------------------------------------------------------------


async def test_a_commit_that_waits_for_a_lost_standby_is_told_as_not_known_and_closing_ends(
    own: Cluster, tmp_path: Path
) -> None:
    answered = 0

    async def write_until_refused() -> None:
        """The server takes its new setting in a moment of its own."""
        nonlocal answered
        while True:
            await database.write(insert("in doubt"))
            answered += 1

    async with opened(own.url(str(tmp_path)), wait_seconds=0.3) as database:
        await database.write(lambda connection: connection.run(TABLE))
        set_on_server(own, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        try:
            async with asyncio.timeout(SOON):
                with pytest.raises(Unavailable, match="not known"):
                    await write_until_refused()
                assert database.connector.problem()
                late = asyncio.create_task(database.write(insert("too late")))
                await asyncio.sleep(0)
                await database.close()
                with pytest.raises(Unavailable):
                    await late
        finally:
            set_on_server(own, "ALTER SYSTEM RESET synchronous_standby_names")
        await database.open()
        assert (await words(database))["in doubt"] == answered + 1


async def test_a_server_that_says_nothing_is_late(own: Cluster, tmp_path: Path) -> None:
    async with opened(own.url(str(tmp_path)), wait_seconds=0.3) as database:
        await database.write(lambda connection: connection.run(TABLE))
        silent = writer(own)
        os.kill(silent, signal.SIGSTOP)
        try:
            async with asyncio.timeout(SOON):
                with pytest.raises(Unavailable, match="does not answer"):
                    await database.write(insert("late"))
        finally:
            os.kill(silent, signal.SIGCONT)
        await database.write(insert("again"))
        assert await words(database) == {"again": 1}


async def test_reads_wait_from_when_they_came_and_one_of_them_says_so(
    own: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wait = 0.5
    async with opened(own.url(str(tmp_path)), wait_seconds=wait) as database:
        await asyncio.to_thread(own.stop)
        try:
            began = time.monotonic()
            answers = await asyncio.gather(
                *(database.read("SELECT 1") for _ in range(40)), return_exceptions=True
            )
            assert time.monotonic() - began < 4 * wait
        finally:
            await asyncio.to_thread(own.start)
        assert {type(answer) for answer in answers} == {Unavailable}
        warned = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert ["waiting for PostgreSQL" in record.message for record in warned] == [True]
        assert len(await database.read("SELECT 1")) == 1


async def test_tables_are_not_written_again_while_somebody_reads_them_and_nobody_waits(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.url(str(tmp_path))
    async with opened(url) as database:
        with cluster.inside(url) as dump:
            dump.execute("BEGIN; LOCK TABLE marks IN ACCESS SHARE MODE")
            async with asyncio.timeout(SOON):
                with pytest.raises(Unavailable, match="somebody is reading"):
                    await database.connector.overwrite()
                await database.execute("INSERT INTO marks VALUES ('x', 1)")
        await database.connector.overwrite()
        usual = await database.write(lambda connection: connection.one("SHOW lock_timeout")[0])
        assert usual == "30s"


async def test_a_server_that_became_read_only_is_lost_until_it_can_be_written_again(
    own: Cluster, tmp_path: Path
) -> None:
    async with opened(own.url(str(tmp_path))) as database:
        await database.write(lambda connection: connection.run(TABLE))
        set_on_server(
            own, "ALTER DATABASE journals SET default_transaction_read_only = on",
            f"SELECT pg_terminate_backend(pid) FROM ({WRITERS}) AS writers",
        )  # fmt: skip
        waiting = asyncio.create_task(database.write(insert("once")))
        set_on_server(own, "ALTER DATABASE journals SET default_transaction_read_only = off")
        await waiting
        assert await words(database) == {"once": 1}


async def test_a_standby_is_not_taken(own: Cluster, tmp_path: Path) -> None:
    url = own.url(str(tmp_path))
    set_on_server(own, "ALTER DATABASE journals SET default_transaction_read_only = on")
    try:
        with pytest.raises(RecollectError, match="read-only"):
            await PostgresConnector(url, wait_seconds=0.2).open()
    finally:
        set_on_server(own, "ALTER DATABASE journals SET default_transaction_read_only = off")


# --- passwords --------------------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["hunter2/extra", "12/hunter2", "hunter2@x", "hun ter2", "#:/hunter2"])
def test_a_password_that_is_not_encoded_is_refused_and_not_told(password: str) -> None:
    with pytest.raises(HomeUnusable, match="percent-encoded") as refused:
        name_of(f"postgresql://ann:{password}@host/x")
    assert "ter2" not in str(refused.value)


def test_several_servers_may_be_named() -> None:
    assert name_of("postgresql://ann@one:5433,two:5434/x") == "postgresql://ann@one,two:5433,5434/x"
