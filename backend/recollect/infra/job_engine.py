"""Runs durable jobs: due ones first, one at a time per lane, a bounded number at once."""

import asyncio
import logging
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

from recollect.domain.job import GivenUp, Job, NotYet, Preempted, Unfinished
from recollect.errors import OverQuota, Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.jobs import SqlJobStore

Handler = Callable[[Job], Awaitable[None]]
Pools = Sequence[Mapping[str, Handler]]
"""Handlers by kind. Each pool has its own workers, so that slow kinds never keep quick ones waiting."""

_FIRST_DELAY_MS = 500
_LONGEST_DELAY_MS = 60_000
_LONGEST_OUTAGE_DELAY_MS = 5_000
_LONGEST_QUOTA_DELAY_MS = 600_000
_LONGEST_WAIT_SECONDS = 5.0
_LAST_WORDS_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 0.5
_COUNT_MS = 1_000
"""Backlogs are counted no more often: it takes as long as the queue."""
_log = logging.getLogger("recollect.jobs")


class JobEngine:
    """Every job runs at least once, and its handler may run twice: handlers are idempotent.

    A handler that raises Unavailable or OverQuota is tried again for as long as it takes; any other error counts, and
    a job that fails too often, or raises GivenUp, is set aside as dead. A handler that outlives its lease is abandoned and run again.
    One that raises Preempted is put back as it was: its attempts, its error and its place stay what they were.
    """

    def __init__(
        self,
        store: SqlJobStore,
        *,
        clock: Callable[[], int],
        workers: int,
        lease_seconds: float,
        max_attempts: int,
        stop_seconds: float,
        fail_points: FailPoints,
        jitter: Callable[[], float] = random.random,
        patience: Mapping[str, tuple[int, int]] = {},
    ) -> None:
        """`patience` of a kind: how many attempts it has instead, and the longest delay between them in ms."""
        self._store = store
        self.get, self.list_jobs = store.get, store.list_jobs
        self.counts, self.in_trouble = store.counts, store.in_trouble
        self._clock = clock
        self._workers = workers
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._stop_seconds = stop_seconds
        self._fail_points = fail_points
        self._jitter = jitter
        self._patience = patience
        self._pools: Pools = ()
        self._running: dict[int, tuple[Job, asyncio.Task[None]]] = {}
        self._dispatcher: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._due: int | None = None
        self._held: Counter[str] = Counter()
        """How many pauses hold each kind back."""
        self._ended_one = asyncio.Event()
        self._starting = asyncio.Lock()
        self._waiting: defaultdict[int, set[asyncio.Event]] = defaultdict(set)
        self._heirs: dict[int, int] = {}
        """Jobs somebody waits for that were put back and are done by their twin instead."""
        self._lost_checked = 0
        self._counted: int | None = None
        self._behind: set[tuple[str, str]] = set()
        """Users with too much work waiting, when that was last counted."""
        self.finished = 0
        self.failed = 0

    async def start(self, pools: Pools) -> None:
        self._pools = pools
        self._wake, self._ended_one, self._starting = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        interrupted, _ = await self._store.recover()
        if interrupted:
            _log.info("%d jobs were interrupted by the last stop and run again", interrupted)
        self._due = self._lost_checked = self._clock()
        await self._store.shift(self._due)
        self._dispatcher = asyncio.create_task(self._dispatch(), name="job-dispatcher")

    async def stop(self) -> None:
        """Start no more jobs, wait `stop_seconds` for running ones, and requeue the rest without counting an attempt."""
        if self._dispatcher is None:
            return
        self._dispatcher.cancel()
        await asyncio.gather(self._dispatcher, return_exceptions=True)
        self._dispatcher = None
        running = {task for _, task in self._running.values()}
        if running:
            _, late = await asyncio.wait(running, timeout=self._stop_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        # What was claimed in the very moment of stopping has no runner.
        await self._store.recover(counted=False)

    def notify(self, due: int) -> None:
        """A job has been queued that is due then."""
        if self._earlier(due):
            self._wake.set()

    async def wait_for(self, job_id: int, seconds: float) -> bool:
        """True as soon as the job is done, dead or taken away; False when the time is up before that."""
        event = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._waiting[job_id].add(event)
                    job = await self._store.get(job_id)
                    if job is None and job_id in self._heirs:
                        heir = self._heirs[job_id]
                        self._stop_waiting(job_id, event)
                        job_id = heir
                    elif job is None or job.state == "dead":
                        return True
                    else:
                        # One that is taken away before it runs, with its thread say, tells nobody.
                        with suppress(TimeoutError):
                            async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                                await event.wait()
                        event.clear()
        except TimeoutError:
            return False
        finally:
            self._stop_waiting(job_id, event)

    def _stop_waiting(self, job_id: int, event: asyncio.Event) -> None:
        self._waiting[job_id].discard(event)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
            self._heirs.pop(job_id, None)

    @asynccontextmanager
    async def paused(self, kinds: Sequence[str] | None = None) -> AsyncIterator[None]:
        """No job of these kinds runs while this lasts; without `kinds`, no job at all."""
        held = [kind for pool in self._pools for kind in pool] if kinds is None else list(kinds)
        self._held.update(held)
        try:
            async with self._starting:
                pass
            while any(job.kind in held for job, _ in self._running.values()):
                self._ended_one.clear()
                await self._ended_one.wait()
            yield
        finally:
            self._held.subtract(held)
            self._due = self._clock()
            self._wake.set()

    async def retry(self, job_id: int) -> Job:
        """Give a dead job another chance, now."""
        job = await self._store.revive(job_id, self._clock())
        self.notify(job.run_at)
        return job

    async def hasten(self, job_ids: Sequence[int]) -> None:
        """Make these jobs due now, with all jobs before them in their lanes. Jobs in backoff keep waiting."""
        now = self._clock()
        if await self._store.hasten(job_ids, now):
            self.notify(now)

    async def owners_behind(self, jobs: int) -> set[tuple[str, str]]:
        """Space and id of each user with at least `jobs` due jobs. Counted at most once a second."""
        now = self._clock()
        if self._counted is None or not 0 <= now - self._counted < _COUNT_MS:
            self._counted = now
            self._behind = await self._store.owners_behind(now, jobs)
        return self._behind

    async def oldest_wait_ms(self) -> int:
        """How long the job that has been due for longest has waited."""
        now = self._clock()
        due = await self._store.oldest_due(now)
        # A job that had to make way still waits at the gate, though its state is running.
        again = [job.run_at for job, _ in self._running.values() if job.claims > 1]
        oldest = min([*again, *([] if due is None else [due])], default=now)
        return max(0, now - oldest)

    async def oldest_age_ms(self, kinds: Sequence[str]) -> int:
        """How long ago the oldest job of these kinds was queued that isn't done; 0 where there is none."""
        since = await self._store.oldest_of(kinds)
        return 0 if since is None else max(0, self._clock() - since)

    async def _dispatch(self) -> None:
        while True:
            try:
                await self._free_lost_jobs()
                async with self._starting:
                    await self._start_due_jobs()
            except Exception as error:  # noqa: BLE001 - the dispatcher survives a journal that fails
                _log.error("jobs cannot be started: %s", error)
                self._due = self._clock() + _FIRST_DELAY_MS
            await self._sleep_until_due()

    async def _free_lost_jobs(self) -> None:
        """Requeue jobs that are marked as running and have no runner here, without counting an attempt.

        That happens if the journal could not be written when they ended. Then look for due jobs in any case: one
        behind a lost one in its lane may be due, and nothing else announces it.
        """
        now = self._clock()
        if abs(now - self._lost_checked) >= _LONGEST_WAIT_SECONDS * 1000:
            back = self._lost_checked - now
            self._lost_checked = now
            if back > 0:
                await self._store.shift(now, back)
            _, heirs = await self._store.recover(but_not=list(self._running), counted=False)
            self._heirs.update((job, twin) for job, twin in heirs.items() if job in self._waiting)
            self._due = now

    async def _start_due_jobs(self) -> None:
        while free := self._free_workers():
            now = self._clock()
            if self._due is None or self._due > now:
                return
            self._due = None
            jobs, due = await self._store.claim(now, now + int(self._lease_seconds * 1000), free)
            if due is not None:
                self._earlier(due)
            if not jobs:
                return
            self._fail_points.reach("jobs.claimed")
            for job in jobs:
                task = asyncio.create_task(self._run(job), name=f"job-{job.job_id}-{job.kind}")
                self._running[job.job_id] = (job, task)
                task.add_done_callback(partial(self._ended, job.job_id))

    def _earlier(self, due: int) -> bool:
        if self._due is not None and self._due <= due:
            return False
        self._due = due
        return True

    def _free_workers(self) -> list[tuple[list[str], int]]:
        """The kinds of each pool that has workers free, and how many."""
        busy = [job.kind for job, _ in self._running.values()]
        free = [
            (
                [kind for kind in pool if not self._held[kind]],
                self._workers - sum(kind in pool for kind in busy),
            )
            for pool in self._pools
        ]
        return [(kinds, workers) for kinds, workers in free if kinds and workers > 0]

    async def _sleep_until_due(self) -> None:
        self._wake.clear()
        wait = _LONGEST_WAIT_SECONDS
        if self._due is not None and self._free_workers():
            wait = min(wait, max(0.0, (self._due - self._clock()) / 1000))
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            return

    def _ended(self, job_id: int, task: asyncio.Task[None]) -> None:
        # A job that was put back may have been started again before its first runner's end came to be known.
        if self._running[job_id][1] is task:
            del self._running[job_id]
        self._ended_one.set()
        # What waited behind it in its lane may be due now.
        self._due = self._clock()
        self._wake.set()

    async def _run(self, job: Job) -> None:
        try:
            await self._handle(job)
            self._fail_points.reach("jobs.handled")
            await self._store.complete(job)
            self._fail_points.reach("jobs.completed")
            self.finished += 1
        except asyncio.CancelledError:
            await self._store.put_back(job, self._clock(), attempts=job.attempts, error=job.error)
            raise
        except Unfinished:
            await self._put_back(job, self._clock(), attempts=0, error=None)
        except NotYet as early:
            due = self._clock() + early.delay_ms
            await self._put_back(job, due, attempts=job.attempts, error=job.error)
        except Preempted:
            # Due since when it was: among the jobs of its kind it keeps its place.
            await self._put_back(job, job.run_at, attempts=job.attempts, error=job.error)
        except Unavailable as error:
            await self._after_outage(job, error, _LONGEST_OUTAGE_DELAY_MS)
        except OverQuota as error:
            await self._after_outage(job, error, _LONGEST_QUOTA_DELAY_MS)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is recorded with its job
            await self._after_failure(job, error)
        finally:
            for event in self._waiting.get(job.job_id, ()):
                event.set()

    async def _handle(self, job: Job) -> None:
        handler = next(pool[job.kind] for pool in self._pools if job.kind in pool)
        task = asyncio.ensure_future(handler(job))
        try:
            done, _ = await asyncio.wait({task}, timeout=self._lease_seconds)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=_LAST_WORDS_SECONDS)
            raise
        if not done:
            # Not awaited: a handler that hangs may not even react to being cancelled.
            task.cancel()
            raise TimeoutError(f"still running after {self._lease_seconds:g} s: taken for hung")
        task.result()

    async def _after_outage(self, job: Job, error: Unavailable | OverQuota, longest_ms: int) -> None:
        """Retry with a growing delay, without counting an attempt: an outage is not the job's fault.

        Where the error says when, not before that.
        """
        _log.warning("job %d (%s) waits: %s", job.job_id, job.kind, error)
        waited = self._clock() - job.created
        least_ms = int((error.retry_after or 0) * 1000)
        delay = least_ms + self._jittered(min(longest_ms, max(_FIRST_DELAY_MS, waited // 2)))
        await self._put_back(
            job, self._clock() + delay, attempts=job.attempts, error=f"{type(error).__name__}: {error}"
        )

    async def _after_failure(self, job: Job, error: Exception) -> None:
        self.failed += 1
        attempts = job.attempts + 1
        reason = f"{type(error).__name__}: {error}"
        most, longest = self._patience.get(job.kind, (self._max_attempts, _LONGEST_DELAY_MS))
        if attempts >= most or isinstance(error, GivenUp):
            _log.error("job %d (%s) is dead after %d attempts: %s", job.job_id, job.kind, attempts, reason)
            with self._outage_logged(job):
                await self._store.give_up(job, attempts=attempts, error=reason)
        else:
            _log.warning(
                "job %d (%s) failed, attempt %d: %s", job.job_id, job.kind, attempts, reason, exc_info=error
            )
            delay = self._jittered(min(longest, _FIRST_DELAY_MS * 2 ** min(attempts, 20)))
            await self._put_back(job, self._clock() + delay, attempts=attempts, error=reason)

    async def _put_back(self, job: Job, run_at: int, *, attempts: int, error: str | None) -> None:
        with self._outage_logged(job):
            waits = await self._store.put_back(job, run_at, attempts=attempts, error=error)
            if waits is not None and waits != job.job_id and job.job_id in self._waiting:
                self._heirs[job.job_id] = waits
            self.notify(run_at)

    @contextmanager
    def _outage_logged(self, job: Job) -> Iterator[None]:
        """While the journal cannot be written a job stays marked as running; `_free_lost_jobs` finds it later."""
        try:
            yield
        except Unavailable as outage:
            _log.error("job %d runs again when the journal can be written: %s", job.job_id, outage)

    def _jittered(self, delay_ms: int) -> int:
        return int(delay_ms * (0.75 + 0.5 * self._jitter()))
