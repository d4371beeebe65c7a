"""A thread belongs to (space, user, id); jobs and the sources of memories name the user too.

The keys of threads change: wherever one is stored it is computed again. Tombstones keep theirs.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from alembic import op
from sqlalchemy import Connection

revision = "0017"
down_revision = "0016"

COLUMNS = """
    pk, space, thread_id, user_id, agent_id, title, tags_json, preset, backend, incognito, created, updated, last_number,
    turn_count, unasked, forgotten, lookalikes, header_revision, revision, chained, chained_revision, pinned"""

THREADS = (
    """
    CREATE TABLE owned_threads (
        pk INTEGER PRIMARY KEY,
        space TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        agent_id TEXT,
        title TEXT,
        tags_json TEXT NOT NULL DEFAULT '[]',
        preset TEXT,
        backend TEXT,
        incognito INTEGER NOT NULL DEFAULT 0,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        last_number INTEGER NOT NULL DEFAULT 0,
        turn_count INTEGER NOT NULL DEFAULT 0,
        unasked INTEGER NOT NULL DEFAULT 0,
        forgotten INTEGER NOT NULL DEFAULT 0,
        lookalikes INTEGER NOT NULL DEFAULT 0,
        header_revision INTEGER NOT NULL DEFAULT 1,
        revision INTEGER NOT NULL DEFAULT 0,
        chained INTEGER NOT NULL DEFAULT 0,
        chained_revision INTEGER NOT NULL DEFAULT 0,
        pinned INTEGER NOT NULL DEFAULT 0,
        UNIQUE (space, thread_id, user_id)
    )""",
    f"INSERT INTO owned_threads ({COLUMNS}) SELECT {COLUMNS} FROM threads",
    # Foreign keys are off: with them, all that refers to a thread would go with the table.
    "DROP TABLE threads",
    "ALTER TABLE owned_threads RENAME TO threads",
    "CREATE INDEX threads_by_user ON threads (space, user_id, created, pk)",
    """
    CREATE INDEX threads_behind_in_chains ON threads (space, user_id)
    WHERE chained < last_number OR chained_revision != revision""",
    "CREATE INDEX threads_by_use ON threads (space, user_id, pinned DESC, updated DESC, thread_id DESC)",
)

NEW_COLUMNS = (
    "ALTER TABLE jobs ADD COLUMN user_id TEXT",
    "ALTER TABLE entry_sources ADD COLUMN user_id TEXT NOT NULL DEFAULT ''",
)

_lane = re.compile(r"(cells|vault|chat|forget):[0-9a-f]{32}").fullmatch


def upgrade() -> None:
    connection = op.get_bind()
    (enforced,) = connection.exec_driver_sql("PRAGMA foreign_keys").one()
    if enforced:
        raise RuntimeError("foreign keys are on: the rows of every thread would be deleted")
    for statement in (*THREADS, *NEW_COLUMNS):
        op.execute(statement)
    owners = {
        (space, thread_id): user_id
        for space, thread_id, user_id in _rows(connection, "SELECT space, thread_id, user_id FROM threads")
    }
    _name_sources(connection, owners)
    _name_answers(connection, owners)
    _name_jobs(connection, owners)


def _name_sources(connection: Connection, owners: dict[tuple[str, str], str]) -> None:
    found = _rows(
        connection,
        "SELECT s.entry_pk, s.place, e.space, s.thread_id FROM entry_sources s JOIN entries e ON e.pk = s.entry_pk",
    )
    for entry_pk, place, space, thread_id in list(found):
        user_id = owners.get((space, thread_id), "")
        connection.exec_driver_sql(
            "UPDATE entry_sources SET user_id = ?, thread_key = ? WHERE entry_pk = ? AND place = ?",
            (user_id, _key(space, user_id, thread_id), entry_pk, place),
        )


def _name_answers(connection: Connection, owners: dict[tuple[str, str], str]) -> None:
    """A stretch of turns that is no memcell is named by its thread's key."""
    keys = {
        _key(space, thread_id): _key(space, user_id, thread_id)
        for (space, thread_id), user_id in owners.items()
    }
    answered = [old for (old,) in _rows(connection, "SELECT DISTINCT thread_key FROM model_answers")]
    for old in answered:
        if (new := keys.get(old)) is not None:
            connection.exec_driver_sql(
                "UPDATE model_answers SET thread_key = ?, cell ="
                " iif(substr(cell, 1, 17) = ?, ? || substr(cell, 17), cell) WHERE thread_key = ?",
                (new, f"{old[:16]}-", new[:16], old),
            )


def _name_jobs(connection: Connection, owners: dict[tuple[str, str], str]) -> None:
    for pk, lane, space, thread_id, payload_json in list(
        _rows(connection, "SELECT pk, lane, space, thread_id, payload_json FROM jobs")
    ):
        payload = json.loads(payload_json)
        # What is purged may be of a user before whose id another uses by now.
        user_id = payload.get("user_id") or owners.get((space, thread_id)) if thread_id is not None else None
        found, new_lane = _lane(lane), lane
        if user_id is not None and found is not None:
            new_lane = f"{found[1]}:{_key(space, user_id, thread_id)}"
        if "causes" in payload:
            payload["causes"] = [
                {"user": owners[space, cause["thread"]], **cause}
                for cause in payload["causes"]
                if (space, cause["thread"]) in owners
            ]
        if "cells" in payload:
            payload["cells"] = [
                [owners[space, thread], thread, cell]
                for thread, cell in payload["cells"]
                if (space, thread) in owners
            ]
        connection.exec_driver_sql(
            "UPDATE jobs SET user_id = ?, lane = ?, payload_json = ? WHERE pk = ?",
            (user_id, new_lane, json.dumps(payload, ensure_ascii=False), pk),
        )


def _rows(connection: Connection, sql: str) -> Iterator[Any]:
    return iter(connection.exec_driver_sql(sql).all())


def _key(*names: str) -> str:
    return hashlib.sha256(json.dumps(names, separators=(",", ":")).encode()).hexdigest()[:32]
