"""Queueing the work that memories set off, in the transaction of its cause."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

from recollect.infra.sql.database import Database
from recollect.infra.sql.job_rows import NewJob, add_causes, count_causes, queue_jobs, waiting_twin
from recollect.memory.known_entry import EntryJob
from recollect.memory.model import JsonObject
from recollect.memory.strategy import CAUSES, HELD, own_lane

_MOST_CAUSES = 100

COUNT_EVENT = """
INSERT INTO strategy_counts (lane, strategy, events) VALUES (?, ?, 1)
ON CONFLICT (lane, strategy) DO UPDATE SET events = events + 1 RETURNING events"""

RELEASE = "UPDATE jobs SET run_at = ? WHERE lane = ? AND kind = ? AND state = 'queued' AND run_at = ?"

# What waits for a pause has a lane of its own: the pause of all that waits there begins anew.
RESTART = "UPDATE jobs SET run_at = ? WHERE lane = ? AND kind = ? AND state = 'queued' AND run_at < ?"


def queue_entry_jobs(
    connection: sqlite3.Connection, space: str, thread_id: str | None, jobs: Sequence[EntryJob], now: int
) -> int | None:
    """Queue each job once, those of every so manieth event held until it comes. Returns when the first is due."""
    due: list[NewJob] = []
    for job in jobs:
        is_turn = _is_its_turn(connection, job)
        run_at = now + job.delay_ms if is_turn else HELD
        payload = json.dumps(job.payload, ensure_ascii=False)
        new = NewJob(job.kind, job.lane, space, thread_id, run_at, payload, job.dedupe)
        if is_turn and "strategy" in job.payload:
            # Also what was held when the settings said otherwise.
            lane = own_lane(job.payload["strategy"], job.payload["owner"])
            connection.execute(RELEASE, (run_at, lane, new.kind, HELD))
        if is_turn and job.restart:
            connection.execute(RESTART, (run_at, new.lane, new.kind, HELD))
        due.append(_joined(connection, new, job.payload[CAUSES]) if CAUSES in job.payload else new)
    return queue_jobs(connection, due, now) if due else None


def _joined(connection: sqlite3.Connection, new: NewJob, causes: Sequence[JsonObject]) -> NewJob:
    """One like it that waits takes its causes; where that has many, a job beside it does: each writes all of them."""
    number = 1
    while (twin := waiting_twin(connection, new)) is not None:
        if count_causes(connection, twin) < _MOST_CAUSES:
            add_causes(connection, twin, causes)
            break
        number += 1
        new = replace(new, dedupe=f"{new.dedupe.partition('+')[0]}+{number}")
    return new


def _is_its_turn(connection: sqlite3.Connection, job: EntryJob) -> bool:
    if job.every <= 1:
        return True
    ((events,),) = connection.execute(COUNT_EVENT, (job.lane, job.payload["strategy"])).fetchall()
    if events < job.every:
        return False
    connection.execute(
        "DELETE FROM strategy_counts WHERE lane = ? AND strategy = ?", (job.lane, job.payload["strategy"])
    )
    return True


class SqlJobQueue:
    """Queues work that no other change of the journal goes with."""

    def __init__(
        self, database: Database, *, clock: Callable[[], int], on_due: Callable[[int], None]
    ) -> None:
        self._database = database
        self._clock = clock
        self._on_due = on_due

    async def queue(self, space: str, thread_id: str | None, jobs: Sequence[EntryJob]) -> None:
        """Durable when it returns."""
        now = self._clock()
        due = await self._database.write(
            lambda connection: queue_entry_jobs(connection, space, thread_id, jobs, now)
        )
        if due is not None:
            self._on_due(due)
