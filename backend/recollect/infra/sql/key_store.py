"""API keys, stored hashed."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from recollect.errors import NotFound
from recollect.infra.sql.database import Database
from recollect.memory.access import ApiKey

KEY_COLUMNS = "key_id, space, user_id, name, created, revoked"


class SqlKeyStore:
    """Keys that are in force are held in memory, so that a request costs no query."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._in_force: dict[str, ApiKey] = {}

    async def load(self) -> None:
        found = await self._database.read(f"SELECT hash, {KEY_COLUMNS} FROM api_keys WHERE revoked IS NULL")
        self._in_force = {row["hash"]: _key_of(row) for row in found}

    def any_in_force(self) -> bool:
        return bool(self._in_force)

    def find(self, secret_hash: str) -> ApiKey | None:
        return self._in_force.get(secret_hash)

    async def add(self, key: ApiKey, secret_hash: str) -> None:
        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                f"INSERT INTO api_keys (hash, {KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (secret_hash, key.key_id, key.space, key.user_id, key.name, key.created, key.revoked),
            )

        await self._database.write(insert)
        await self.load()

    async def list_keys(self) -> list[ApiKey]:
        found = await self._database.read(f"SELECT {KEY_COLUMNS} FROM api_keys ORDER BY created, key_id")
        return [_key_of(row) for row in found]

    async def list_with_hashes(self) -> list[tuple[ApiKey, str]]:
        """For carrying keys over into another journal."""
        found = await self._database.read(f"SELECT hash, {KEY_COLUMNS} FROM api_keys ORDER BY created")
        return [(_key_of(row), row["hash"]) for row in found]

    async def revoke(self, key_id: str, now: int) -> ApiKey:
        """In force no longer from the moment this returns."""

        def revoke(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE api_keys SET revoked = coalesce(revoked, ?) WHERE key_id = ?", (now, key_id)
            )

        await self._database.write(revoke)
        await self.load()
        for key in await self.list_keys():
            if key.key_id == key_id:
                return key
        raise NotFound(f"there is no key {key_id!r}", field="key_id")


def _key_of(row: Mapping[str, Any]) -> ApiKey:
    return ApiKey(row["key_id"], row["space"], row["user_id"], row["name"], row["created"], row["revoked"])
