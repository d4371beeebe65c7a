"""Looking through the journal for anything that names what was forgotten."""

import json
import re
from collections import defaultdict
from collections.abc import Collection

from recollect.domain.forgetting import Looked, Tombstones
from recollect.domain.identity import key_within_user, message_key, thread_key, turn_id, turn_number
from recollect.domain.job import PURGE
from recollect.domain.model import ThreadRef
from recollect.domain.paths import file_name, linked_turn, notes_folder, owner_folder
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database
from recollect.infra.journal.entry_files import GONE_CASES
from recollect.infra.journal.vault_files import FileVersions

_named = re.compile(r"\b([0-9a-f]{32}):t-([0-9]{1,18})\b").finditer

SOURCES = """
SELECT h.space, h.user_id, h.thread_id, s.turn FROM entry_sources s JOIN threads h ON h.pk = s.thread_pk"""

TURNS_AT_ONCE = 5000

TURNS = """
SELECT t.pk, h.space, h.user_id, h.thread_id, t.position, t.message_id FROM turns t JOIN threads h ON h.pk = t.thread_pk
WHERE t.pk > ? ORDER BY t.pk LIMIT ?"""

MEMBERS = """
SELECT h.space, h.user_id, h.thread_id, c.turn_ids_json FROM memcell c JOIN threads h ON h.pk = c.thread_pk"""

BLOCK_MEMORIES = """
SELECT m.turn_pk, h.space, h.user_id, m.subject, m.part FROM block_memories m JOIN turns t ON t.pk = m.turn_pk
JOIN threads h ON h.pk = t.thread_pk"""

PROMPTS = """
SELECT h.space, h.user_id, p.detail_json FROM prompts p JOIN threads h ON h.pk = p.thread_pk"""

# Of a thread that was forgotten in part, those about what is neither a memcell of it nor an agent's skills.
OTHER_ANSWERS = """
SELECT h.space, h.user_id, h.thread_id, a.cell FROM model_answers a JOIN threads h ON h.pk = a.thread_pk
WHERE h.forgotten > 0 AND NOT EXISTS (SELECT 1 FROM memcell c WHERE c.space = a.space AND c.memcell_id = a.cell)
    AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.kind = 'strategy' AND j.owner = a.cell)"""


