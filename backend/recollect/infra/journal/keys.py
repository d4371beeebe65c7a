"""API keys, stored hashed."""

from collections.abc import Callable
from dataclasses import asdict, replace

from recollect.domain.access import ApiKey
from recollect.domain.forgetting import KEY_LINE
from recollect.errors import NotFound
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database
from recollect.infra.journal.rows import made
from recollect.infra.journal.vault_files import add_to_ledger

KEY_COLUMNS = "key_id, space, user_id, name, created, revoked, expires, scopes, last_used, replaced_by"
ADD_KEY = f"INSERT INTO api_keys (hash, {KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
REPLACE_KEY = "UPDATE api_keys SET expires = ?, replaced_by = ? WHERE key_id = ?"
CLOSE = "INSERT INTO marks (name, at) VALUES ('closed', ?) ON CONFLICT DO NOTHING"


class SqlKeyStore:
    """Keys that are not revoked are held in memory, so that a request costs no query.

    From the first key on `closed_at` says since when a request needs a key. It stays set without any key until `open`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unrevoked: dict[str, ApiKey] = {}
        self._by_id: dict[str, ApiKey] = {}
        self._used: dict[str, int] = {}
        """By the key's id: when it was last used, where that is not written yet."""
        self.closed_at: int | None = None
        self.watchers: set[Callable[[], None]] = set()
        """Called after every change of a key."""

    async def load(self) -> None:
        found = await self._database.read(f"SELECT hash, {KEY_COLUMNS} FROM api_keys WHERE revoked IS NULL")
        closed = await self._database.one("SELECT at FROM marks WHERE name = 'closed'")
        self.closed_at = None if closed is None else closed["at"]
        self._unrevoked = {row["hash"]: _key_of(row) for row in found}
        self._by_id = {key.key_id: key for key in self._unrevoked.values()}
        for look in list(self.watchers):
            look()

    def all_in_force(self, now: int) -> list[ApiKey]:
        return [key for key in self._unrevoked.values() if key.is_in_force(now)]

    def in_force(self, key_id: str, now: int) -> ApiKey | None:
        key = self._by_id.get(key_id)
        return key if key is not None and key.is_in_force(now) else None

    def find(self, secret_hash: str) -> ApiKey | None:
        """Unless it was revoked; it may have expired."""
        return self._unrevoked.get(secret_hash)

    def used(self, key_id: str, now: int) -> None:
        """Note the use of a key; `write_uses` makes it durable."""
        self._used[key_id] = now

    async def write_uses(self) -> None:
        """One write for all keys that were used since the last."""
        if used := dict(self._used):
            rows = [(at, key_id) for key_id, at in used.items()]
            await self._database.execute_many("UPDATE api_keys SET last_used = ? WHERE key_id = ?", rows)
            self._used = {key_id: at for key_id, at in self._used.items() if at != used.get(key_id)}

    async def add(self, key: ApiKey, secret_hash: str, *, replaced: ApiKey | None = None) -> None:
        """Store a key, and in the same transaction the new expiry of the one that it replaces."""

        def work(connection: Connection) -> None:
            connection.run(ADD_KEY, key_row(key, secret_hash))
            connection.run(CLOSE, (key.created,))
            add_to_ledger(connection, KEY_LINE)
            if replaced is not None:
                connection.run(REPLACE_KEY, (replaced.expires, key.key_id, replaced.key_id))

        await self._database.write(work)
        await self.load()

    async def open(self) -> None:
        """Let requests without a key in again, where no key is in force."""
        await self._database.execute("DELETE FROM marks WHERE name = 'closed'")
        await self.load()

    async def list_with_hashes(self) -> list[tuple[ApiKey, str]]:
        """Oldest first; the hashes are for carrying keys over into another journal."""
        found = await self._database.read(
            f"SELECT hash, {KEY_COLUMNS} FROM api_keys ORDER BY created, key_id"
        )
        return [(self._with_use(_key_of(row)), row["hash"]) for row in found]

    async def get(self, key_id: str) -> ApiKey:
        """Raises NotFound."""
        found = await self._database.one(f"SELECT {KEY_COLUMNS} FROM api_keys WHERE key_id = ?", (key_id,))
        if found is None:
            raise no_key(key_id)
        return self._with_use(_key_of(found))

    async def revoke(self, key_id: str, now: int) -> ApiKey:
        """In force no longer from the moment this returns."""
        await self._database.execute(
            "UPDATE api_keys SET revoked = coalesce(revoked, ?) WHERE key_id = ?", (now, key_id)
        )
        await self.load()
        return await self.get(key_id)

    def _with_use(self, key: ApiKey) -> ApiKey:
        return replace(key, last_used=self._used.get(key.key_id, key.last_used))


def no_key(key_id: str) -> NotFound:
    return NotFound(f"there is no key {key_id!r}", field="key_id")


def _key_of(row: Row) -> ApiKey:
    return made(ApiKey, row, scopes=tuple(row["scopes"].split()))


def key_row(key: ApiKey, secret_hash: str) -> tuple[object, ...]:
    """For ADD_KEY."""
    return (secret_hash, *(asdict(key) | {"scopes": " ".join(key.scopes)}).values())
