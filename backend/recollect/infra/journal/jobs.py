"""Durable jobs in the journal: leased, retried, set aside when they keep failing."""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from recollect.domain.job import Job, JobState
from recollect.domain.model import ThreadRef
from recollect.domain.paths import owner_folder
from recollect.domain.strategy import CAUSES
from recollect.errors import NotFound
from recollect.infra.journal.connector import Connection, Operation, Row
from recollect.infra.journal.database import Database, write_transaction
from recollect.infra.journal.rows import ASKED_IN_VAIN, add_causes, json_or_none, made

T = TypeVar("T")
MAX_INTERRUPTIONS = 25
_REMEMBERED_OWNERS = 10_000
JOB_COLUMNS = "pk, kind, lane, space, user_id, thread_id, payload_json, state, attempts, interruptions, claims, run_at, created, error"

# A job may start when it is due and no older one of its lane waits or runs.
FIRST_IN_LANE = """NOT EXISTS (
    SELECT 1 FROM jobs older WHERE older.lane = j.lane AND older.pk < j.pk AND older.state IN ('queued', 'running')
)"""

# Most kinds have no job most of the time: one statement says which have.
EARLIEST = """
SELECT k.value AS kind, (SELECT min(run_at) FROM jobs WHERE state = 'queued' AND kind = k.value) AS run_at
FROM json_each(?) k"""

DUE = f"""
SELECT j.pk, j.lane, j.space, j.user_id FROM jobs j INDEXED BY jobs_due
WHERE state = 'queued' AND kind = ? AND run_at <= ? AND {FIRST_IN_LANE} ORDER BY run_at"""

CLAIM = (
    """
UPDATE jobs SET state = 'running', claims = claims + 1, leased_until = ? WHERE pk = ? RETURNING """
    + JOB_COLUMNS
)

BACKLOG = """
SELECT space, user_id FROM jobs
WHERE state = 'queued' AND run_at <= ? AND user_id IS NOT NULL AND kind != 'delivery' GROUP BY space, user_id HAVING count(*) >= ?"""

NEXT_DUE = f"""
SELECT run_at FROM jobs j INDEXED BY jobs_due
WHERE state = 'queued' AND kind = ? AND {FIRST_IN_LANE} ORDER BY run_at LIMIT 1"""


# With those before them in their lanes, which would keep them waiting; what failed has its own patience.
HASTEN = """
UPDATE jobs SET run_at = :now WHERE state = 'queued' AND error IS NULL AND run_at > :now AND EXISTS (
    SELECT 1 FROM json_each(:ids) w JOIN jobs m ON m.pk = CAST(w.value AS BIGINT) WHERE m.lane = jobs.lane AND jobs.pk <= m.pk
)"""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Delays of the jobs that follow an append. Default: none."""

    boundary_every: int = 1
    boundary_delay_ms: int = 0
    pause_ms: int = 0
    transcript_delay_ms: int = 0
    quiet_ms: int = 0
    """How long after its last message the rest of a chat is closed."""
    gap_ms: int = 0
    """The same of messages that no chat brought."""


AT_ONCE = Schedule()


class QueueingStore:
    """A store whose changes queue jobs. `on_due` is told when the first of them is due.

    `on_change` gets the thread that changed; `on_forget` the one about to be deleted, to cancel running work on it;
    `on_entries` an owner's folder, and the ids of what search has to look up again.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], int],
        schedule: Schedule = AT_ONCE,
        on_due: Callable[[int], None] = lambda due: None,
        on_change: Callable[[ThreadRef], None] = lambda thread: None,
        on_forget: Callable[[ThreadRef], None] = lambda thread: None,
        on_entries: Callable[[str, set[str]], None] = lambda owner, ids: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._schedule = schedule
        self._on_due = on_due
        self._on_change = on_change
        self._on_forget = on_forget
        self._on_entries = on_entries

    async def _change(self, operation: Operation[tuple[T, int | None]]) -> T:
        """Run what returns its result, and when the first job that follows is due, if any."""
        result, due = await self._database.write(operation)
        self._tell(due)
        return result

    def _tell(self, due: int | None) -> None:
        if due is not None:
            self._on_due(due)

    async def _queue(self, operation: Operation[int | None]) -> None:
        """Run what returns when the first job that follows is due, if any."""
        await self._change(lambda connection: (None, operation(connection)))


