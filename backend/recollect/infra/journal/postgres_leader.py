"""Who leads: of several servers on a journal in PostgreSQL, the one that holds its lock."""

from dataclasses import dataclass

import psycopg

from recollect.infra.journal.connector import Leader
from recollect.infra.journal.postgres_connection import Driver, connected

_LONGEST_LOOK = 5.0
_IS_HELD = """
EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = hashtext('recollect journal')::bigint & 4294967295
    AND objid = current_schema()::regnamespace::oid)"""
_WRITER = "SELECT to_regclass('journal_writer') IS NOT NULL"
_LOOK = f"SELECT {_IS_HELD}, w.token, to_jsonb(w) ->> 'leader' FROM journal_writer w"
"""As JSON, since the schema of an older version has no such column."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the journal says at one moment."""

    is_held: bool
    """Whether some process has the journal."""
    token: str = ""
    """Of the process that took it last."""
    leader: Leader | None = None
    """None where that process serves nobody but itself."""


class Leadership:
    """Looks at the journal on a connection of its own, and changes nothing. For one thread at a time."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._driver: Driver | None = None

    def look(self) -> Seen:
        """Raises psycopg.Error while PostgreSQL does not answer, HomeUnusable where it never will."""
        if self._driver is None or self._driver.closed:
            self._driver = connected(self._url, self._name, application="recollect member")
        self._driver.patience = _LONGEST_LOOK
        try:
            return _seen(self._driver)
        except psycopg.Error:
            self.close()
            raise

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def _seen(driver: Driver) -> Seen:
    there = driver.execute(_WRITER).fetchone()
    row = driver.execute(_LOOK).fetchone() if there and there[0] else None
    if row is None:
        return Seen(is_held=False)
    is_held, token, leader = row
    return Seen(bool(is_held), token, Leader.read(leader) if leader else None)
