"""Fills a new home with very many threads and entries: `python -m tests.browser.seed_many HOME THREADS ENTRIES`.

Straight into the journal, in seconds: what pages list is there, what stands behind it (turns, files, index) is not.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from recollect.infra.journal.database import Database
from recollect.infra.journal.sqlite import SqliteConnector

USER = "many"
LAST = 1_778_248_980_000
"""2026-05-08T14:03:00Z"""
MINUTE = 60_000
KINDS = ("facts", "episodes", "foresight")

THREADS = """
INSERT INTO threads (space, thread_id, user_id, title, created, updated) VALUES ('default', ?, ?, ?, ?, ?)"""
ENTRIES = """
INSERT INTO entries (space, owner, entry_id, kind, when_ms, path, title, text, links_json, by, extra_json, text_key,
    cell, strategy, holds, pinned, edited, updated, size)
VALUES ('default', ?, ?, ?, ?, '', ?, ?, '[]', 'facts, rules', '{}', '', '', '', 1, 0, 0, ?, 0)"""


def main(home: Path, threads: int, entries: int) -> None:
    home.mkdir(parents=True, exist_ok=True)
    journal = home / "journal.db"
    asyncio.run(_create(journal))
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.executemany(THREADS, _threads(threads))
        connection.executemany(ENTRIES, _entries(entries))


async def _create(journal: Path) -> None:
    database = Database(SqliteConnector(journal))
    await database.open()
    await database.close()


def _threads(number: int) -> Iterator[tuple[object, ...]]:
    for place in range(number):
        at = LAST - place * 7 * MINUTE
        yield f"many-{place}", USER, f"Thread {place}: what was said about matter {place % 97}", at, at


def entry_name(place: int) -> str:
    return f"{KINDS[place % 3][:2]}-{place:012x}"


def _entries(number: int) -> Iterator[tuple[object, ...]]:
    for place in range(number):
        kind, at = KINDS[place % 3], LAST - place * 11 * MINUTE
        title = f"Matter {place} was settled."
        text = (
            title if kind == "facts" else f"{title} " + "There is more to say about it than fits a line. " * 3
        )
        yield f"default/users/{USER}", entry_name(place), kind, at, title, text, at


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
