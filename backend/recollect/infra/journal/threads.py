"""The thread store: threads and their turns."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from recollect.domain.forgetting import Memories
from recollect.domain.identity import path_spans, turn_number
from recollect.domain.images import references_in
from recollect.domain.model import (
    Append,
    NewTurn,
    Receipt,
    Thread,
    ThreadCursor,
    ThreadRef,
    Turn,
    Waiting,
)
from recollect.errors import AlreadyExists, NotFound
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import read_transaction
from recollect.infra.journal.forgetting import forget_thread
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.rows import (
    IS_NAMED_THREAD,
    IS_THREAD,
    T_TURN_COLUMNS,
    THREAD_COLUMNS,
    THREAD_PK,
    TURN_COLUMNS,
    dumped,
    no_thread,
    queue_jobs,
    thread_meant,
    thread_of,
    thread_pk,
    turn_of,
)
from recollect.infra.journal.turns import (
    append_turns,
    insert_thread,
    known_messages,
    transcript_job,
    unique,
)

DEFAULT_SPACE = "default"
_EVERYTHING = 2**62
_ONE_SHOT = {None: "", True: " AND one_shot = 1", False: " AND one_shot = 0"}

_TURNS = f"""
SELECT {TURN_COLUMNS} FROM turns
WHERE thread_pk = (SELECT pk FROM threads WHERE {IS_NAMED_THREAD})"""
_BEFORE = f"SELECT * FROM ({_TURNS} AND position < :place ORDER BY position DESC LIMIT :before) earlier"

NEWEST_TURNS = f"{_BEFORE} ORDER BY position"
TURNS_AROUND = f"""
{_BEFORE} UNION ALL SELECT * FROM ({_TURNS} AND position >= :place ORDER BY position LIMIT :onwards) later
ORDER BY position"""

# Pinned threads and the others are each in the order of their index.
_NEWEST_THREADS = """
SELECT pk, last_number FROM threads
WHERE space = :space AND user_id = :user_id AND pinned = {pinned} ORDER BY updated DESC LIMIT :threads"""
NEWEST_TURNS_OF_USER = f"""
WITH newest AS (
    SELECT * FROM ({_NEWEST_THREADS.format(pinned=0)}) used
    UNION ALL SELECT * FROM ({_NEWEST_THREADS.format(pinned=1)}) pinned)
SELECT t.thread_pk, {T_TURN_COLUMNS} FROM newest h JOIN turns t
    ON t.thread_pk = h.pk AND t.position > h.last_number - :turns