class SqlJobStore:
    """What the job engine keeps: one row per job that is not done."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._started: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """By kind and owner, the number of the last claim in which the owner had a turn."""
        self._claims = 0

    @write_transaction
    def shift(self, connection: Connection, now: int, back_ms: int | None = None) -> None:
        """The clock went back: what is due by the old time is due as much sooner.

        Without `back_ms` it is told from the jobs themselves: none can have been made in the future.
        """
        if back_ms is None:
            (newest,) = connection.one("SELECT max(created) FROM jobs WHERE state = 'queued'")
            back_ms = 0 if newest is None else newest - now
        if back_ms > 0:
            connection.run(
                "UPDATE jobs SET run_at = max(?, run_at - ?), created = min(created, ?) WHERE state = 'queued'",
                (now, back_ms, now),
            )

    @write_transaction
    def recover(
        self, connection: Connection, *, but_not: Sequence[int] = (), counted: bool = True
    ) -> tuple[int, dict[int, int]]:
        """Queue again what says it runs and does not. Unless `counted`, it is no interruption.

        `but_not` are the jobs that do run. Returns how many are queued again; and for those that went, because a
        twin of theirs waits already and does for both, that twin.
        """
        running = ",".join(str(int(job_id)) for job_id in (0, *but_not))  # A list is never empty in SQL.
        lost = f"state = 'running' AND pk NOT IN ({running})"
        heirs = _leave_to_twins(connection, lost)
        connection.run(
            "UPDATE jobs SET state = 'dead', leased_until = NULL,"
            " error = 'the process died ' || (interruptions + 1) || ' times while this job ran'"
            f" WHERE {lost} AND interruptions >= ?",
            (MAX_INTERRUPTIONS,),
        )
        queued = connection.run(
            f"UPDATE jobs SET state = 'queued', leased_until = NULL, interruptions = interruptions + {int(counted)}"
            f" WHERE {lost}"
        )
        return queued, heirs

    @write_transaction
    def claim(
        self,
        connection: Connection,
        now: int,
        leased_until: int,
        free: Sequence[tuple[Sequence[str], int]],
    ) -> tuple[list[Job], int | None]:
        """Start jobs that are due: of each group of kinds up to its number. Also tells when the next one is due.

        Owners take turns within a kind, whoever has waited longest for one first; an owner's jobs run oldest first.
        """
        claimed: list[Job] = []
        due: list[int] = []
        every = [kind for kinds, _ in free for kind in kinds]
        found = connection.all(EARLIEST, (json.dumps(every),))
        earliest: dict[str, int | None] = {row[0]: row[1] for row in found}
        for kinds, workers in free:
            left = workers
            for kind in kinds:
                if (first := earliest[kind]) is None or first > now:
                    due += [] if first is None else [first]
                    continue
                started = [
                    _job_of(row)
                    for job_id in self._in_turn(kind, connection.all(DUE, (kind, now)), left)
                    for row in connection.all(CLAIM, (leased_until, job_id))
                ]
                claimed += started
                left -= len(started)
                if left > 0:
                    due += [time for (time,) in connection.all(NEXT_DUE, (kind,))]
        return claimed, min(due, default=None)

    def _in_turn(self, kind: str, due: Iterable[Row], limit: int) -> list[int]:
        """Of the jobs of a kind that are due, oldest first, those that start now."""
        waiting: defaultdict[str, list[int]] = defaultdict(list)
        for job_id, lane, space, user_id in due:
            waiting[_owner(lane, space, user_id)].append(job_id)
        started = self._started[kind]
        order = sorted(waiting, key=lambda owner: started.get(owner, 0))
        rounds = itertools.zip_longest(*(waiting[owner] for owner in order))
        turns = [
            (owner, job_id)
            for each in rounds
            for owner, job_id in zip(order, each, strict=True)
            if job_id is not None
        ]
        for owner, _ in turns[:limit]:
            self._claims += 1
            started[owner] = self._claims
        if len(started) > _REMEMBERED_OWNERS:
            self._started[kind] = {owner: started[owner] for owner in order if owner in started}
        return [job_id for _, job_id in turns[:limit]]

    async def owners_behind(self, now: int, jobs: int) -> set[tuple[str, str]]:
        """Space and id of each user with at least `jobs` due jobs."""
        return {(row["space"], row["user_id"]) for row in await self._database.read(BACKLOG, (now, jobs))}

    async def complete(self, job: Job) -> bool:
        """The job is done and goes. False when its lease was lost meanwhile."""
        return await self._settle("DELETE FROM jobs WHERE {mine}", job, {})

    @write_transaction
    def put_back(
        self, connection: Connection, job: Job, run_at: int, *, attempts: int, error: str | None
    ) -> int | None:
        """Queue the job again for `run_at`. If an equal one is already queued, this one is dropped.

        Returns the id of the one that waits; None when the lease was lost meanwhile.
        """
        mine = {"pk": job.job_id, "claims": job.claims}
        twin = connection.one(
            "SELECT q.pk FROM jobs q JOIN jobs j ON q.lane = j.lane AND q.kind = j.kind AND q.dedupe = j.dedupe"
            " WHERE j.pk = :pk AND j.claims = :claims AND j.state = 'running' AND q.state = 'queued'",
            mine,
        )
        if twin is None:
            changed = connection.run(
                "UPDATE jobs SET state = 'queued', leased_until = NULL, run_at = :run_at, attempts = :attempts,"
                " error = :error WHERE pk = :pk AND claims = :claims AND state = 'running'",
                {**mine, "run_at": run_at, "attempts": attempts, "error": error},
            )
            return job.job_id if changed else None
        connection.run("DELETE FROM jobs WHERE pk = :pk", mine)
        if causes := job.payload.get(CAUSES):
            add_causes(connection, twin[0], causes)
        # The twin takes over the wait, or a job that keeps failing would never back off.
        connection.run(
            "UPDATE jobs SET run_at = max(run_at, ?), attempts = max(attempts, ?), error = ? WHERE pk = ?",
            (run_at, attempts, error, *twin),
        )
        return int(twin[0])

    async def give_up(self, job: Job, *, attempts: int, error: str) -> bool:
        """The job failed too often: it is set aside until a person looks."""
        return await self._settle(
            "UPDATE jobs SET state = 'dead', leased_until = NULL, attempts = :attempts, error = :error WHERE {mine}",
            job,
            {"attempts": attempts, "error": error},
        )

    async def get(self, job_id: int) -> Job | None:
        found = await self._database.one(f"SELECT {JOB_COLUMNS} FROM jobs WHERE pk = ?", (job_id,))
        return None if found is None else _job_of(found)

    async def list_jobs(
        self,
        *,
        space: str | None,
        user_id: str | None = None,
        thread_id: str | None = None,
        lane: str | None = None,
        state: JobState | None = None,
        limit: int = 100,
        after: int = 0,
    ) -> list[Job]:
        """Oldest first; `space` None means every one; with a user, the jobs of that user's threads."""
        found = await self._database.read(
            f"SELECT {JOB_COLUMNS} FROM jobs WHERE pk > :after AND (:space IS NULL OR space = :space)"
            " AND (:state IS NULL OR state = :state) AND (:thread_id IS NULL OR thread_id = :thread_id)"
            " AND (:lane IS NULL OR lane = :lane) AND (:user_id IS NULL OR user_id = :user_id)"
            " ORDER BY pk LIMIT :limit",
            {
                "after": after,
                "space": space,
                "user_id": user_id,
                "thread_id": thread_id,
                "lane": lane,
                "state": state,
                "limit": limit,
            },
        )
        return [_job_of(row) for row in found]

    async def counts(self) -> dict[str, int]:
        found = await self._database.read("SELECT state, count(*) AS number FROM jobs GROUP BY state")
        return {row["state"]: row["number"] for row in found}

    async def in_trouble(self) -> int:
        """How many jobs wait to be tried again after an error, or for a quota."""
        (row,) = await self._database.read(
            "SELECT count(*) AS number FROM jobs WHERE error IS NOT NULL AND state != 'dead'"
        )
        return int(row["number"])

    async def oldest_due(self, now: int) -> int | None:
        """Since when the job that has waited longest is due."""
        found = await self._database.read(
            "SELECT min(run_at) AS due FROM jobs INDEXED BY jobs_due WHERE state = 'queued' AND run_at <= ?",
            (now,),
        )
        return found[0]["due"]  # type: ignore[no-any-return]

    async def oldest_of(self, kinds: Sequence[str]) -> int | None:
        """Since when the oldest job of these kinds is there, whatever it waits for."""
        found = await self._database.read(
            "SELECT min(created) AS since FROM jobs WHERE state != 'dead'"
            f" AND kind IN ({','.join('?' * len(kinds))})",
            tuple(kinds),
        )
        return found[0]["since"]  # type: ignore[no-any-return]

    async def hasten(self, job_ids: Sequence[int], now: int) -> int:
        """Returns how many are due sooner."""
        ids = json.dumps(list(job_ids))
        return await self._database.execute(HASTEN, {"ids": ids, "now": now})

    @write_transaction
    def revive(self, connection: Connection, job_id: int, now: int) -> Job:
        """Queue a dead job again, with a clean slate: a model that it asked in vain may be asked again."""
        dead = connection.one(
            "SELECT lane, kind, dedupe, space FROM jobs WHERE pk = ? AND state = 'dead'", (job_id,)
        )
        if dead is None:
            raise NotFound(f"there is no dead job {job_id}; only dead jobs can be retried")
        *dead, space = dead
        connection.run(f"DELETE FROM model_answers WHERE space = ? AND {ASKED_IN_VAIN}", (space,))
        connection.run(
            "DELETE FROM jobs WHERE state = 'queued' AND lane = ? AND kind = ? AND dedupe = ?", dead
        )
        revived = "UPDATE jobs SET state = 'queued', attempts = 0, interruptions = 0, run_at = ? WHERE pk = ?"
        (row,) = connection.all(f"{revived} RETURNING {JOB_COLUMNS}", (now, job_id))
        return _job_of(row)

    async def _settle(self, sql: str, job: Job, parameters: dict[str, Any]) -> bool:
        mine = "pk = :pk AND claims = :claims AND state = 'running'"
        bound = {**parameters, "pk": job.job_id, "claims": job.claims}
        return await self._database.execute(sql.format(mine=mine), bound) == 1


def _leave_to_twins(connection: Connection, which: str) -> dict[int, int]:
    """Drop the jobs for which an equal one is already queued."""
    found = connection.all(
        # Few run and many may wait: those that run are looked at first.
        f"SELECT j.pk, q.pk, j.payload_json FROM (SELECT * FROM jobs WHERE {which}) j CROSS JOIN jobs q"
        " WHERE q.lane = j.lane AND q.kind = j.kind AND q.dedupe = j.dedupe AND q.state = 'queued'"
    )
    for job, twin, payload in found:
        connection.run("DELETE FROM jobs WHERE pk = ?", (job,))
        if causes := json.loads(payload).get(CAUSES):
            add_causes(connection, twin, causes)
    return {job: twin for job, twin, _ in found}


def _owner(lane: str, space: str, user_id: str | None) -> str:
    """Whose job it is: the folder of the thread's user, or the one that its lane names."""
    if user_id is not None:
        return owner_folder(space, user_id)
    return "/".join(lane.partition(":")[2].split("/")[:3])


def _job_of(row: Row) -> Job:
    return made(Job, row, job_id=row["pk"], payload=json_or_none(row["payload_json"]))
