"""Forgetting in the journal: threads, users, what came late, and the bytes left where rows were."""

import json
from collections.abc import Sequence

from recollect.domain.forgetting import (
    NOTE,
    OVERWRITE,
    OVERWRITE_LANE,
    USER,
    Derived,
    Forgotten,
    Memories,
    Task,
    forget_lane,
    purge_job,
    settle_job,
)
from recollect.domain.identity import key_within_user, thread_key
from recollect.domain.job import DELIVERY, ENTRIES, PURGE, TRANSCRIBE, JobSpec, file_lane, vault_lane
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.paths import is_note, owner_folder
from recollect.domain.strategy import STRATEGY
from recollect.domain.vault_file import EMPTY
from recollect.domain.webhook import FORGOTTEN
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import write_transaction
from recollect.infra.journal.entries import forget_derived, keep_derived, remove_entries
from recollect.infra.journal.entry_changes import forget_entries_of
from recollect.infra.journal.entry_rows import SELECT_ENTRIES, known_of, queue_entry_jobs
from recollect.infra.journal.forgotten_turns import (
    FORGET_ANSWERS,
    add_tombstones,
    clear_title,
    forget_some,
    queue_purge,
    title_job,
    to_forget,
    whose_prompts,
)
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.people import forget_preferences
from recollect.infra.journal.prompts import end_late_epochs, end_quoting_epochs
from recollect.infra.journal.rows import (
    IS_NAMED_THREAD,
    IS_THREAD,
    earliest,
    thread_columns,
)
from recollect.infra.journal.vault_files import forget_file, retire_version
from recollect.infra.journal.webhooks import announce_of_user, drop_deliveries, load_webhooks


def forget_thread(
    connection: Connection, thread: ThreadRef, now: int, memories: Memories = "all"
) -> tuple[int, int | None]:
    """Forget a thread with its turns. Returns how many turns, and when the purge is due."""
    pk, incognito = thread_columns(connection, thread, "pk, incognito")
    if memories != "all":
        keep_derived(connection, thread, now, edited_only=memories == "made")
    count, derived, quoting = _forget_thread(connection, pk, thread, now)
    task = Task(*thread, None, derived, now, tuple(quoting))
    due = queue_purge(connection, task, now)
    drop_deliveries(connection, *thread)
    if not incognito:
        told = {"what": "thread", "thread_id": thread.thread_id, "entry_ids": derived.ids}
        announce_of_user(connection, FORGOTTEN, thread.space, thread.user_id, told, now)
    return count, due


def forget_user(connection: Connection, space: str, user_id: str, now: int) -> tuple[Forgotten, int | None]:
    """Forget all of a user's threads, entries, notes and preferences, and what agents learned from them."""
    owner = owner_folder(space, user_id)
    threads = connection.all(
        "SELECT pk, thread_id FROM threads WHERE space = ? AND user_id = ?", (space, user_id)
    )
    turns = 0
    gone: list[Derived] = []
    for pk, thread_id in threads:
        thread = ThreadRef(space, user_id, thread_id)
        count, derived, _ = _forget_thread(connection, pk, thread, now)
        turns += count
        gone.append(derived)
    (unsourced,) = connection.one(
        "SELECT count(*) FROM entries WHERE space = ? AND owner = ?", (space, owner)
    )
    forget_owner(connection, space, owner)
    forget_preferences(connection, space, user_id)
    derived = _joined(gone, owner)
    task = Task(space, user_id, "", None, derived, now)
    # Now, and again when running work for the user has ended.
    first: JsonObject = {"step": USER, "user_id": user_id}
    due = _queue_of_owner(connection, task, [first, {**task.as_payload(USER), "waits": True}], now)
    if threads or unsourced:
        due = earliest(due, _queue_overwriting(connection, space, now))
    announce_of_user(connection, FORGOTTEN, space, user_id, {"what": "user"}, now)
    drop_deliveries(connection, space, user_id)
    return Forgotten(turns, sum(map(len, gone)) + unsourced, len(threads)), due


