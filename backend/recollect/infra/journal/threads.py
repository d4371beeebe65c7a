"""The thread store: threads and their turns."""

import sqlite3
from dataclasses import replace
from typing import Any

from recollect.domain.identity import turn_number
from recollect.domain.images import references_in
from recollect.domain.model import Append, NewTurn, Receipt, Thread, ThreadCursor, Turn
from recollect.errors import AlreadyExists, NotFound
from recollect.infra.journal.database import read_transaction
from recollect.infra.journal.forget.forgetting import forget_thread
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.rows import (
    THREAD_COLUMNS,
    TURN_COLUMNS,
    dumped,
    named_rows,
    queue_jobs,
    thread_of,
    turn_of,
)
from recollect.infra.journal.turns import FIND_THREAD, append_turns, insert_thread, transcript_job, unique

DEFAULT_SPACE = "default"
_EVERYTHING = -1

_TURNS = f"""
SELECT {TURN_COLUMNS} FROM turns
WHERE thread_pk = (SELECT pk FROM threads WHERE space = :space AND thread_id = :thread_id)"""
_BEFORE = f"SELECT * FROM ({_TURNS} AND position < :place ORDER BY position DESC LIMIT :before)"

NEWEST_TURNS = f"{_BEFORE} ORDER BY position"
TURNS_AROUND = f"""
{_BEFORE} UNION ALL SELECT * FROM ({_TURNS} AND position >= :place ORDER BY position LIMIT :onwards)
ORDER BY position"""


