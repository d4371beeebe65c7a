"""Counting: where is every message that was ever accepted?"""

import hashlib
from collections.abc import Callable
from typing import Any

from recollect.domain.identity import key_within_user, thread_key, turn_digest, turn_id
from recollect.domain.model import Coverage, ThreadRef
from recollect.domain.strategy import STRATEGY
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database
from recollect.infra.journal.rows import TURN_COLUMNS, turn_of

_THREADS_AT_ONCE = 200
_TURNS_AT_ONCE = 200
_LISTED = 100

SCOPE = "space = :space AND (:thread_id IS NULL OR thread_id = :thread_id) AND (:user_id IS NULL OR user_id = :user_id)"

COUNTS = f"""
SELECT count(*) AS messages,
    count(b.turn_pk) AS buffered, count(m.turn_pk) AS celled, count(t.skip_reason) AS skipped,
    count(*) FILTER (WHERE t.skip_reason IS NULL AND t.position <= p.words_to) AS indexed,
    count(*) FILTER (WHERE t.skip_reason IS NULL AND t.position <= p.vectors_to)
        - (SELECT coalesce(sum(refused), 0) FROM index_progress JOIN threads ON pk = thread_pk
            WHERE generation = :generation AND {SCOPE}) AS embedded,
    count(*) FILTER (WHERE b.turn_pk IS NULL AND m.turn_pk IS NULL AND t.skip_reason IS NULL) AS missing,
    count(*) FILTER (WHERE b.turn_pk IS NOT NULL AND m.turn_pk IS NOT NULL
        OR t.skip_reason IS NOT NULL AND coalesce(b.turn_pk, m.turn_pk) IS NOT NULL) AS doubled
FROM turns t
LEFT JOIN unprocessed_buffer b ON b.turn_pk = t.pk
LEFT JOIN memcell_turns m ON m.turn_pk = t.pk
LEFT JOIN index_progress p ON p.generation = :generation AND p.thread_pk = t.thread_pk
WHERE t.thread_pk IN (SELECT pk FROM threads WHERE {SCOPE})"""

# A strategy's job is there until it has ended well: one that waits, runs or is dead holds its memcell back.
UNWORKED = f"""
SELECT count(*) AS number FROM memcell_turns WHERE memcell_pk IN (
    SELECT c.pk FROM memcell c
    WHERE c.memcell_id IN (
        SELECT json_extract(payload_json, '$.cell') FROM jobs WHERE kind = '{STRATEGY}' AND jobs.space = :space
    ) AND c.thread_pk IN (SELECT pk FROM threads WHERE {SCOPE})
)"""

# Every number up to the last one given is a turn or a tombstone; what is neither has been lost.
LOST = f"""
SELECT * FROM (
    SELECT space, user_id, thread_id, last_number - forgotten
        - (SELECT count(*) FROM turns WHERE thread_pk = threads.pk) AS lost
    FROM threads WHERE {SCOPE}
) counted WHERE lost > 0"""

STRAY = f"""
SELECT h.space, h.user_id, h.thread_id, t.position FROM turns t JOIN threads h ON h.pk = t.thread_pk
WHERE t.skip_reason IS NULL AND t.thread_pk IN (SELECT pk FROM threads WHERE {SCOPE})
    AND NOT EXISTS (SELECT 1 FROM unprocessed_buffer b WHERE b.turn_pk = t.pk)
    AND NOT EXISTS (SELECT 1 FROM memcell_turns m WHERE m.turn_pk = t.pk)
ORDER BY h.thread_id, h.user_id, t.position LIMIT {_LISTED}"""

SCOPED_THREADS = f"""
SELECT pk, space, user_id, thread_id FROM threads WHERE {SCOPE} AND (thread_id, user_id) > (:after, :of)
ORDER BY thread_id, user_id LIMIT {_THREADS_AT_ONCE}"""

DIGESTS = "SELECT digest FROM turns WHERE thread_pk = ? ORDER BY position"


FORGOTTEN = """
SELECT count(*) FROM tombstones
WHERE space = :space AND (:key IS NULL OR thread_key = :key) AND (:user_id IS NULL OR user_id = :user_id)"""

