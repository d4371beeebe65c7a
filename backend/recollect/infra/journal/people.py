"""Presets and preferences, with their files."""

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from recollect.domain.job import PEOPLE, people_lane
from recollect.domain.paths import preferences_path, preset_path
from recollect.domain.people import PREFERENCES, PRESET, PeopleFile, Preferences, Preset, preset_key
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database
from recollect.infra.journal.file_versions import (
    FileVersions,
    record_version,
    retire_files,
    retire_version,
)
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.rows import NewJob, dumped, made, queue_jobs

Holds = Preset | Preferences
T = TypeVar("T")
P = TypeVar("P", Preset, Preferences)
_EVERYTHING = -1
_MOST_KNOWN = 1000

VALUE = "SELECT value_json FROM people WHERE space = ? AND kind = ? AND key = ?"

PRESETS = """
SELECT value_json FROM people WHERE space = ? AND kind = ? AND key > ? AND value_json IS NOT NULL
ORDER BY key LIMIT ?"""

FILES = "SELECT space, kind, key, value_json, revision, path, written, digest, writing FROM people"

ADD = "INSERT INTO people (space, kind, key, value_json, path) VALUES (?, ?, ?, ?, ?)"

CHANGE = """
UPDATE people SET value_json = ?, revision = revision + 1 WHERE space = ? AND kind = ? AND key = ? RETURNING path"""

HELD_BY_FILE = """
UPDATE people SET path = ?, digest = ?, written = revision, writing = NULL WHERE space = ? AND kind = ? AND key = ?"""

UNWRITTEN = "UPDATE people SET written = 0, digest = NULL, writing = NULL WHERE path = ?"


class SqlPresetStore(QueueingStore, FileVersions):
    """Reading costs one indexed read. A change is durable, with the job that writes its file, when it returns."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], int],
        on_due: Callable[[int], None] = lambda due: None,
    ) -> None:
        super().__init__(database, clock=clock, on_due=on_due)
        self._known: dict[tuple[str, str, str], str | None] = {}
        """What was read, until anything is written: a chat asks the same at every turn."""
        self._writes = 0

    async def preset(self, space: str, name: str) -> Preset | None:
        value = await self._read_value(space, PRESET, preset_key(name))
        return None if value is None else _preset_of(space, value)

    def clear_cache(self) -> None:
        """The journal was opened: it may be another one."""
        self._known.clear()

    async def _read_value(self, space: str, kind: str, key: str) -> str | None:
        place = (space, kind, key)
        if place not in self._known:
            before = self._writes
            found = await self._database.one(VALUE, place)
            value = None if found is None else found["value_json"]
            if before != self._writes:
                return value
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[place] = value
        return self._known[place]

    async def _write(self, operation: Callable[[Connection], T]) -> T:
        """Drop what was read before. Any write may have queued a job, which is due now."""
        try:
            result = await self._database.write(operation)
        finally:
            self._writes += 1
            self._known.clear()
        self._on_due(self._clock())
        return result

    async def presets(
        self, space: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Preset]:
        """By name; `after` is the last name of the page before."""
        key = "" if after is None else preset_key(after)
        found = await self._database.read(
            PRESETS, (space, PRESET, key, _EVERYTHING if limit is None else limit)
        )
        return [Preset(space, **json.loads(row["value_json"])) for row in found]

    async def change_preset(
        self, space: str, name: str, change: Callable[[Preset | None], Preset]
    ) -> tuple[Preset, bool]:
        """Put what `change` makes of the preset there is; True where there was none. What it raises changes nothing."""

        def work(connection: Connection) -> tuple[Preset, bool]:
            before = _preset_of(space, _value(connection, space, PRESET, preset_key(name)))
            return self._put(connection, before, change(before)), before is None

        return await self._write(work)

    async def delete_preset(self, space: str, name: str) -> bool:
        """False where there is none. Its file goes by a job."""
        key, now = preset_key(name), self._clock()

        def delete(connection: Connection) -> bool:
            row = connection.one(
                "UPDATE people SET value_json = NULL, revision = revision + 1"
                " WHERE space = ? AND kind = ? AND key = ? AND value_json IS NOT NULL RETURNING path, digest",
                (space, PRESET, key),
            )
            if row is not None:
                retire_version(connection, *row)
                _queue(connection, space, row[0], now)
            return row is not None

        return await self._write(delete)

    async def preferences(self, space: str, user_id: str) -> Preferences:
        """The defaults for a user who never chose."""
        return _preferences_of(space, user_id, await self._read_value(space, PREFERENCES, user_id))

    async def change_preferences(
        self, space: str, user_id: str, change: Callable[[Preferences], Preferences]
    ) -> Preferences:
        """Put what `change` makes of the preferences there are. What it raises changes nothing."""

        def work(connection: Connection) -> Preferences:
            before = _preferences_of(space, user_id, _value(connection, space, PREFERENCES, user_id))
            return self._put(connection, before, change(before))

        return await self._write(work)

    async def forget_user(self, space: str, user_id: str) -> None:
        """Nothing is known of a user's preferences any longer; their file is the caller's to remove."""

        def forget(connection: Connection) -> None:
            path = preferences_path(space, user_id)
            sql = "DELETE FROM people WHERE path = ? RETURNING path, digest"
            for row in connection.all(sql, (path,)):
                retire_version(connection, *row)
            connection.run("DELETE FROM jobs WHERE lane = ? AND state != 'running'", (people_lane(path),))

        await self._write(forget)

    async def file(self, path: str) -> PeopleFile | None:
        found = await self._database.one(f"{FILES} WHERE path = ?", (path,))
        return None if found is None else _file_of(found)

    async def files(self) -> list[PeopleFile]:
        """Every one, by path."""
        return [_file_of(row) for row in await self._database.read(f"{FILES} ORDER BY path")]

    async def path_of(self, holds: Holds) -> str | None:
        """The file that holds the preset of this name, or this user's preferences; None where nothing is known of one."""
        found = await self._database.read(
            "SELECT path FROM people WHERE space = ? AND kind = ? AND key = ?",
            (holds.space, _kind(holds), _key(holds)),
        )
        return str(found[0]["path"]) if found else None

    async def announce(self, path: str, writing: str) -> None:
        """Called before a file is written: after a crash, the new file is recognised as ours."""

        def announce(connection: Connection) -> None:
            record_version(connection, path, writing.rsplit(maxsplit=1)[-1])
            connection.run("UPDATE people SET writing = ? WHERE path = ?", (writing, path))

        await self._write(announce)

    async def record(self, path: str, revision: int, digest: str) -> None:
        """After it is in place."""
        await self._update(
            "UPDATE people SET written = ?, digest = ?, writing = NULL WHERE path = ?", revision, digest, path
        )

    async def removed(self, path: str) -> None:
        """Record that the file of a deleted preset was removed. A preset that exists again stays."""

        def remove(connection: Connection) -> None:
            connection.run("DELETE FROM people WHERE path = ? AND value_json IS NULL", (path,))
            connection.run(UNWRITTEN, (path,))

        await self._write(remove)

    async def apply_file(self, path: str, holds: Holds, digest: str) -> None:
        """What a person wrote is in force, and their file holds it. A preset that had this file before is renamed."""
        space, kind, key = holds.space, _kind(holds), _key(holds)

        def apply_file(connection: Connection) -> None:
            connection.run(
                "DELETE FROM people WHERE path = ? AND (space, kind, key) != (?, ?, ?)",
                (path, space, kind, key),
            )
            _store(connection, holds, path)
            connection.run(HELD_BY_FILE, (path, digest, space, kind, key))

        await self._write(apply_file)

    async def let_go(self, path: str) -> bool:
        """Drop what a file held that a person removed. False while a newer version waits to be written."""

        def let_go(connection: Connection) -> bool:
            sql = "DELETE FROM people WHERE path = ? AND written = revision"
            is_gone = connection.run(sql, (path,)) > 0
            retire_files(connection, [path] if is_gone else [])
            return is_gone

        return await self._write(let_go)

    async def write_again(self, path: str) -> None:
        """Mark a removed file as unwritten, so that it is restored."""
        await self._update(UNWRITTEN, path)
        await self.queue(path)

    async def queue(self, path: str) -> None:
        """Have a file looked at, in turn with all else that is done to it."""
        now = self._clock()

        def queue(connection: Connection) -> None:
            row = connection.one("SELECT space FROM people WHERE path = ?", (path,))
            _queue(connection, path.partition("/")[0] if row is None else row[0], path, now)

        await self._write(queue)

    def _put(self, connection: Connection, before: Holds | None, after: P) -> P:
        if after != before:
            _queue(connection, after.space, _store(connection, after, None), self._clock())
        return after

    async def _update(self, sql: str, *parameters: object) -> int:
        return await self._write(lambda connection: connection.run(sql, parameters))