class SqlThreadStore(QueueingStore):
    """`THREADS`: readers never create or change anything; what was added is visible to the next reader."""

    async def get_thread(self, thread_id: str, *, space: str = DEFAULT_SPACE) -> Thread | None:
        found = await self._database.one(
            f"SELECT {THREAD_COLUMNS} FROM threads WHERE space = ? AND thread_id = ?", (space, thread_id)
        )
        return None if found is None else thread_of(found)

    async def list_threads(
        self,
        *,
        space: str = DEFAULT_SPACE,
        user_id: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Thread]:
        """Oldest first; `after` is the id of the last thread of the page before."""
        sql = f"SELECT {THREAD_COLUMNS} FROM threads WHERE space = :space"
        if user_id is not None:
            sql += " AND user_id = :user_id"
        if after is not None:
            sql += " AND (created, pk) > (SELECT created, pk FROM threads WHERE space = :space AND thread_id = :after)"
        sql += " ORDER BY created, pk LIMIT :limit"
        parameters = {
            "space": space, "user_id": user_id, "after": after, "limit": _EVERYTHING if limit is None else limit,
        }  # fmt: skip
        return [thread_of(row) for row in await self._database.read(sql, parameters)]

    async def recent_threads(
        self,
        *,
        space: str = DEFAULT_SPACE,
        user_id: str | None = None,
        words: str | None = None,
        limit: int,
        after: ThreadCursor | None = None,
    ) -> list[Thread]:
        """Pinned ones first, then the last used first. With `words`, those whose title holds them, in any case."""
        sql = f"SELECT {THREAD_COLUMNS} FROM threads WHERE space = :space"
        bound: dict[str, Any] = {"space": space, "limit": limit}
        if user_id is not None:
            sql, bound["user_id"] = f"{sql} AND user_id = :user_id", user_id
        if words is not None:
            sql, bound["words"] = f"{sql} AND instr(casefold(title), :words) > 0", words.casefold()
        if after is not None:
            sql += " AND (pinned, updated, thread_id) < (:pinned, :updated, :after)"
            bound |= {"pinned": after.pinned, "updated": after.updated, "after": after.thread_id}
        sql += " ORDER BY pinned DESC, updated DESC, thread_id DESC LIMIT :limit"
        return [thread_of(row) for row in await self._database.read(sql, bound)]

    @read_transaction
    def get_history(
        self,
        connection: sqlite3.Connection,
        thread_id: str,
        max_turns: int | None = None,
        *,
        space: str = DEFAULT_SPACE,
        before: str | None = None,
    ) -> list[Turn]:
        """The newest `max_turns` turns (all of them without it), oldest first, as copies.

        `before` pages backwards: only turns that stand before that turn.
        """
        limit = _EVERYTHING if max_turns is None else min(max(0, max_turns), 2**62)
        position = 2**62 if before is None else _position(connection, space, thread_id, before)
        bound = {"space": space, "thread_id": thread_id, "place": position, "before": limit}
        return [turn_of(row) for row in named_rows(connection, NEWEST_TURNS, bound)]

    async def turns_around(
        self, thread_id: str, place: int, before: int, onwards: int, *, space: str = DEFAULT_SPACE
    ) -> list[Turn]:
        """Up to `before` turns before a place and up to `onwards` from it on, oldest first.

        The place is that of a turn id, whether its turn is still there or not.
        """
        bound = {"space": space, "thread_id": thread_id, "place": place, "before": before, "onwards": onwards}
        return [turn_of(row) for row in await self._database.read(TURNS_AROUND, bound)]

    async def get_turn(self, thread_id: str, turn_id: str, *, space: str = DEFAULT_SPACE) -> Turn | None:
        found = await self._database.one(
            f"SELECT {TURN_COLUMNS} FROM turns WHERE position = ? AND thread_pk ="
            " (SELECT pk FROM threads WHERE space = ? AND thread_id = ?)",
            (turn_number(turn_id), space, thread_id),
        )
        return None if found is None else turn_of(found)

    async def images_shown(self, space: str, user_id: str) -> set[str]:
        """The names of all images that turns of a user show. Reads every turn that has any."""
        found = await self._database.read(
            "SELECT t.parts_json FROM turns t JOIN threads h ON h.pk = t.thread_pk"
            " WHERE h.space = ? AND h.user_id = ? AND t.parts_json LIKE '%vault:images/%'",
            (space, user_id),
        )
        return {name for row in found for name in references_in(row["parts_json"])}

    async def idle_incognito(self, before: int) -> list[Thread]:
        """Incognito threads, of every space, whose newest message came before that time."""
        found = await self._database.read(
            f"SELECT {THREAD_COLUMNS} FROM threads WHERE incognito = 1 AND updated < ?", (before,)
        )
        return [thread_of(row) for row in found]

    async def create_thread(self, thread: Thread) -> Thread:
        """Raises AlreadyExists where the space has a thread of that id, whoever owns it."""

        def create(connection: sqlite3.Connection) -> int | None:
            if connection.execute(FIND_THREAD, (thread.space, thread.thread_id)).fetchone() is not None:
                raise AlreadyExists(f"there is a thread {thread.thread_id!r} already", field="thread_id")
            insert_thread(connection, replace(thread, tags=unique(thread.tags)))
            if thread.incognito:
                return None
            return self._queue_transcript(connection, thread.space, thread.thread_id)

        await self._queue(create)
        return await self._existing(thread.space, thread.thread_id)

    async def update_thread(
        self, thread_id: str, changes: dict[str, Any], *, space: str = DEFAULT_SPACE
    ) -> Thread:
        """Change title, tags, preset, backend or the pin; the transcript follows."""
        columns = {name: dumped(value) if name == "tags" else value for name, value in changes.items()}
        assignments = "".join(
            f"{'tags_json' if name == 'tags' else name} = :{name}, "
            for name in columns
            if name in {"title", "tags", "preset", "backend", "pinned"}
        )

        def update(connection: sqlite3.Connection) -> int | None:
            changed = connection.execute(
                f"UPDATE threads SET {assignments} header_revision = header_revision + 1"
                " WHERE space = :space AND thread_id = :thread_id RETURNING incognito",
                {**columns, "space": space, "thread_id": thread_id},
            ).fetchone()
            if changed is None:
                raise NotFound(f"there is no thread {thread_id!r}")
            return None if changed[0] else self._queue_transcript(connection, space, thread_id)

        await self._queue(update)
        self._on_change(space, thread_id)
        return await self._existing(space, thread_id)

    async def replace_title(
        self, thread_id: str, old: str | None, new: str, *, space: str = DEFAULT_SPACE
    ) -> bool:
        """Change the title while it is still the old one; the transcript follows. False when it was not, or no more."""

        def replace(connection: sqlite3.Connection) -> tuple[bool, int | None]:
            changed = connection.execute(
                "UPDATE threads SET title = ?, header_revision = header_revision + 1"
                " WHERE space = ? AND thread_id = ? AND title IS ? RETURNING incognito",
                (new, space, thread_id, old),
            ).fetchone()
            if changed is None:
                return False, None
            return True, None if changed[0] else self._queue_transcript(connection, space, thread_id)

        replaced = await self._change(replace)
        if replaced:
            self._on_change(space, thread_id)
        return replaced

    async def append(self, append: Append) -> list[Receipt]:
        """Durable when it returns: turns, buffer rows and the jobs that follow in one transaction."""
        now = self._clock()
        receipts = await self._change(
            lambda connection: append_turns(connection, append, now, self._schedule)
        )
        self._on_change(append.space, append.thread_id)
        return receipts

    async def add_turn(
        self, thread_id: str, turn: NewTurn, *, space: str = DEFAULT_SPACE, user_id: str | None = None
    ) -> Turn:
        """Append exactly one turn; a `message_id` that is there already gives the turn that holds it."""
        (receipt,) = await self.append(Append(space, thread_id, (turn,), user_id))
        if receipt.turn_id is None:
            raise AlreadyExists(receipt.detail, field="message_id")
        stored = await self.get_turn(thread_id, receipt.turn_id, space=space)
        assert stored is not None
        return stored

    async def delete_thread(self, thread_id: str, *, space: str = DEFAULT_SPACE) -> int:
        """Forget a thread with all its turns; returns how many turns went."""
        self._on_forget(space, thread_id)
        return await self._change(
            lambda connection: forget_thread(connection, space, thread_id, self._clock())
        )

    def _queue_transcript(self, connection: sqlite3.Connection, space: str, thread_id: str) -> int:
        now = self._clock()
        return queue_jobs(connection, [transcript_job(space, thread_id, now, self._schedule)], now)

    async def _existing(self, space: str, thread_id: str) -> Thread:
        thread = await self.get_thread(thread_id, space=space)
        if thread is None:
            raise NotFound(f"there is no thread {thread_id!r}")
        return thread


def _position(connection: sqlite3.Connection, space: str, thread_id: str, turn_id: str) -> int:
    found = connection.execute(
        "SELECT position FROM turns WHERE position = ? AND thread_pk ="
        " (SELECT pk FROM threads WHERE space = ? AND thread_id = ?)",
        (turn_number(turn_id), space, thread_id),
    ).fetchone()
    if found is None:
        raise NotFound(f"there is no turn {turn_id!r} in this thread", field="before")
    return int(found[0])