def forget_owner(connection: Connection, space: str, owner: str) -> None:
    """Delete all rows of an owner except threads. The caller removes the files."""
    forget_entries_of(connection, space, owner)
    for table in ("notes", "removed_notes"):
        sql = f"DELETE FROM {table} WHERE owner = ? RETURNING path, digest"
        for path, digest in connection.all(sql, (owner,)):
            retire_version(connection, path, digest)


def _forget_thread(
    connection: Connection, pk: int, thread: ThreadRef, now: int
) -> tuple[int, Derived, list[int]]:
    """Returns how many turns it had, what had come of them, and which threads quoted any."""
    space, user_id, thread_id = thread
    derived = forget_derived(connection, thread, None, now)
    said = "SELECT message_id, position FROM turns WHERE thread_pk = ?"
    messages = connection.all(said, (pk,))
    add_tombstones(connection, thread, messages)
    paths = connection.all("SELECT path FROM transcript_parts WHERE thread_pk = ?", (pk,))
    for (path,) in paths:
        forget_file(connection, path)
    quoting = end_quoting_epochs(connection, space, user_id, [key_within_user(space, thread_id)])
    quoting += end_quoting_epochs(connection, space, whose_prompts(user_id, derived), derived.ids)
    connection.run(FORGET_JOBS, (*thread, PURGE, DELIVERY))
    connection.run("DELETE FROM threads WHERE pk = ?", (pk,))
    return len(messages), derived, quoting


def _joined(gone: list[Derived], owner: str) -> Derived:
    """What was derived for agents; all of the user's own goes anyway."""
    entries: dict[str, tuple[str, ...]] = {}
    for derived in gone:
        for other, ids in derived.entries.items():
            if other != owner:
                entries[other] = (*entries.get(other, ()), *ids)
    paths = [path for derived in gone for path in derived.paths if not path.startswith(f"{owner}/")]
    cells = [cell for derived in gone for cell in derived.cells]
    return Derived(entries, tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(cells)))


def _queue_of_owner(
    connection: Connection, task: Task, payloads: Sequence[JsonObject], now: int
) -> int | None:
    lane = forget_lane(owner_folder(task.space, task.user_id))
    jobs = [purge_job(task, lane, payload) for payload in payloads]
    return queue_entry_jobs(connection, task.space, None, jobs, now)


def _queue_overwriting(connection: Connection, space: str, now: int) -> int | None:
    job = JobSpec(PURGE, OVERWRITE_LANE, {"step": OVERWRITE, "user_id": ""}, delay_ms=_OVERWRITE_DELAY_MS)
    return queue_entry_jobs(connection, space, None, [job], now)


_OVERWRITE_DELAY_MS = 500
"""Many who forget at once wait for one overwriting."""

# Of the thread itself. Those that make memories name whose these are, and find nothing of it any more.
FORGET_JOBS = f"""
DELETE FROM jobs WHERE {IS_THREAD} AND owner IS NULL AND state != 'running' AND kind NOT IN (?, ?)"""

# One after another: what keeps a forgetting from being finished.
WAITING = {
    "its files are being written": f"""
        SELECT 1 FROM jobs WHERE kind = :purge AND {IS_NAMED_THREAD} AND state != 'dead'
        AND json_extract(payload_json, '$.step') IS NULL""",
    "somebody works on the thread": """
        SELECT 1 FROM jobs WHERE state = 'running' AND kind != :purge AND space = :space
        AND ((user_id = :user_id AND thread_id = :thread_id)
            OR (owner = :owner AND kind = :strategy AND json_extract(payload_json, '$.cell') IS NULL))""",
    "somebody works for the user": """
        SELECT 1 FROM jobs j WHERE :thread_id = '' AND state = 'running' AND kind != :purge AND space = :space AND (
            owner = :owner OR (user_id = :user_id AND NOT EXISTS (
                SELECT 1 FROM threads h
                WHERE h.space = j.space AND h.user_id = j.user_id AND h.thread_id = j.thread_id)))""",
    "a chat is about to be sent": """
        SELECT 1 FROM turns t JOIN threads h ON h.pk = t.thread_pk
        WHERE t.status IN ('queued', 'streaming') AND t.status = 'queued' AND t.accepted <= :at AND h.space = :space
        AND h.user_id = :user_id""",
    "the files of memories are being written": """
        SELECT 1 FROM jobs WHERE kind = :entries AND state IN ('queued', 'running')
        AND lane IN (SELECT value FROM json_each(:lanes))""",
}

