"""Who leads: of several servers on a journal in PostgreSQL, the one that holds its lock."""

import logging
from dataclasses import dataclass

import psycopg

from recollect.infra.journal.connector import Leader
from recollect.infra.journal.postgres_connection import Driver, connected, in_a_line

_LONGEST_LOOK = 5.0
_log = logging.getLogger("recollect.journal")
_IS_HELD = """
EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = hashtext('recollect journal')::bigint & 4294967295
    AND objid = current_schema()::regnamespace::oid)"""
_WRITER = "SELECT to_regclass('journal_writer') IS NOT NULL"
_LOOK = f"SELECT {_IS_HELD}, to_jsonb(w) ->> 'leader' FROM journal_writer w"
"""As JSON, since the schema of an older version has no such column."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the journal says at one moment."""

    is_held: bool
    """Whether some process has the journal."""
    leader: Leader | None = None
    """Who took it last; None where that serves nobody but itself, or has left."""


class Leadership:
    """Looks at the journal on a connection of its own, and changes nothing. For one thread at a time."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._driver: Driver | None = None
        self._is_first = True

    def look(self) -> Seen | None:
        """None while PostgreSQL does not answer. Raises HomeUnusable where waiting does not help."""
        try:
            if self._driver is None:
                is_first, self._is_first = self._is_first, False
                self._driver = connected(
                    self._url, self._name, application="recollect member", is_start=is_first
                )
                self._driver.patience = _LONGEST_LOOK
            return _seen(self._driver)
        except psycopg.Error as error:
            _log.info("PostgreSQL at %s does not tell who leads: %s", self._name, in_a_line(error))
            self.close()
            return None

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def _seen(driver: Driver) -> Seen:
    there = driver.execute(_WRITER).fetchone()
    row = driver.execute(_LOOK).fetchone() if there and there[0] else None
    if row is None:
        return Seen(is_held=False)
    is_held, leader = row
    return Seen(bool(is_held), Leader.read(leader) if leader else None)