ORDER BY t.thread_pk, t.position"""

WAITING = f"""
SELECT count(*) AS messages, h.closes_at AS until FROM threads h JOIN unprocessed_buffer b ON b.thread_pk = h.pk
WHERE h.pk = {THREAD_PK} AND h.closes_at IS NOT NULL GROUP BY h.pk"""


def waiting_of(connection: Connection, thread: ThreadRef) -> Waiting | None:
    found = connection.one(WAITING, thread)
    return None if found is None else Waiting(**found)


class SqlThreadStore(QueueingStore):
    """`THREADS`: readers never create or change anything; what was added is visible to the next reader.

    A thread's id means the user's, or without `user_id` the only one of the space: AmbiguousThread is raised where
    several users have one.
    """

    async def meant(
        self, thread_id: str, *, space: str = DEFAULT_SPACE, user_id: str | None = None
    ) -> ThreadRef:
        """Resolve an id to a thread, existing or not. Without a user: the only owner's, or `me`'s if there is none."""
        if user_id is not None:
            return ThreadRef(space, user_id, thread_id)
        return await self._database.query(
            lambda connection: thread_meant(connection, space, thread_id, None), snapshot=False
        )

    async def find(self, thread: ThreadRef) -> Thread | None:
        found = await self._database.one(f"SELECT {THREAD_COLUMNS} FROM threads WHERE {IS_THREAD}", thread)
        return None if found is None else thread_of(found)

    async def some(self, space: str, user_id: str, thread_ids: Iterable[str]) -> list[Thread]:
        """Those of a user that have one of these ids."""
        sql = f"SELECT {THREAD_COLUMNS} FROM threads WHERE space = :space AND user_id = :user_id"
        sql += " AND thread_id IN (SELECT value FROM json_each(:ids))"
        bound = {"space": space, "user_id": user_id, "ids": json.dumps(list(thread_ids))}
        return [thread_of(row) for row in await self._database.read(sql, bound)]

    async def waiting(
        self, thread_id: str, *, space: str = DEFAULT_SPACE, user_id: str | None = None
    ) -> Waiting | None:
        """What of a thread no memcell holds yet; None where there is nothing."""

        def look(connection: Connection) -> Waiting | None:
            return waiting_of(connection, thread_meant(connection, space, thread_id, user_id))

        return await self._database.query(look, snapshot=False)

    async def get_thread(
        self, thread_id: str, *, space: str = DEFAULT_SPACE, user_id: str | None = None
    ) -> Thread | None:
        return await self.find(await self.meant(thread_id, space=space, user_id=user_id))

    async def list_threads(
        self,
        *,
        space: str = DEFAULT_SPACE,
        user_id: str | None = None,
        one_shot: bool | None = None,
        limit: int | None = None,
        after: ThreadRef | None = None,
    ) -> list[Thread]:
        """Oldest first; `after` is the last thread of the page before. With `one_shot` only those that are, or are not."""
        sql = f"SELECT {THREAD_COLUMNS} FROM threads WHERE space = :space{_ONE_SHOT[one_shot]}"
        if user_id is not None:
            sql += " AND user_id = :user_id"
        if after is not None:
            last = "SELECT created, pk FROM threads WHERE space = :space AND user_id = :of AND thread_id = :after"
            sql += f" AND (created, pk) > ({last})"
        sql += " ORDER BY created, pk LIMIT :limit"
        bound = {"space": space, "user_id": user_id, "limit": _EVERYTHING if limit is None else limit}
        bound |= {} if after is None else {"of": after.user_id, "after": after.thread_id}
        return [thread_of(row) for row in await self._database.read(sql, bound)]

    async def recent_threads(
        self,
        *,
        space: str = DEFAULT_SPACE,
        user_id: str | None = None,
        words: str | None = None,
        archived: bool | None = None,
        one_shot: bool | None = None,
        limit: int,
        after: ThreadCursor | None = None,
    ) -> list[Thread]:
        """Pinned ones first, then the last used first. With `words`, those whose title holds them, in any case.

        With `archived` or `one_shot` only those that are, or are not.
        """
        sql = f"SELECT {THREAD_COLUMNS} FROM threads WHERE space = :space{_ONE_SHOT[one_shot]}"
        bound: dict[str, Any] = {"space": space, "limit": limit}
        if user_id is not None:
            sql, bound["user_id"] = f"{sql} AND user_id = :user_id", user_id
        if words is not None:
            sql, bound["words"] = f"{sql} AND instr(casefold(title), casefold(:words)) > 0", words
        if archived is not None:
            sql, bound["archived"] = f"{sql} AND archived = :archived", archived
        if after is not None:
            sql += " AND (pinned, updated, thread_id, user_id) < (:pinned, :updated, :after, :of)"
            bound |= {"pinned": after.pinned, "updated": after.updated}
            bound |= {"after": after.thread_id, "of": after.user_id}
        sql += " ORDER BY pinned DESC, updated DESC, thread_id DESC, user_id DESC LIMIT :limit"
        return [thread_of(row) for row in await self._database.read(sql, bound)]

    async def get_history(
        self,
        thread: ThreadRef | str,
        max_turns: int | None = None,
        *,
        space: str = DEFAULT_SPACE,
        user_id: str | None = None,
        before: str | None = None,
    ) -> list[Turn]:
        """The newest `max_turns` turns (all of them without it), oldest first, as copies.

        Of a thread's id, the one that is `meant`. `before` pages backwards: only turns that stand before that turn.
        """
        if isinstance(thread, str):
            thread = await self.meant(thread, space=space, user_id=user_id)
        return await self._history(thread, max_turns, before)

    @read_transaction
    def _history(
        self, connection: Connection, thread: ThreadRef, max_turns: int | None, before: str | None
    ) -> list[Turn]:
        limit = _EVERYTHING if max_turns is None else min(max(0, max_turns), 2**62)
        position = 2**62 if before is None else _position(connection, thread, before)
        bound = {**thread._asdict(), "place": position, "before": limit}
        return [turn_of(row) for row in connection.all(NEWEST_TURNS, bound)]

    async def newest_turns(self, space: str, user_id: str, threads: int, turns: int) -> list[list[Turn]]:
        """The last turns of the threads that a user used last, and of as many pinned ones, each oldest first."""
        bound = {"space": space, "user_id": user_id, "threads": threads, "turns": turns}
        found = await self._database.read(NEWEST_TURNS_OF_USER, bound)
        return [[turn_of(row) for row in each] for _, each in groupby(found, itemgetter("thread_pk"))]

    async def turns_around(self, thread: ThreadRef, place: int, before: int, onwards: int) -> list[Turn]:
        """Up to `before` turns before a place and up to `onwards` from it on, oldest first.

        The place is that of a turn id, whether its turn is still there or not.
        """
        bound = {**thread._asdict(), "place": place, "before": before, "onwards": onwards}
        return [turn_of(row) for row in await self._database.read(TURNS_AROUND, bound)]

    async def path(self, thread: ThreadRef) -> list[tuple[int, int]]:
        """The stretches of places that lead to the thread's last turn, oldest first."""
        found = await self._database.read(
            f"SELECT position, parent_id FROM turns WHERE thread_pk = {THREAD_PK} AND parent_id IS NOT NULL"
            f" UNION SELECT last_number, NULL FROM threads WHERE {IS_THREAD} ORDER BY position",
            (*thread, *thread),
        )
        last = max((row["position"] for row in found), default=0)
        parents = [(row["position"], row["parent_id"]) for row in found if row["parent_id"] is not None]
        return path_spans(last, parents)

    async def known_messages(self, thread: ThreadRef, message_ids: Sequence[str]) -> dict[str, str | None]:
        """Of these messages those that the thread has had, with their turns; None for one that was forgotten."""
        return await self._database.query(lambda connection: known_messages(connection, thread, message_ids))

    async def turn(self, thread: ThreadRef, turn_id: str) -> Turn | None:
        found = await self._database.one(
            f"SELECT {TURN_COLUMNS} FROM turns WHERE position = ? AND thread_pk = {THREAD_PK}",
            (turn_number(turn_id), *thread),
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

    async def users(self, space: str, limit: int, after: str = "") -> list[tuple[str, int, int]]:
        """Who has chats in a space: their ids in order, how many chats, and when one was last used."""
        found = await self._database.read(
            "SELECT user_id, count(*) AS threads, max(updated) AS updated FROM threads"
            " WHERE space = ? AND user_id > ? AND incognito = 0 GROUP BY user_id ORDER BY user_id LIMIT ?",
            (space, after, limit),
        )
        return [(row["user_id"], row["threads"], row["updated"]) for row in found]

    async def idle_incognito(self, before: int) -> list[Thread]:
        """Incognito threads, of every space, whose newest message came before that time."""
        found = await self._database.read(
            f"SELECT {THREAD_COLUMNS} FROM threads WHERE incognito = 1 AND updated < ?", (before,)
        )
        return [thread_of(row) for row in found]

    async def create_thread(self, thread: Thread) -> Thread:
        """Raises AlreadyExists where the user has a thread of that id."""

        def create(connection: Connection) -> int | None:
            if thread_pk(connection, thread.ref):
                raise AlreadyExists(f"there is a thread {thread.thread_id!r} already", field="thread_id")
            insert_thread(connection, replace(thread, tags=unique(thread.tags)))
            if thread.incognito:
                return None
            return self._queue_transcript(connection, thread.ref)

        await self._queue(create)
        return await self._existing(thread.ref)

    async def update(self, thread: ThreadRef, changes: dict[str, Any]) -> Thread:
        """Change title, tags, preset, backend, the pin or whether it is archived; the transcript follows.

        What gets a title or a pin is no one-shot call any more.
        """
        columns = {name: dumped(value) if name == "tags" else value for name, value in changes.items()}
        assignments = "".join(
            f"{'tags_json' if name == 'tags' else name} = :{name}, "
            for name in columns
            if name in {"title", "tags", "preset", "backend", "pinned", "archived"}
        )
        if changes.get("title") or changes.get("pinned"):
            assignments += "one_shot = 0, "

        def update(connection: Connection) -> int | None:
            changed = connection.one(
                f"UPDATE threads SET {assignments} header_revision = header_revision + 1"
                f" WHERE {IS_NAMED_THREAD} RETURNING incognito",
                {**columns, **thread._asdict()},
            )
            if changed is None:
                raise no_thread(thread.thread_id)
            return None if changed[0] else self._queue_transcript(connection, thread)

        await self._queue(update)
        self._on_change(thread)
        return await self._existing(thread)

    async def replace_title(self, thread: ThreadRef, old: str | None, new: str) -> bool:
        """Change the title while it is still the old one; the transcript follows. False when it was not, or no more."""

        def replace(connection: Connection) -> tuple[bool, int | None]:
            changed = connection.one(
                "UPDATE threads SET title = ?, header_revision = header_revision + 1"
                f" WHERE {IS_THREAD} AND (title = ? OR (title IS NULL AND ? = 1)) RETURNING incognito",
                (new, *thread, old, int(old is None)),
            )
            if changed is None:
                return False, None
            return True, None if changed[0] else self._queue_transcript(connection, thread)

        replaced = await self._change(replace)
        if replaced:
            self._on_change(thread)
        return replaced

    async def append(self, append: Append) -> list[Receipt]:
        """Durable when it returns: turns, buffer rows and the jobs that follow in one transaction."""
        receipts, _ = await self._append(append)
        return receipts

    async def add_turn(
        self, thread_id: str, turn: NewTurn, *, space: str = DEFAULT_SPACE, user_id: str | None = None
    ) -> Turn:
        """Append exactly one turn; a `message_id` that is there already gives the turn that holds it."""
        (receipt,), thread = await self._append(Append(space, thread_id, (turn,), user_id))
        stored = None if receipt.turn_id is None else await self.turn(thread, receipt.turn_id)
        if stored is None:
            raise AlreadyExists(receipt.detail, field="message_id")
        return stored

    async def _append(self, append: Append) -> tuple[list[Receipt], ThreadRef]:
        now = self._clock()
        receipts, thread = await self._change(
            lambda connection: append_turns(connection, append, now, self._schedule)
        )
        self._on_change(thread)
        return receipts, thread

    async def delete(self, thread: ThreadRef, memories: Memories = "all") -> int:
        """Forget a thread with all its turns; returns how many turns went. Memories that stay lose their sources there."""
        self._on_forget(thread)
        return await self._change(
            lambda connection: forget_thread(connection, thread, self._clock(), memories)
        )

    def _queue_transcript(self, connection: Connection, thread: ThreadRef) -> int:
        now = self._clock()
        return queue_jobs(connection, [transcript_job(thread, now, self._schedule)], now)

    async def _existing(self, ref: ThreadRef) -> Thread:
        thread = await self.find(ref)
        if thread is None:
            raise no_thread(ref.thread_id)
        return thread


def _position(connection: Connection, thread: ThreadRef, turn_id: str) -> int:
    found = connection.one(
        f"SELECT position FROM turns WHERE position = ? AND thread_pk = {THREAD_PK}",
        (turn_number(turn_id), *thread),
    )
    if found is None:
        raise NotFound(f"there is no turn {turn_id!r} in this thread", field="before")
    return int(found[0])
