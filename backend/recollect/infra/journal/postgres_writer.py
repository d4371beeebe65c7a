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
from recollect.infra.journal.connector import Leader
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
_TAKE_OVER = "UPDATE journal_writer SET token = %s, sequence = 0, leader = %s RETURNING 1"
_LEAVE = b"UPDATE journal_writer SET leader = NULL WHERE token = %s"
_HOLDER = """
SELECT a.application_name, coalesce(host(a.client_addr), 'this machine') FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.objid = current_schema()::regnamespace::oid"""
_END_OLD = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND pid != pg_backend_pid()"""
"""What is left of this process's own writer, where the server has not noticed that its connection broke."""
_SETTINGS = """
SET client_connection_check_interval = '1s'; SET lock_timeout = '{lock_ms}ms'; SET statement_timeout = 0;
SET idle_session_timeout = 0; SET idle_in_transaction_session_timeout = 0;
SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 20000"""
"""The server notices within a second that this process died, in the middle of a long statement too; and within 20 that
its machine is gone.
"""
_LONGEST_STATEMENT = 600.0
_LONGEST_LOOK = 5.0
"""Seconds for what finds out what became of a COMMIT."""
_SEQUENCE = "UPDATE journal_writer SET token = token WHERE token = %s RETURNING sequence"
"""A commit of its own: where the log goes to a standby, what was committed before is there, too, when it is answered."""
_log = logging.getLogger("recollect.journal")