def _value(connection: Connection, space: str, kind: str, key: str) -> str | None:
    row = connection.one(VALUE, (space, kind, key))
    return None if row is None else row[0]


def _store(connection: Connection, holds: Holds, path: str | None) -> str:
    """Put what is in force. Returns its file: the one it has, else `path`, else a new one."""
    space, kind, key, value = holds.space, _kind(holds), _key(holds), _dumped(holds)
    row = connection.one(CHANGE, (value, space, kind, key))
    if row is not None:
        return str(row[0])
    path = path or _free_path(connection, holds)
    connection.run(ADD, (space, kind, key, value, path))
    return path


def _free_path(connection: Connection, holds: Holds) -> str:
    """A person may have renamed what lies where this would lie."""
    if isinstance(holds, Preferences):
        return preferences_path(holds.space, holds.user_id)
    path, number = preset_path(holds.space, holds.key), 1
    while connection.one("SELECT 1 FROM people WHERE path = ?", (path,)):
        number += 1
        path = preset_path(holds.space, f"{holds.key}-{number}")
    return path


def _queue(connection: Connection, space: str, path: str, now: int) -> None:
    job = NewJob(PEOPLE, people_lane(path), space, None, now, json.dumps({"path": path}))
    queue_jobs(connection, [job], now)


def _kind(holds: Holds) -> str:
    return PRESET if isinstance(holds, Preset) else PREFERENCES


def _key(holds: Holds) -> str:
    return holds.key if isinstance(holds, Preset) else holds.user_id


def _dumped(holds: Holds) -> str:
    """All but whose it is: the row says that."""
    values: dict[str, Any] = {field.name: getattr(holds, field.name) for field in fields(holds)}
    del values["space"]
    values.pop("user_id", None)
    written = dumped(values)
    assert written is not None
    return written


def _preset_of(space: str, value: str | None) -> Preset | None:
    return None if value is None else Preset(space, **json.loads(value))


def _preferences_of(space: str, user_id: str, value: str | None) -> Preferences:
    return Preferences(space, user_id, **({} if value is None else json.loads(value)))


def _file_of(row: Row) -> PeopleFile:
    value = row["value_json"]
    holds: Holds | None = None
    if value is not None and row["kind"] == PRESET:
        holds = _preset_of(row["space"], value)
    elif value is not None:
        holds = _preferences_of(row["space"], row["key"], value)
    return made(PeopleFile, row, holds=holds)
