"""Queueing jobs inside the transaction of their cause."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.infra.sql.rows import insert_rows
from recollect.memory.model import JsonObject
from recollect.memory.strategy import CAUSES

QUEUE_JOBS = """
INSERT INTO jobs (kind, lane, dedupe, space, thread_id, payload_json, run_at, created)"""

UNLESS_QUEUED = """
ON CONFLICT (lane, kind, dedupe) WHERE state = 'queued'
DO UPDATE SET run_at = excluded.run_at WHERE excluded.run_at < run_at"""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be queued. While one of the same lane, kind and `dedupe` waits already, that one does for both."""

    kind: str
    lane: str
    space: str
    thread_id: str | None
    run_at: int
    payload_json: str = "{}"
    dedupe: str = ""


def queue_jobs(connection: sqlite3.Connection, jobs: Sequence[NewJob], now: int) -> int:
    """Queue each job once; returns when the first of them is due."""
    new = [
        (job.kind, job.lane, job.dedupe, job.space, job.thread_id, job.payload_json, job.run_at, now)
        for job in jobs
    ]
    insert_rows(connection, QUEUE_JOBS, new, UNLESS_QUEUED)
    return min(job.run_at for job in jobs)


def queued_job_id(connection: sqlite3.Connection, job: NewJob) -> int:
    job_id = waiting_twin(connection, job)
    assert job_id is not None
    return job_id


def waiting_twin(connection: sqlite3.Connection, job: NewJob) -> int | None:
    """The one that waits and does for both, if there is one."""
    found = connection.execute(
        "SELECT pk FROM jobs WHERE lane = ? AND kind = ? AND dedupe = ? AND state = 'queued'",
        (job.lane, job.kind, job.dedupe),
    ).fetchone()
    return None if found is None else int(found[0])


def count_causes(connection: sqlite3.Connection, job_id: int) -> int:
    ((number,),) = connection.execute(
        "SELECT coalesce(json_array_length(payload_json, ?), 0) FROM jobs WHERE pk = ?",
        (f"$.{CAUSES}", job_id),
    ).fetchall()
    return int(number)


def add_causes(connection: sqlite3.Connection, job_id: int, causes: Sequence[JsonObject]) -> None:
    """It was set off by these too."""
    ((stored,),) = connection.execute("SELECT payload_json FROM jobs WHERE pk = ?", (job_id,)).fetchall()
    payload = json.loads(stored)
    payload[CAUSES] = [*payload.get(CAUSES, ()), *causes]
    connection.execute(
        "UPDATE jobs SET payload_json = ? WHERE pk = ?", (json.dumps(payload, ensure_ascii=False), job_id)
    )
