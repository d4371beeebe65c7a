"""Presets and preferences, with their files."""

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from recollect.domain.job import PEOPLE
from recollect.domain.paths import preferences_path, preset_path
from recollect.domain.people import PREFERENCES, PRESET, Preferences, Preset, preset_key
from recollect.domain.vault_file import KnownFile
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database
from recollect.infra.journal.rows import dumped, queue_jobs
from recollect.infra.journal.vault_files import (
    SqlVaultFiles,
    file_job,
    forget_file,
    import_version,
    is_user_forgotten,
    move_versions,
    record_version,
    retire_removed,
    retire_version,
    settle,
    touch,
)

Holds = Preset | Preferences
T = TypeVar("T")
P = TypeVar("P", Preset, Preferences)
_EVERYTHING = 2**62
_MOST_KNOWN = 1000

VALUE = "SELECT value_json FROM people WHERE space = ? AND kind = ? AND key = ?"

PRESETS = """
SELECT value_json FROM people WHERE space = ? AND kind = ? AND key > ? AND value_json IS NOT NULL
ORDER BY key LIMIT ?"""

ADD = "INSERT INTO people (space, kind, key, value_json, path) VALUES (?, ?, ?, ?, ?)"

CHANGE = "UPDATE people SET value_json = ? WHERE space = ? AND kind = ? AND key = ? RETURNING path"

HELD = "SELECT space, kind, key, value_json FROM people WHERE path = ? AND value_json IS NOT NULL"


WAITING = """
SELECT 1 FROM people p JOIN vault_files f ON f.path = p.path
WHERE p.space = ? AND p.kind = ? AND p.key = ? AND p.path != ? AND f.written != f.revision"""


class SqlPresetStore(SqlVaultFiles):
    """Reading costs one indexed read. A change is durable, with the job that writes its file, when it returns."""

    kind = PEOPLE

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
        """The journal was opened, which may be another one, or somebody else wrote."""
        self._writes += 1
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
            self.clear_cache()
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
                "UPDATE people SET value_json = NULL"
                " WHERE space = ? AND kind = ? AND key = ? AND value_json IS NOT NULL RETURNING path",
                (space, PRESET, key),
            )
            if row is not None:
                retire_version(connection, row[0], _digest(connection, row[0]))
                _touch(connection, space, row[0], now)
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

    async def holds(self, path: str) -> Holds | None:
        """What a file should hold; None: it has to go."""
        row = await self._database.one(HELD, (path,))
        if row is None:
            return None
        if row["kind"] == PRESET:
            return _preset_of(row["space"], row["value_json"])
        return _preferences_of(row["space"], row["key"], row["value_json"])

    async def path_of(self, holds: Holds) -> str | None:
        """The file that holds the preset of this name, or this user's preferences; None where nothing is known of one."""
        found = await self._database.read(
            "SELECT path FROM people WHERE space = ? AND kind = ? AND key = ?",
            (holds.space, _kind(holds), _key(holds)),
        )
        return str(found[0]["path"]) if found else None

    async def apply_file(self, path: str, holds: Holds, digest: str, *, revision: int | None = None) -> bool:
        """What a person wrote is in force, and their file holds it. A preset that had this file before is renamed.

        False, changing nothing, where the file is not at this `revision` (0: not known), the one that the preset had
        before has a change to be written, or `is_leaving`.
        """
        who = (holds.space, _kind(holds), _key(holds))

        def apply_file(connection: Connection) -> bool:
            is_late = revision is not None and _has_changed(connection, path, holds, revision)
            if is_late or is_user_forgotten(connection, _folder(path)):
                return False
            connection.run(
                "DELETE FROM people WHERE path = ? AND (space, kind, key) != (?, ?, ?)", (path, *who)
            )
            before = _store(connection, holds, path)
            if before != path:
                move_versions(connection, before, path)
                connection.run("DELETE FROM vault_files WHERE path = ?", (before,))
                connection.run(
                    "UPDATE people SET path = ? WHERE space = ? AND kind = ? AND key = ?", (path, *who)
                )
            import_version(connection, PEOPLE, path, holds.space, _folder(path), digest)
            settle(connection, path)
            return True

        return await self._write(apply_file)

    async def let_go(self, path: str) -> bool:
        """Drop what a file held that a person removed. False while a newer version waits to be written."""

        def let_go(connection: Connection) -> bool:
            written = "SELECT 1 FROM vault_files WHERE path = ? AND written = revision"
            if connection.one(written, (path,)) is None:
                return False
            self._forget(connection, path)
            return True

        return await self._write(let_go)

    def _announced(self, connection: Connection, file: KnownFile, parts: None) -> None:
        """What a person wrote is an old copy once it is written over."""
        if file.digest is not None:
            record_version(connection, file.path, file.digest)

    def _is_empty(self, connection: Connection, path: str) -> bool:
        return connection.one(HELD, (path,)) is None

    def _forget(self, connection: Connection, path: str) -> None:
        if (digest := _digest(connection, path)) is not None:
            retire_removed(connection, path, digest)
        connection.run("DELETE FROM people WHERE path = ?", (path,))
        forget_file(connection, path)

    def _put(self, connection: Connection, before: Holds | None, after: P) -> P:
        if after != before:
            _touch(connection, after.space, _store(connection, after, None), self._clock())
        return after


def forget_preferences(connection: Connection, space: str, user_id: str) -> None:
    """Nothing is known of a user's preferences any longer; their file is the caller's to remove."""
    path = preferences_path(space, user_id)
    if connection.run(
        "DELETE FROM people WHERE space = ? AND kind = ? AND key = ?", (space, PREFERENCES, user_id)
    ):
        retire_version(connection, path, _digest(connection, path))
        forget_file(connection, path)


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


def _touch(connection: Connection, space: str, path: str, now: int) -> None:
    """What a file should hold changed: it is written by a job."""
    touch(connection, PEOPLE, path, space, _folder(path), 1)
    queue_jobs(connection, [file_job(PEOPLE, space, path, now)], now)


def _has_changed(connection: Connection, path: str, holds: Holds, revision: int) -> bool:
    row = connection.one("SELECT revision FROM vault_files WHERE path = ?", (path,))
    if revision != (0 if row is None else row[0]):
        return True
    return connection.one(WAITING, (holds.space, _kind(holds), _key(holds), path)) is not None


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _digest(connection: Connection, path: str) -> str | None:
    row = connection.one("SELECT digest FROM vault_files WHERE path = ?", (path,))
    return None if row is None else row[0]


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
