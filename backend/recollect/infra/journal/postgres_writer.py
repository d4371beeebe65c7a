"""The connection that writes the journal in PostgreSQL: it survives restarts, and knows what was committed."""

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

from recollect.errors import HomeInUse, HomeUnusable, StorageUnavailable, Unavailable
from recollect.infra.journal.group_commit import Outcome, Pending, answer
from recollect.infra.journal.postgres_connection import (
    RETRY_AFTER,
    UNDER_WAY,
    Driver,
    PostgresConnection,
    away,
    connected,
    in_a_line,
    is_lost,
    translated,
)
from recollect.infra.journal.postgres_schema import upgrade_postgres

_LOCK_SECONDS = 2.0
"""A server that was killed a moment ago may hold its lock that much longer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LOCK = "hashtext('recollect journal'), current_schema()::regnamespace::oid::bigint::int"
_TAKE_LOCK = f"SELECT pg_try_advisory_lock({_LOCK})"
_HOLDER = """
SELECT a.application_name, coalesce(host(a.client_addr), 'this machine') FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.objid = current_schema()::regnamespace::oid"""
_END_OLD = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND pid != pg_backend_pid()"""
"""What is left of this process's own writer, where the server has not noticed that its connection broke."""
_CHECK_CLIENT = "SET client_connection_check_interval = '1s'"
"""The server notices within a second that this process died, in the middle of a long statement too."""
_log = logging.getLogger("recollect.journal")


