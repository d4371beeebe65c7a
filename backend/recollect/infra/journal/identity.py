"""Which home a journal is: a name made once, by which files elsewhere know their owner."""

import secrets

from recollect.infra.journal.database import Database

_MARK = "home:"
_KNOWN = f"SELECT name FROM marks WHERE substr(name, 1, {len(_MARK)}) = '{_MARK}'"


async def forget_home_id(database: Database) -> None:
    """From now on, it is another home than the one it is a copy of."""
    await database.execute(f"DELETE FROM marks WHERE substr(name, 1, {len(_MARK)}) = '{_MARK}'")


async def home_id(database: Database, known_as: str | None = None) -> str:
    """The same for as long as the journal lives; a restored backup has another. A new one may be `known_as` another was."""
    await database.execute(
        f"INSERT INTO marks (name, at) SELECT ?, 0 WHERE NOT EXISTS ({_KNOWN})",
        (_MARK + (known_as or secrets.token_hex(8)),),
    )
    known = await database.read(_KNOWN)
    return str(known[0]["name"]).removeprefix(_MARK)