class SqlForgottenProof(FileVersions):
    """Reads, and never changes anything."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tombstones(self) -> Tombstones:
        forgotten: defaultdict[tuple[str, str, str], set[int]] = defaultdict(set)
        for row in await self._database.read("SELECT space, user_id, thread_key, number FROM tombstones"):
            forgotten[row["space"], row["user_id"], row["thread_key"]].add(row["number"])
        threads = {
            (owner_folder(row["space"], row["user_id"]), file_name(row["thread_id"])): (
                key_within_user(row["space"], row["thread_id"]),
                row["user_id"],
            )
            for row in await self._database.read("SELECT space, user_id, thread_id FROM threads")
        }
        return Tombstones({key: frozenset(numbers) for key, numbers in forgotten.items()}, threads)

    async def living(self, owner: str, entry_ids: Collection[str]) -> frozenset[str]:
        """Those of these entries that an owner has now."""
        found = await self._database.read(
            "SELECT entry_id FROM entries WHERE owner = ? AND entry_id IN (SELECT value FROM json_each(?))",
            (owner, json.dumps(list(entry_ids))),
        )
        return frozenset(row["entry_id"] for row in found)

    async def gone_cases(self) -> frozenset[str]:
        return frozenset(row["entry_id"] for row in await self._database.read(GONE_CASES))

    async def journal(self, tombstones: Tombstones) -> list[Looked]:
        """What was looked at, how much of it there is, and how much of that should not be there."""
        return await self._database.query(lambda connection: _journal(connection, tombstones))

    async def kept_notes(self) -> Looked:
        """The texts of notes that the journal keeps, and how many of them were forgotten."""
        found = await self._database.read("SELECT path, digest FROM notes WHERE text IS NOT NULL")
        removed = await self._database.read("SELECT path, digest FROM removed_notes")
        # Its own versions are deleted, as a person removed it; those of all notes of its owner if it was forgotten.
        asked = [(row["path"], row["digest"]) for row in found]
        asked += [(notes_folder(row["path"]) or row["path"], row["digest"]) for row in removed]
        wrong = [each for each in asked if await self.is_deleted(*each)]
        return Looked("kept texts of notes", len(asked), len(wrong))

    async def unfinished(self) -> list[Looked]:
        found = await self._database.read("SELECT state FROM jobs WHERE kind = ?", (PURGE,))
        return [Looked("forgettings that are not finished", len(found), len(found))]

    async def free_space(self) -> list[Looked]:
        """Whether bytes of deleted rows are left."""
        return await self._database.connector.remains()


def _journal(connection: Connection, tombstones: Tombstones) -> list[Looked]:
    return [
        _turns(connection, tombstones),
        _cells(connection, tombstones),
        _keyed(connection, "buffered turns", "unprocessed_buffer", thread_pk="threads", turn_pk="turns"),
        _keyed(
            connection, "receipts", "receipts", thread_pk="threads", turn_pk="turns", memcell_pk="memcell"
        ),
        _keyed(connection, "requests for answers", "chat_requests", thread_pk="threads", answer_pk="turns"),
        _sources(connection, tombstones),
        _versions(connection, tombstones),
        _answers(connection),
        _blocks(connection, tombstones),
        _prompts(connection, tombstones),
    ]


def _turns(connection: Connection, tombstones: Tombstones) -> Looked:
    """By their places, and by their message ids: neither is ever used again."""
    said = set(map(tuple, connection.all("SELECT space, user_id, thread_key, message_key FROM tombstones")))
    number = wrong = after = 0
    while page := connection.all(TURNS, (after, TURNS_AT_ONCE)):
        number, after = number + len(page), page[-1]["pk"]
        for _, space, user_id, thread_id, place, message_id in page:
            key = key_within_user(space, thread_id)
            if tombstones.of_thread(space, user_id, key):
                is_said = (space, user_id, key, message_key(message_id)) in said
                wrong += tombstones.holds(space, user_id, key, place) or is_said
    return Looked("turns", number, wrong)


def _keyed(connection: Connection, what: str, table: str, **keys: str) -> Looked:
    """Rows that name what they are about by its key: in each of these columns, one of that table."""
    number, wrong = connection.one(f"SELECT count(*) FROM {table}")[0], 0
    for column, whose in keys.items():
        nowhere = f"r.{column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {whose} w WHERE w.pk = r.{column})"
        wrong += connection.one(f"SELECT count(*) FROM {table} r WHERE {nowhere}")[0]
    return Looked(what, number, wrong)


def _is_gone(tombstones: Tombstones, row: Row, turn_id: str) -> bool:
    """Whether that turn of the thread that the row names was forgotten."""
    key = key_within_user(row["space"], row["thread_id"])
    return tombstones.holds(row["space"], row["user_id"], key, turn_number(turn_id) or 0)


def _cells(connection: Connection, tombstones: Tombstones) -> Looked:
    found = connection.all(MEMBERS)
    wrong = sum(_is_gone(tombstones, row, name) for row in found for name in json.loads(row["turn_ids_json"]))
    return Looked("memcells", len(found), wrong)


def _sources(connection: Connection, tombstones: Tombstones) -> Looked:
    found = connection.all(SOURCES)
    wrong = sum(_is_gone(tombstones, row, turn_id(row["turn"])) for row in found)
    return Looked("sources of memories", len(found), wrong)


def _versions(connection: Connection, tombstones: Tombstones) -> Looked:
    found = connection.all(
        "SELECT e.owner, h.entry_json FROM entry_history h JOIN entries e ON e.pk = h.entry_pk"
    )
    wrong = 0
    for row in found:
        links = json.loads(row["entry_json"])[4] if row["entry_json"] else []
        turns = (linked_turn(row["owner"], link) for link in links)
        wrong += any(turn is not None and tombstones.is_gone(*turn) for turn in turns)
    return Looked("earlier versions of memories", len(found), wrong)


def _answers(connection: Connection) -> Looked:
    """They go with their thread; of one that was forgotten in part, with their memcell, or stretch of turns."""
    (number,) = connection.one("SELECT count(*) FROM model_answers")
    others = connection.all(OTHER_ANSWERS)
    wrong = sum(not cell.startswith(thread_key(ThreadRef(*thread))[:16]) for *thread, cell in others)
    return Looked("kept answers of models", number, wrong)


def _blocks(connection: Connection, tombstones: Tombstones) -> Looked:
    """By the memories in them, of which turns are named by the key of their thread and their number."""
    (number,) = connection.one("SELECT count(*) FROM context_blocks")
    wrong = {
        row["turn_pk"]
        for row in connection.all(BLOCK_MEMORIES)
        if tombstones.holds(row["space"], row["user_id"], row["subject"], turn_number(row["part"][1:]) or 0)
    }
    return Looked("context blocks", number, len(wrong))


def _prompts(connection: Connection, tombstones: Tombstones) -> Looked:
    """Which memories were sent: by their ids."""
    found = connection.all(PROMPTS)
    wrong = sum(
        any(
            tombstones.holds(row["space"], row["user_id"], name[1], int(name[2]))
            for name in _named(row["detail_json"])
        )
        for row in found
    )
    return Looked("prompts", len(found), wrong)