FORGET_REMOVED = "DELETE FROM removed_notes WHERE path = ? OR (owner = ? AND digest = ?)"
SAME_NOTES = "SELECT path FROM notes WHERE owner = ? AND digest = ? AND digest != ?"

SKILLS_WAITING = """
SELECT 1 FROM jobs WHERE kind = ? AND json_extract(payload_json, '$.strategy') = 'skill' AND state != 'dead' LIMIT 1"""

# Of an entry that came from turns, each is there as long as it is not forgotten.
WITHOUT_SOURCE = f"""
{SELECT_ENTRIES} WHERE e.space = ? AND e.owner = ? AND EXISTS (
    SELECT 1 FROM entry_sources s WHERE s.entry_pk = e.pk AND NOT EXISTS (
        SELECT 1 FROM turns t WHERE t.thread_pk = s.thread_pk AND t.position = s.turn))"""

TOMBSTONES = """
SELECT thread_key, number, message_key FROM tombstones WHERE space = ? AND user_id = ? ORDER BY thread_key, number"""


class SqlForgetting(QueueingStore):
    """Each call is one transaction, with the jobs that finish what it began.

    Its time is that of the transaction: whatever was asked before it, and is waited for, is older.
    """

    async def forget_turns(
        self, thread: ThreadRef, turn_ids: Sequence[str], *, answers: bool = False
    ) -> Forgotten:
        """Turns of a thread, with `answers` what was answered to them too. Raises NotFound and Conflict."""
        forgotten = await self._change(
            lambda connection: forget_some(connection, thread, turn_ids, self._clock(), answers=answers)
        )
        self._on_change(thread)
        return forgotten

    async def turns_to_forget(
        self, thread: ThreadRef, turn_ids: Sequence[str], *, answers: bool = False
    ) -> tuple[str, ...]:
        """Those that `forget_turns` would forget now: chosen by the same statements, and nothing is changed."""
        return await self._database.write(
            lambda connection: to_forget(connection, thread, turn_ids, answers=answers)
        )

    async def forget_user(self, space: str, user_id: str) -> Forgotten:
        """All of a user's threads, entries, notes and preferences; nothing, where there is none."""
        found = await self._database.read(
            "SELECT thread_id FROM threads WHERE space = ? AND user_id = ?", (space, user_id)
        )
        for row in found:
            self._on_forget(ThreadRef(space, user_id, row["thread_id"]))
        gone = await self._change(lambda connection: forget_user(connection, space, user_id, self._clock()))
        await self._database.write(load_webhooks)
        return gone

    async def forget_note(self, space: str, user_id: str, path: str, digest: str) -> None:
        """It is not known any more, and no prompt quotes it; the jobs that follow remove that version of its file.

        So it is with other notes of the user that are the same byte for byte.
        """

        def forget(connection: Connection) -> int | None:
            now = self._clock()
            task = Task(space, user_id, "", None, at=now)
            connection.run(FORGET_REMOVED, (path, owner_folder(space, user_id), digest))
            same = connection.all(SAME_NOTES, (owner_folder(space, user_id), digest, EMPTY))
            due = None
            for note in dict.fromkeys([path, *(other for (other,) in same if is_note(other))]):
                connection.run("DELETE FROM notes WHERE path = ?", (note,))
                retire_version(connection, note, digest)
                end_quoting_epochs(connection, space, user_id, [note])
                # Now, and again when work that has read the note has ended.
                first: JsonObject = {"step": NOTE, "user_id": user_id, "path": note, "digest": digest}
                due = _queue_of_owner(connection, task, [first, {**first, "at": now, "waits": True}], now)
            announce_of_user(connection, FORGOTTEN, space, user_id, {"what": "note"}, now)
            return due

        await self._queue(forget)

    @write_transaction
    def forget_quotes(self, connection: Connection, space: str, user_id: str, path: str) -> None:
        """Prompts that quote a note."""
        end_quoting_epochs(connection, space, user_id, [path])

    async def waits_for(self, task: Task) -> str | None:
        """What has to end before a forgetting can be finished, in words."""
        bound = {
            "purge": PURGE,
            "entries": ENTRIES,
            "strategy": STRATEGY,
            "space": task.space,
            "thread_id": task.thread_id,
            "user_id": task.user_id,
            "owner": owner_folder(task.space, task.user_id),
            "at": task.at,
            "lanes": json.dumps([file_lane(ENTRIES, path) for path in task.derived.paths]),
        }
        for reason, sql in WAITING.items():
            if await self._database.read(f"{sql} LIMIT 1", bound):
                return reason
        return None

    async def forget_late(self, task: Task) -> None:
        """What those left who worked with the words while they were forgotten. It is finished by jobs of its own."""
        await self._queue(lambda connection: _forget_late(connection, task, self._clock()))

    @write_transaction
    def forget_owner(self, connection: Connection, space: str, user_id: str) -> None:
        """What is known of a forgotten user; but for what came from threads that they have opened since."""
        now, owner = self._clock(), owner_folder(space, user_id)
        left = connection.one("SELECT 1 FROM threads WHERE space = ? AND user_id = ?", (space, user_id))
        if left is None:
            forget_owner(connection, space, owner)
        else:
            found = connection.all(WITHOUT_SOURCE, (space, owner))
            remove_entries(connection, space, [known_of(row) for row in found], now)

    async def tombstones_of(self, space: str, user_id: str) -> dict[str, list[tuple[int, str]]]:
        """By the keys of a user's threads: (turn number, message key) of all that was forgotten."""
        found: dict[str, list[tuple[int, str]]] = {}
        for row in await self._database.read(TOMBSTONES, (space, user_id)):
            found.setdefault(row["thread_key"], []).append((row["number"], row["message_key"]))
        return found

    async def queue_overwriting(self, space: str) -> None:
        await self._queue(lambda connection: _queue_overwriting(connection, space, self._clock()))

    async def skills_are_waiting(self) -> bool:
        """Whether files of agents are still to be rewritten: until then the journal knows their texts."""
        return bool(await self._database.read(SKILLS_WAITING, (STRATEGY,)))

    async def overwrite(self) -> None:
        """Leave no byte of a row that was deleted."""
        await self._database.connector.overwrite()