class PostgresTransactions:
    """The connection that writes. One that breaks is made again, and what its transaction became is found out.

    Each transaction writes its number into the row `journal_writer`, beside the token of this process: after a COMMIT
    whose answer was lost, the row says whether it was made. A process whose token is no longer there can't commit.
    """

    errors: type[Exception] = psycopg.Error

    connection: PostgresConnection

    def __init__(
        self, url: str, name: str, *, durable: bool, wait_seconds: float, leader: Leader | None = None
    ) -> None:
        self._url = url
        self._name = name
        self._durable = durable
        self._wait_seconds = wait_seconds
        self._leader = leader
        self._token = secrets.token_hex(8)
        self._application = f"recollect {socket.gethostname()[:24]} {os.getpid()} {self._token}"
        self._kept: dict[str, Any] = {}
        self._sequence = 0
        self._commits = False
        """A COMMIT has been sent, and not been answered."""
        self._marked = False
        self._fenced = False
        self._is_away = False
        self._longest = _LONGEST_STATEMENT

    @property
    def driver(self) -> Driver:
        return self.connection.driver

    def open(self) -> None:
        """Connect, upgrade the schema, and take the journal. Waits for a server that is not there yet."""
        wait_for(partial(self._connect, is_start=True), self._name, time.monotonic() + self._wait_seconds)
        try:
            self._take_lock()
            upgrade_postgres(self.driver, self._name)
            self._query(_TAKE_OVER, self._token, self._leader and self._leader.written())
            self.driver.patience = self._longest
        except BaseException:
            self.driver.close()
            raise

    def close(self) -> None:
        if self._leader is not None:
            with suppress(psycopg.Error):  # Then the others wait a moment longer before one of them leads.
                self.driver.execute(_LEAVE, (self._token,), prepare=False)
        self.driver.close()

    def hurry(self) -> None:
        """Asked by another thread: from now on no statement takes longer than what waits may wait."""
        self.driver.patience = self._longest = self._wait_seconds

    def begin(self) -> None:
        self._commits = self._marked = False
        if self._fenced:
            raise _Fenced
        self._sequence += 1
        # One round trip. The token is a number of ours, so it can be part of the text.
        mine = f"UPDATE journal_writer SET sequence = {self._sequence} WHERE token = '{self._token}'"
        begun = self._run_quickly(f"BEGIN; {mine}")
        begun.nextset()
        if begun.rowcount != 1:
            self._fenced = True
            self.roll_back()
            raise _Fenced

    def commit(self) -> None:
        self._commits = True
        done = self._run_quickly("COMMIT")
        self._commits = False
        if done.statusmessage != "COMMIT":  # It answers ROLLBACK where a statement failed and nobody minded.
            raise psycopg.errors.InFailedSqlTransaction

    def _run_quickly(self, sql: str) -> psycopg.Cursor[Any]:
        """What does no work of its own is late where it takes as long as what waits may wait."""
        self.driver.patience = self._wait_seconds
        done = self.driver.execute(sql.encode(), prepare=False)
        self.driver.patience = self._longest
        return done

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
            kept = " Whether this was kept is not known." if self._commits else ""
            return StorageUnavailable(
                f"another server has taken over the journal at {self._name}; this one can't write any more."
                f" Stop one of the two and restart the other.{kept}"
            )
        return translated(error, self._name)

    def settle(self, error: Exception, group: list[Pending]) -> Outcome:
        if not self._fenced and not is_lost(self.driver, error):
            with suppress(psycopg.Error):
                self.roll_back()
                return Outcome.UNDONE
        in_doubt, pause = self._commits, _FIRST_PAUSE
        if not self._is_away:
            _log.warning("lost the connection to PostgreSQL at %s: %s", self._name, in_a_line(error))
        self._is_away = True
        while not self._fenced:
            try:
                committed = self._reconnect()
            except _Fenced:
                self._fenced = True
            except (psycopg.Error, HomeUnusable, HomeInUse) as problem:
                _log.info("PostgreSQL at %s is not back: %s", self._name, in_a_line(problem))
                self._give_up_late(group, in_doubt=in_doubt)
                if not group:
                    return Outcome.AGAIN
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                _log.info("the connection to PostgreSQL at %s is back", self._name)
                self._is_away = False
                return Outcome.COMMITTED if in_doubt and committed == self._sequence else Outcome.AGAIN
        self.driver.close()
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
        try:
            self.driver.patience = min(_LONGEST_LOOK, self._wait_seconds)
            self._refuse_if_taken_over()
            self._query(_END_OLD, self._application)
            self._take_lock()
            committed = self._query(_SEQUENCE, self._token)
            if committed is None:
                raise _Fenced
            self.driver.patience = self._longest
        except BaseException:
            self.driver.close()  # Without the lock it must not be written on.
            raise
        return int(committed[0])

    def _refuse_if_taken_over(self) -> None:
        if self._query("SELECT token FROM journal_writer")[0] != self._token:
            raise _Fenced

    def _connect(self, *, is_start: bool = False) -> None:
        settings = _SETTINGS.format(lock_ms=int(1000 * self._wait_seconds))
        driver = connected(
            self._url,
            self._name,
            application=self._application,
            settings=f"{settings}; SET synchronous_commit = {'on' if self._durable else 'off'}",
            is_start=is_start,
        )
        self.connection = PostgresConnection(driver, self._kept)

    def _take_lock(self) -> None:
        """Raises HomeInUse where another server holds it, and goes on holding it."""
        until = time.monotonic() + _LOCK_SECONDS
        while not (taken := self._query(_TAKE_LOCK)[0]):
            if taken is None:
                raise HomeUnusable(
                    f"the search_path of {self._name} names no schema that its user may use; create it with:"
                    " CREATE SCHEMA … AUTHORIZATION …"
                )
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


def wait_for(connect: Callable[[], None], name: str, until: float, *, level: int = logging.WARNING) -> None:
    """Call `connect` until it does not raise OperationalError. Raises Unavailable when the time is up, or was before."""
    if time.monotonic() >= until:
        raise away(name)
    pause = _FIRST_PAUSE
    while True:
        try:
            return connect()
        except psycopg.OperationalError as error:
            if time.monotonic() + pause >= until:
                raise away(name) from error
            if pause == _FIRST_PAUSE:
                _log.log(level, "waiting for PostgreSQL at %s: %s", name, in_a_line(error))
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
