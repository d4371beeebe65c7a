"""Forgetting in memory. `tests/contract/test_forgetting_store.py` holds it against the real journal."""

import hashlib
import json
from collections.abc import Sequence

from recollect.domain.entries.entry import EntryChange, KnownEntry
from recollect.domain.forgetting import (
    NOTE,
    OVERWRITE,
    OVERWRITE_LANE,
    SETTLE,
    USER,
    Derived,
    Forgotten,
    Task,
    forget_lane,
)
from recollect.domain.identity import message_key, turn_id, turn_number
from recollect.domain.job import ENTRIES, PURGE, TRANSCRIBE, entries_lane, vault_lane
from recollect.domain.model import JsonObject
from recollect.domain.paths import owner_folder
from recollect.domain.strategy import STRATEGY
from recollect.errors import Conflict, NotFound
from recollect.service.forget.ports import ForgettingStore
from tests.fake_entries import FakeEntryStore
from tests.fakes import FakeJournal, ThreadRows

_OVERWRITE_DELAY_MS = 500


class FakeForgetting:
    """On a fake journal and its entries. There are no prompts, and no free pages."""

    def __init__(self, journal: FakeJournal, entries: FakeEntryStore) -> None:
        self._journal = journal
        self._entries = entries
        self.overwritten = 0

    async def forget_turns(
        self, space: str, thread_id: str, turn_ids: Sequence[str], *, answers: bool = False
    ) -> Forgotten:
        rows = self._journal.existing(space, thread_id)
        places = self._chosen(rows, turn_ids, answers=answers)
        named = [turn_id(place) for place in places]
        derived = await self._forget_entries(space, await self._entries.citing(space, thread_id, named))
        user_id = rows.thread.user_id
        buried = self._journal.buried(rows.thread)
        for place in places:
            turn = rows.turns.pop(place)
            buried[message_key(turn.message_id)] = place
            rows.buffer.discard(turn.turn_id)
        task = Task(space, user_id, thread_id, tuple(places), derived, self._journal.clock())
        files = vault_lane(task.thread_key)
        self._queue(task, files, {"user_id": user_id, "turns": places})
        self._journal.jobs.queue(TRANSCRIBE, files, space, thread_id, self._journal.clock())
        self._queue(task, forget_lane(task.thread_key), task.as_payload(SETTLE))
        return Forgotten(len(places), len(derived), turn_ids=tuple(named))

    async def turns_to_forget(
        self, space: str, thread_id: str, turn_ids: Sequence[str], *, answers: bool = False
    ) -> tuple[str, ...]:
        rows = self._journal.existing(space, thread_id)
        return tuple(turn_id(place) for place in self._chosen(rows, turn_ids, answers=answers))

    async def forget_user(self, space: str, user_id: str) -> Forgotten:
        theirs = [rows for (where, _), rows in self._journal.rows.items() if where == space]
        theirs = [rows for rows in theirs if rows.thread.user_id == user_id]
        turns = 0
        for rows in theirs:
            turns += len(rows.turns)
            self._journal.buried(rows.thread).update(
                {message_key(turn.message_id): place for place, turn in rows.turns.items()}
            )
            del self._journal.rows[space, rows.thread.thread_id]
        owner = owner_folder(space, user_id)
        known = await self._entries.list_entries(space, owner)
        await self._entries.forget_owner(space, owner)
        task = Task(space, user_id, "", None, at=self._journal.clock())
        for payload in ({"step": USER, "user_id": user_id}, {**task.as_payload(USER), "waits": True}):
            self._queue(task, forget_lane(owner), payload)
        if theirs or known:
            await self.queue_overwriting(space)
        return Forgotten(turns, len(known), len(theirs))

    async def forget_note(self, space: str, user_id: str, path: str, digest: str) -> None:
        task = Task(space, user_id, "", None, at=self._journal.clock())
        first: JsonObject = {"step": NOTE, "user_id": user_id, "path": path, "digest": digest}
        for payload in (first, {**first, "at": task.at, "waits": True}):
            self._queue(task, forget_lane(owner_folder(space, user_id)), payload)

    async def forget_quotes(self, space: str, user_id: str, path: str) -> None:
        """There are no prompts."""

    async def waits_for(self, task: Task) -> str | None:
        jobs = await self._journal.jobs.list_jobs(space=task.space, limit=10_000)
        files = vault_lane(task.thread_key) if task.thread_id else ""
        lanes = {entries_lane(path) for path in task.derived.paths}
        if any(job.kind == PURGE and job.lane == files and job.state != "dead" for job in jobs):
            return "its files are being written"
        if any(job.kind == ENTRIES and job.lane in lanes and job.state != "dead" for job in jobs):
            return "the files of memories are being written"
        return None

    async def forget_late(self, task: Task) -> None:
        named = [turn_id(place) for place in task.turns or ()]
        late = await self._entries.citing(task.space, task.thread_id, named) if named else []
        derived = await self._forget_entries(task.space, late)
        if derived.entries:
            again = Task(task.space, task.user_id, task.thread_id, task.turns, derived, self._journal.clock())
            self._queue(again, forget_lane(task.thread_key), again.as_payload(SETTLE))

    async def forget_owner(self, space: str, user_id: str) -> None:
        if all(rows.thread.user_id != user_id for rows in self._journal.rows.values()):
            await self._entries.forget_owner(space, owner_folder(space, user_id))

    async def tombstones_of(self, space: str, user_id: str) -> dict[str, list[tuple[int, str]]]:
        return {
            key: sorted((number, name) for name, number in buried.items())
            for (where, whose, key), buried in sorted(self._journal.tombstones.items())
            if (where, whose) == (space, user_id) and buried
        }

    async def queue_overwriting(self, space: str) -> None:
        due = self._journal.clock() + _OVERWRITE_DELAY_MS
        payload: JsonObject = {"step": OVERWRITE, "user_id": ""}
        self._journal.jobs.queue(PURGE, OVERWRITE_LANE, space, None, due, payload)

    async def skills_are_waiting(self) -> bool:
        jobs = await self._journal.jobs.list_jobs(space=None, limit=10_000)
        return any(
            job.kind == STRATEGY and job.lane.startswith("skill:") and job.state != "dead" for job in jobs
        )

    async def overwrite(self) -> None:
        self.overwritten += 1

    def _chosen(self, rows: ThreadRows, turn_ids: Sequence[str], *, answers: bool) -> list[int]:
        chosen: set[int] = set()
        for name in turn_ids:
            place = turn_number(name)
            if place is None or place not in rows.turns:
                raise NotFound(f"there is no turn {name!r} in this thread")
            chosen.add(place)
            following = sorted(number for number in rows.turns if number > place)
            for number in following if answers and rows.turns[place].role == "user" else ():
                if rows.turns[number].role not in ("assistant", "tool"):
                    break
                chosen.add(number)
        if any(rows.turns[place].status in ("queued", "streaming") for place in chosen):
            raise Conflict("it is still being written; cancel it first")
        return sorted(chosen)

    async def _forget_entries(self, space: str, gone: Sequence[KnownEntry]) -> Derived:
        owners = dict.fromkeys(known.owner for known in gone)
        by_owner = {owner: tuple(each.entry_id for each in gone if each.owner == owner) for owner in owners}
        for owner, ids in by_owner.items():
            await self._entries.apply(
                EntryChange(space, owner, "consolidation", "forgotten", remove=ids, bury=False)
            )
        paths = tuple(dict.fromkeys(known.path for known in gone if known.path))
        return Derived(by_owner, paths)

    def _queue(self, task: Task, lane: str, payload: JsonObject) -> None:
        written = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()[:16]
        now = self._journal.clock()
        self._journal.jobs.queue(
            PURGE, lane, task.space, task.thread_id or None, now, payload, f"{task.user_id}:{written}"
        )


def _the_fake_has_its_port(forgetting: FakeForgetting) -> None:
    """Read by mypy alone."""
    _: ForgettingStore = forgetting