class PostgresTransactions:
    """The connection that writes. One that breaks is made again, and what its transaction became is found out.

    Each transaction writes its number into the row `journal_writer`, beside the token of this process: after a COMMIT
    whose answer was lost, the row says whether it was made. A process whose token is no longer there can't commit.
    """

    errors: type[Exception] = psycopg.Error

    connection: PostgresConnection

    def __init__(self, url: str, name: str, *, durable: bool, wait_seconds: float) -> None:
        self._url = url
        self._name = name
        self._durable = durable
        self._wait_seconds = wait_seconds
        self._token = secrets.token_hex(8)
        self._application = f"recollect {socket.gethostname()[:24]} {os.getpid()} {self._token}"
        self._kept: dict[str, Any] = {}
        self._sequence = 0
        self._commits = False
        """A COMMIT has been sent, and not been answered."""
        self._marked = False
        self._fenced = False

    @property
    def driver(self) -> Driver:
        return self.connection.driver

    def open(self) -> None:
        """Connect, upgrade the schema, and take the journal. Waits for a server that is not there yet."""
        wait_for(partial(self._connect, is_start=True), self._name, self._wait_seconds)
        try:
            self._take_lock()
            upgrade_postgres(self.driver, self._name)
            self._query("UPDATE journal_writer SET token = %s, sequence = 0 RETURNING 1", self._token)
        except BaseException:
            self.driver.close()
            raise

    def close(self) -> None:
        self.driver.close()

    def begin(self) -> None:
        if self._fenced:
            raise _Fenced
        self._sequence += 1
        self._commits = self._marked = False
        # One round trip. The token is a number of ours, so it can be part of the text.
        mine = f"UPDATE journal_writer SET sequence = {self._sequence} WHERE token = '{self._token}'"
        begun = self.driver.execute(f"BEGIN; {mine}".encode(), prepare=False)
        begun.nextset()
        if begun.rowcount != 1:
            self._fenced = True
            self.roll_back()
            raise _Fenced

    def commit(self) -> None:
        self._commits = True
        done = self.driver.execute("COMMIT", prepare=False)
        self._commits = False
        if done.statusmessage != "COMMIT":  # It answers ROLLBACK where a statement failed and nobody minded.
            raise psycopg.errors.InFailedSqlTransaction

    def roll_back(self) -> None:
        if self.is_open():
            self.driver.execute("ROLLBACK")

    def is_open(self) -> bool:
        return self.driver.info.transaction_status in UNDER_WAY

    def mark(self) -> None:
        again = "RELEASE operation; SAVEPOINT operation" if self._marked else "SAVEPOINT operation"
        self.driver.execute(again.encode(), prepare=False)
        self._marked = True

    def release(self) -> None:
        """The next mark does, in the same round trip, or the end of the transaction."""

    def undo(self) -> None:
        self.driver.execute("ROLLBACK TO operation")

    def translated(self, error: Exception) -> Exception:
        if self._fenced:
            return StorageUnavailable(
                f"another server has taken over the journal at {self._name}; this one can't write any more."
                " Stop one of the two and restart the other."
            )
        return translated(error, self._name)

    def settle(self, error: Exception, group: list[Pending]) -> Outcome:
        if not self._fenced and not is_lost(self.driver, error):
            with suppress(psycopg.Error):
                self.roll_back()
                return Outcome.UNDONE
        in_doubt, pause = self._commits, _FIRST_PAUSE
        _log.warning("lost the connection to PostgreSQL at %s: %s", self._name, in_a_line(error))
        while not self._fenced:
            self._give_up_late(group, in_doubt=in_doubt)
            if not group:
                return Outcome.AGAIN
            try:
                committed = self._reconnect()
            except (psycopg.OperationalError, HomeUnusable, HomeInUse) as problem:
                _log.info("PostgreSQL at %s is not back: %s", self._name, in_a_line(problem))
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except _Fenced:
                self._fenced = True
            else:
                _log.info("the connection to PostgreSQL at %s is back", self._name)
                return Outcome.COMMITTED if in_doubt and committed == self._sequence else Outcome.AGAIN
        return Outcome.UNDONE

    def _give_up_late(self, group: list[Pending], *, in_doubt: bool) -> None:
        """Answer those that have waited long enough; they are not tried again."""
        now = time.monotonic()
        late = [pending for pending in group if now - pending.arrived >= self._wait_seconds]
        for pending in late:
            pending.error = away(self._name)
            if in_doubt:
                pending.error = Unavailable(
                    f"PostgreSQL at {self._name} went away during a commit; whether this was kept is not known yet",
                    retry_after=RETRY_AFTER,
                )
        answer(late)
        group[:] = [pending for pending in group if pending not in late]

    def _reconnect(self) -> int:
        """The number of the last transaction that was committed. Raises what keeps the journal from being taken again.

        The lock is free only when the server has ended the old connection: nothing of it can be committed later.
        """
        self.driver.close()
        self._connect()
        self._last_committed()
        self._query(_END_OLD, self._application)
        self._take_lock()
        return self._last_committed()

    def _last_committed(self) -> int:
        """Raises _Fenced where another server has begun to write."""
        token, sequence = self._query("SELECT token, sequence FROM journal_writer")
        if token != self._token:
            raise _Fenced
        return int(sequence)

    def _connect(self, *, is_start: bool = False) -> None:
        driver = connected(
            self._url, self._name, application=self._application, durable=self._durable, is_start=is_start
        )
        driver.execute(_CHECK_CLIENT)
        self.connection = PostgresConnection(driver, self._kept)

    def _take_lock(self) -> None:
        """Raises HomeInUse where another server holds it, and goes on holding it."""
        until = time.monotonic() + _LOCK_SECONDS
        while not self._query(_TAKE_LOCK)[0]:
            if time.monotonic() > until:
                holder = self._query(_HOLDER)
                who = f" ({holder[0]}, from {holder[1]})" if holder else ""
                raise HomeInUse(
                    f"another server{who} is using the journal at {self._name}; stop it first, or choose another"
                    " RECOLLECT_DATABASE_URL"
                )
            time.sleep(_FIRST_PAUSE)

    def _query(self, sql: str, *bound: Any) -> Any:
        """The first row, of a statement that is not worth being prepared."""
        return self.driver.execute(sql.encode(), bound, prepare=False).fetchone()


class _Fenced(psycopg.Error):
    """The token in the journal is another server's."""


def wait_for(connect: Callable[[], None], name: str, seconds: float) -> None:
    """Call `connect` until it does not raise OperationalError. Raises Unavailable when the time is up."""
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        try:
            return connect()
        except psycopg.OperationalError as error:
            if time.monotonic() + pause >= until:
                raise away(name) from error
            if pause == _FIRST_PAUSE:
                _log.warning("waiting for PostgreSQL at %s: %s", name, in_a_line(error))
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