UNEQUAL_CELLS = """
SELECT memcell_id FROM memcell c
WHERE json_array_length(message_ids_json) != (SELECT count(*) FROM memcell_turns m WHERE m.memcell_pk = c.pk)
    OR EXISTS (
        SELECT 1 FROM memcell_turns m JOIN turns t ON t.pk = m.turn_pk
        WHERE m.memcell_pk = c.pk AND t.message_id NOT IN (SELECT value FROM json_each(c.message_ids_json))
    )"""

TURNS_TO_CHECK = f"""
SELECT pk, digest, {TURN_COLUMNS} FROM turns WHERE pk > ? ORDER BY pk LIMIT {_TURNS_AT_ONCE}"""


class SqlCoverage:
    """Counts and digests every accepted message, in one consistent view."""

    def __init__(self, database: Database, live_generation: Callable[[], str] = lambda: "") -> None:
        self._database = database
        self._live_generation = live_generation

    async def spaces(self) -> list[str]:
        """Every space that holds anything, `default` always among them."""
        found = await self._database.read("SELECT space FROM threads UNION SELECT space FROM tombstones")
        return sorted({"default", *(row["space"] for row in found)})

    async def inconsistencies(self) -> list[str]:
        """Rows that contradict each other; there are none as long as the journal is sound."""
        damage = await self._database.connector.damage()
        return [f"journal: {each}" for each in damage] + await self._database.query(_inconsistencies)

    async def coverage(
        self, *, space: str, thread_id: str | None = None, user_id: str | None = None
    ) -> Coverage:
        scope = {"space": space, "thread_id": thread_id, "user_id": user_id}
        generation = self._live_generation()
        return await self._database.query(lambda connection: _coverage(connection, scope, generation))


def _inconsistencies(connection: Connection) -> list[str]:
    cells = connection.all(UNEQUAL_CELLS)
    altered = _altered_turns(connection)
    problems = [f"journal: {altered} turns are not what was accepted"] if altered else []
    return problems + [
        f"journal: memcell {row['memcell_id']} does not hold the turns it lists" for row in cells
    ]


def _altered_turns(connection: Connection) -> int:
    """Turns whose words no longer give the digest that was taken when they came."""
    altered = after = 0
    while page := connection.all(TURNS_TO_CHECK, (after,)):
        after = page[-1]["pk"]
        altered += sum(turn_digest(turn_of(row), row["message_id"]) != row["digest"] for row in page)
    return altered


def _coverage(connection: Connection, scope: dict[str, Any], generation: str) -> Coverage:
    (counts,) = connection.all(COUNTS, {**scope, "generation": generation})
    (unworked,) = connection.all(UNWORKED, scope)
    lost = connection.all(LOST, scope)
    stray = connection.all(STRAY, scope)
    forgotten = _forgotten(connection, scope)
    gone = sum(row["lost"] for row in lost)
    return Coverage(
        messages=counts["messages"] + gone + forgotten,
        buffered=counts["buffered"],
        celled=counts["celled"],
        extracted=counts["celled"] - unworked["number"],
        skipped=counts["skipped"],
        forgotten=forgotten,
        missing=counts["missing"] + gone,
        doubled=counts["doubled"],
        indexed=counts["indexed"],
        embedded=counts["embedded"],
        digest=_digest(connection, scope),
        missing_turns=tuple((_thread(row), turn_id(row["position"])) for row in stray)
        + tuple((_thread(row), f"{row['lost']} turns") for row in lost),
    )


def _forgotten(connection: Connection, scope: dict[str, Any]) -> int:
    key = None if scope["thread_id"] is None else key_within_user(scope["space"], scope["thread_id"])
    ((number,),) = connection.all(FORGOTTEN, {**scope, "key": key})
    return int(number)


def _digest(connection: Connection, scope: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    last = {"after": "", "of": ""}
    while page := connection.all(SCOPED_THREADS, {**scope, **last}):
        for row in page:
            # Thread by thread: the digests of many would all be in memory at once.
            found = connection.all(DIGESTS, (row["pk"],))
            if digests := b"".join(each for (each,) in found if each).hex().upper():
                digest.update(f"{thread_key(_thread(row))}:{digests}\n".encode())
        last = {"after": page[-1]["thread_id"], "of": page[-1]["user_id"]}
    return digest.hexdigest()


def _thread(row: Row) -> ThreadRef:
    return ThreadRef(row["space"], row["user_id"], row["thread_id"])