def _forget_late(connection: Connection, task: Task, now: int) -> int:
    connection.run(FORGET_ANSWERS, task.thread)
    turns = _numbers(connection, task)
    late = forget_derived(connection, task.thread, turns, now)
    if late.entries:
        again = Task(*task.thread, task.turns, late, now)
        settling = settle_job(again, thread_key(task.thread))
        queue_entry_jobs(connection, task.space, task.thread, [settling], now)
    end_quoting_epochs(connection, task.space, task.user_id, [task.key_within_user], turns)
    end_quoting_epochs(connection, task.space, None, [*task.derived.ids, *late.ids])
    end_late_epochs(connection, task.quoting, task.at)
    if task.titled:
        _take_title_back(connection, task, now)
    return now


def _numbers(connection: Connection, task: Task) -> list[int]:
    """Of the forgotten turns. A thread that was opened again goes on counting: its new turns are not among them."""
    if task.turns is not None:
        return list(task.turns)
    found = connection.all(
        "SELECT number FROM tombstones WHERE space = ? AND user_id = ? AND thread_key = ?",
        (task.space, task.user_id, task.key_within_user),
    )
    return [number for (number,) in found]


def _take_title_back(connection: Connection, task: Task, now: int) -> None:
    """It was being made of the forgotten words when they went."""
    found = connection.one(f"SELECT pk FROM threads WHERE {IS_THREAD} AND title IS NOT NULL", task.thread)
    if found is not None:
        clear_title(connection, found[0])
        transcript = JobSpec(TRANSCRIBE, vault_lane(thread_key(task.thread)))
        jobs = [transcript, *title_job(connection, found[0], task.thread)]
        queue_entry_jobs(connection, task.space, task.thread, jobs, now)
