"""One in-memory fake per port of `service/ports.py`. The contract suites hold each against the real thing."""

import asyncio
import hashlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Any

from recollect.domain import identity
from recollect.domain.access import ApiKey
from recollect.domain.forgetting import TombstoneFile
from recollect.domain.job import (
    BOUNDARY,
    FLUSH,
    PURGE,
    TAKE_IN,
    TRANSCRIBE,
    Job,
    JobState,
    NotYet,
    Preempted,
    Unfinished,
    cells_lane,
    vault_lane,
)
from recollect.domain.model import (
    Append,
    Coverage,
    JsonObject,
    Memcell,
    NewTurn,
    Note,
    Receipt,
    Thread,
    ThreadPlace,
    Turn,
)
from recollect.domain.strategy import STRATEGY
from recollect.domain.vault_file import (
    FileStamp,
    KnownPart,
    PlacedTurn,
    StoredPart,
    TranscriptState,
    VaultFile,
)
from recollect.errors import AlreadyExists, NotFound, StorageUnavailable, Unavailable
from recollect.service.coordination import Clock
from recollect.service.ports import (
    CellStore,
    CoverageStore,
    JobRunner,
    KeyStore,
    NoteStore,
    ThreadStore,
    TranscriptStore,
    Vault,
    VaultWatcher,
)
from recollect.service.rebuild import JournalBuilder

Handler = Callable[[Job], Awaitable[None]]
START = 1_778_248_980_000
"""2026-05-08T14:03:00Z"""


class FakeClock:
    """Stands still until it is told to move."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds


class FakeJobRunner:
    """Runs what is due, lane by lane and in order, whenever `run_due` or a waiter says so."""

    def __init__(self, clock: FakeClock, *, max_attempts: int = 8) -> None:
        self.handlers: dict[str, Handler] = {}
        self._clock = clock
        self._max_attempts = max_attempts
        self.owners: Callable[[str, str | None], str | None] = lambda space, thread_id: None
        """Whose a thread is."""
        self._jobs: dict[int, Job] = {}
        self._dedupe: dict[int, str] = {}
        self._numbers = count(1)
        self._paused = 0

    def queue(
        self,
        kind: str,
        lane: str,
        space: str,
        thread_id: str | None,
        run_at: int,
        payload: JsonObject | None = None,
        dedupe: str = "",
    ) -> int:
        """Queue a job; while its twin waits already, that one does for both."""
        if (twin := self._waiting_twin(kind, lane, dedupe)) is not None:
            self._jobs[twin.job_id] = replace(twin, run_at=min(twin.run_at, run_at))
            return twin.job_id
        number = next(self._numbers)
        self._dedupe[number] = dedupe
        self._jobs[number] = Job(
            number, kind, lane, space, thread_id, payload or {}, run_at=run_at, created=self._clock()
        )
        return number

    def drop(self, lane: str, kinds: Sequence[str] = (BOUNDARY, FLUSH, TRANSCRIBE, TAKE_IN)) -> None:
        """Take back what has not been started."""
        for job in list(self._jobs.values()):
            if job.lane == lane and job.kind in kinds and job.state != "running":
                del self._jobs[job.job_id]

    async def run_due(self) -> int:
        """Run jobs until none is due; returns how many ran."""
        ran = 0
        while not self._paused and (job := self._next_due()) is not None:
            await self._run(job)
            ran += 1
        return ran

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
        found = [
            job
            for number, job in sorted(self._jobs.items())
            if number > after
            and space in (None, job.space)
            and state in (None, job.state)
            and thread_id in (None, job.thread_id)
            and lane in (None, job.lane)
            and user_id in (None, self.owners(job.space, job.thread_id))
        ]
        return found[:limit]

    async def get(self, job_id: int) -> Job | None:
        return self._jobs.get(job_id)

    async def retry(self, job_id: int) -> Job:
        dead = self._jobs.get(job_id)
        if dead is None or dead.state != "dead":
            raise NotFound(f"there is no dead job {job_id}")
        if (twin := self._waiting_twin(dead.kind, dead.lane, self._dedupe[job_id])) is not None:
            del self._jobs[twin.job_id]
        revived = replace(dead, state="queued", attempts=0, interruptions=0, run_at=self._clock())
        self._jobs[job_id] = revived
        return revived

    async def hasten(self, job_ids: Sequence[int]) -> None:
        lasts = {self._jobs[number].lane: number for number in sorted(job_ids) if number in self._jobs}
        for number, job in self._jobs.items():
            if job.state == "queued" and job.error is None and number <= lasts.get(job.lane, 0):
                self._jobs[number] = replace(job, run_at=min(job.run_at, self._clock()))

    async def wait_for(self, job_id: int, seconds: float) -> bool:
        """Time stands still here: what is due runs now, and the rest would not be done in time."""
        await self.run_due()
        job = self._jobs.get(job_id)
        return job is None or job.state == "dead"

    async def counts(self) -> dict[str, int]:
        states = [job.state for job in self._jobs.values()]
        return {state: states.count(state) for state in states}

    async def in_trouble(self) -> int:
        return sum(job.error is not None and job.state != "dead" for job in self._jobs.values())

    async def oldest_wait_ms(self) -> int:
        now = self._clock()
        return max((now - job.run_at for job in self._jobs.values() if self._is_due(job)), default=0)

    @asynccontextmanager
    async def paused(self, kinds: Sequence[str] | None = None) -> AsyncIterator[None]:
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def _waiting_twin(self, kind: str, lane: str, dedupe: str) -> Job | None:
        for number, job in self._jobs.items():
            if job.state == "queued" and (job.kind, job.lane, self._dedupe[number]) == (kind, lane, dedupe):
                return job
        return None

    def _is_due(self, job: Job) -> bool:
        return job.state == "queued" and job.run_at <= self._clock()

    def _next_due(self) -> Job | None:
        heads: dict[str, Job] = {}
        for _, job in sorted(self._jobs.items()):
            if job.state != "dead":
                heads.setdefault(job.lane, job)
        due = [job for job in heads.values() if self._is_due(job) and job.kind in self.handlers]
        return min(due, key=lambda job: (job.run_at, job.job_id), default=None)

    async def _run(self, job: Job) -> None:
        running = replace(job, state="running", claims=job.claims + 1)
        self._jobs[job.job_id] = running
        try:
            await self.handlers[job.kind](running)
        except Unfinished:
            self._put_back(running, self._clock(), 0, None)
        except NotYet as early:
            self._put_back(running, self._clock() + early.delay_ms, running.attempts, running.error)
        except Preempted:
            self._put_back(running, running.run_at, running.attempts, running.error)
        except Unavailable as error:
            self._put_back(running, self._clock() + 500, running.attempts, _in_words(error))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is recorded with its job
            attempts = running.attempts + 1
            if attempts < self._max_attempts:
                self._put_back(running, self._clock() + 500 * 2**attempts, attempts, _in_words(error))
            else:
                self._jobs[job.job_id] = replace(
                    running, state="dead", attempts=attempts, error=_in_words(error)
                )
        else:
            del self._jobs[job.job_id]

    def _put_back(self, job: Job, run_at: int, attempts: int, error: str | None) -> None:
        waiting = self._waiting_twin(job.kind, job.lane, self._dedupe[job.job_id])
        if waiting is not None:
            del self._jobs[waiting.job_id]
        self._jobs[job.job_id] = replace(job, state="queued", run_at=run_at, attempts=attempts, error=error)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@dataclass
class ThreadRows:
    """All that the fake journal knows of one thread. A turn's place is its number."""

    thread: Thread
    last_number: int
    unasked: int = 0
    header_revision: int = 1
    turns: dict[int, Turn] = field(default_factory=dict)
    buffer: set[str] = field(default_factory=set)
    cells: list[Memcell] = field(default_factory=list)
    transcribed: set[str] = field(default_factory=set)
    parts: dict[int, StoredPart] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """Of the turns, by message id."""

    @property
    def last_final(self) -> int:
        """The last turn that is final and has only final ones before it."""
        unfinished = [n for n, turn in self.turns.items() if turn.status in ("queued", "streaming")]
        return min(unfinished) - 1 if unfinished else self.last_number

    def copies(self) -> Iterator[tuple[int, Turn]]:
        return ((number, deepcopy(turn)) for number, turn in sorted(self.turns.items()))


class FakeJournal:
    """The state that the fake stores share."""

    def __init__(
        self,
        clock: FakeClock | None = None,
        *,
        boundary_every: int = 4,
        boundary_delay_ms: int = 700,
        pause_ms: int = 30_000,
        transcript_delay_ms: int = 400,
    ) -> None:
        self.clock = clock or FakeClock()
        self.jobs = FakeJobRunner(self.clock)
        self.boundary_every = boundary_every
        self.boundary_delay_ms = boundary_delay_ms
        self.pause_ms = pause_ms
        self.transcript_delay_ms = transcript_delay_ms
        self.rows: dict[tuple[str, str], ThreadRows] = {}
        self.tombstones: dict[tuple[str, str, str], dict[str, int]] = {}
        """By space, user and thread key: message key -> turn number."""
        self.threads = FakeThreadStore(self)
        self.cells = FakeCellStore(self)
        self.transcripts = FakeTranscriptStore(self)
        self.coverage = FakeCoverageStore(self)
        self.builder = FakeJournalBuilder(self)
        self.jobs.owners = self._owner

    def _owner(self, space: str, thread_id: str | None) -> str | None:
        rows = self.rows.get((space, thread_id or ""))
        return None if rows is None else rows.thread.user_id

    def existing(self, space: str, thread_id: str) -> ThreadRows:
        if (space, thread_id) not in self.rows:
            raise NotFound(f"there is no thread {thread_id!r}")
        return self.rows[space, thread_id]

    def buried(self, thread: Thread) -> dict[str, int]:
        """What was forgotten of this user's thread, or of an earlier one of the same id."""
        key = identity.thread_key(thread.space, thread.thread_id)
        return self.tombstones.setdefault((thread.space, thread.user_id, key), {})

    def open(self, thread: Thread) -> ThreadRows:
        """A new thread goes on counting where a forgotten one of its id ended."""
        last_number = max(self.buried(thread).values(), default=0)
        tags = tuple(dict.fromkeys(thread.tags))
        rows = ThreadRows(replace(thread, tags=tags, turn_count=0), last_number)
        self.rows[thread.space, thread.thread_id] = rows
        return rows

    def queue_transcript(self, space: str, thread_id: str, delay: int) -> None:
        lane = vault_lane(identity.thread_key(space, thread_id))
        self.jobs.queue(TRANSCRIBE, lane, space, thread_id, self.clock() + delay)


class FakeThreadStore:
    """`THREADS` on a fake journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal

    async def get_thread(self, thread_id: str, *, space: str = "default") -> Thread | None:
        rows = self._journal.rows.get((space, thread_id))
        return None if rows is None else rows.thread

    async def list_threads(
        self,
        *,
        space: str = "default",
        user_id: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Thread]:
        threads = [rows.thread for key, rows in self._journal.rows.items() if key[0] == space]
        threads.sort(key=lambda thread: thread.created)
        if after is not None:
            ids = [thread.thread_id for thread in threads]
            threads = threads[ids.index(after) + 1 :] if after in ids else []
        return [thread for thread in threads if user_id in (None, thread.user_id)][:limit]

    async def recent_threads(
        self,
        *,
        space: str = "default",
        user_id: str | None = None,
        words: str | None = None,
        limit: int,
        after: ThreadPlace | None = None,
    ) -> list[Thread]:
        threads = [rows.thread for key, rows in self._journal.rows.items() if key[0] == space]
        found = [
            thread
            for thread in sorted(threads, key=ThreadPlace.of, reverse=True)
            if user_id in (None, thread.user_id)
            and (words is None or words.casefold() in (thread.title or "").casefold())
            and (after is None or ThreadPlace.of(thread) < after)
        ]
        return found[:limit]

    async def get_history(
        self,
        thread_id: str,
        max_turns: int | None = None,
        *,
        space: str = "default",
        before: str | None = None,
    ) -> list[Turn]:
        rows = self._journal.rows.get((space, thread_id))
        turns = [] if rows is None else [turn for _, turn in rows.copies()]
        if before is not None:
            ids = [turn.turn_id for turn in turns]
            if before not in ids:
                raise NotFound(f"there is no turn {before!r} in this thread", field="before")
            turns = turns[: ids.index(before)]
        return turns if max_turns is None else turns[max(0, len(turns) - max(0, max_turns)) :]

    async def turns_around(
        self, thread_id: str, place: int, before: int, onwards: int, *, space: str = "default"
    ) -> list[Turn]:
        rows = self._journal.rows.get((space, thread_id))
        placed = [] if rows is None else list(rows.copies())
        earlier = [turn for position, turn in placed if position < place]
        later = [turn for position, turn in placed if position >= place]
        return earlier[max(0, len(earlier) - before) :] + later[:onwards]

    async def get_turn(self, thread_id: str, turn_id: str, *, space: str = "default") -> Turn | None:
        turns = await self.get_history(thread_id, space=space)
        return next((turn for turn in turns if turn.turn_id == turn_id), None)

    async def idle_incognito(self, before: int) -> list[Thread]:
        threads = (rows.thread for rows in self._journal.rows.values())
        return [thread for thread in threads if thread.incognito and thread.updated < before]

    async def create_thread(self, thread: Thread) -> Thread:
        if (thread.space, thread.thread_id) in self._journal.rows:
            raise AlreadyExists(f"there is a thread {thread.thread_id!r} already", field="thread_id")
        rows = self._journal.open(thread)
        if not thread.incognito:
            self._journal.queue_transcript(thread.space, thread.thread_id, self._journal.transcript_delay_ms)
        return rows.thread

    async def update_thread(
        self, thread_id: str, changes: dict[str, Any], *, space: str = "default"
    ) -> Thread:
        rows = self._journal.existing(space, thread_id)
        known = {
            name: value for name, value in changes.items() if name in ("title", "preset", "backend", "pinned")
        }
        if "tags" in changes:
            known["tags"] = tuple(changes["tags"])
        rows.thread = replace(rows.thread, **known)
        rows.header_revision += 1
        if not rows.thread.incognito:
            self._journal.queue_transcript(space, thread_id, self._journal.transcript_delay_ms)
        return rows.thread

    async def replace_title(
        self, thread_id: str, old: str | None, new: str, *, space: str = "default"
    ) -> bool:
        rows = self._journal.rows.get((space, thread_id))
        if rows is None or rows.thread.title != old:
            return False
        await self.update_thread(thread_id, {"title": new}, space=space)
        return True

    async def append(self, append: Append) -> list[Receipt]:
        is_new = (append.space, append.thread_id) not in self._journal.rows
        rows = self._find_or_open(append)
        before = rows.last_number
        given = frozenset(turn.message_id for turn in append.turns)
        receipts = [self._take(rows, append, turn, given) for turn in append.turns]
        if (accepted := rows.last_number - before) > 0:
            rows.unasked += accepted
            rows.thread = replace(rows.thread, turn_count=len(rows.turns), updated=self._journal.clock())
            self._queue_follow_up(rows)
        elif is_new:
            del self._journal.rows[append.space, append.thread_id]
        return receipts

    async def add_turn(
        self, thread_id: str, turn: NewTurn, *, space: str = "default", user_id: str | None = None
    ) -> Turn:
        (receipt,) = await self.append(Append(space, thread_id, (turn,), user_id))
        if receipt.turn_id is None:
            raise AlreadyExists(receipt.detail, field="message_id")
        stored = await self.get_turn(thread_id, receipt.turn_id, space=space)
        assert stored is not None
        return stored

    async def clear_thread(self, thread_id: str, *, space: str = "default") -> int:
        rows = self._journal.existing(space, thread_id)
        gone = self._forget(rows)
        self._journal.rows[space, thread_id] = ThreadRows(
            replace(rows.thread, turn_count=0), rows.last_number, header_revision=rows.header_revision
        )
        self._journal.queue_transcript(space, thread_id, 0)
        return gone

    async def delete_thread(self, thread_id: str, *, space: str = "default") -> int:
        gone = self._forget(self._journal.existing(space, thread_id))
        del self._journal.rows[space, thread_id]
        return gone

    def _find_or_open(self, append: Append) -> ThreadRows:
        rows = self._journal.rows.get((append.space, append.thread_id))
        if rows is None:
            thread = Thread(
                append.space,
                append.thread_id,
                append.user_id or "me",
                created=append.turns[0].timestamp,
                updated=self._journal.clock(),
                agent_id=append.agent_id,
                tags=append.tags,
            )
            return self._journal.open(thread)
        if append.user_id not in (None, rows.thread.user_id):
            raise NotFound(f"there is no thread {append.thread_id!r}")
        header = replace(
            rows.thread,
            tags=tuple(dict.fromkeys((*rows.thread.tags, *append.tags))),
            agent_id=rows.thread.agent_id or append.agent_id,
        )
        if header != rows.thread:
            rows.thread = header
            rows.header_revision += 1
            self._journal.queue_transcript(append.space, append.thread_id, self._journal.transcript_delay_ms)
        return rows

    def _take(self, rows: ThreadRows, append: Append, turn: NewTurn, given: frozenset[str | None]) -> Receipt:
        if (message_id := turn.message_id) is not None:
            if identity.message_key(message_id) in self._journal.buried(rows.thread):
                return Receipt(message_id, None, "forgotten", "this message was forgotten")
            if message_id in rows.numbers:
                stored = rows.turns[rows.numbers[message_id]]
                same = identity.turn_digest(stored, message_id) == identity.turn_digest(turn, message_id)
                detail = None if same else "a different message with this id is stored"
                return Receipt(message_id, stored.turn_id, "duplicate", detail)
        rows.last_number += 1
        message_id = message_id or self._make_id(rows, append, turn, given)
        turn_id = identity.turn_id(rows.last_number)
        reason = "system message" if turn.role == "system" else None
        reason = "incognito thread" if rows.thread.incognito else reason
        values = {**asdict(turn), "message_id": message_id}
        rows.turns[rows.last_number] = Turn(turn_id=turn_id, skip_reason=reason, **values)
        rows.numbers[message_id] = rows.last_number
        if reason is None:
            rows.buffer.add(turn_id)
        return Receipt(message_id, turn_id, "accepted")

    def _make_id(self, rows: ThreadRows, append: Append, turn: NewTurn, given: frozenset[str | None]) -> str:
        buried = self._journal.buried(rows.thread)
        for number in count(rows.last_number, 1_000_000_000):
            made = identity.made_message_id(append.thread_id, turn.timestamp, number)
            taken = made in given or made in rows.numbers
            if not taken and identity.message_key(made) not in buried:
                return made
        raise AssertionError("numbers never end")

    def _queue_follow_up(self, rows: ThreadRows) -> None:
        journal, thread = self._journal, rows.thread
        if thread.incognito:
            return
        enough = rows.unasked >= journal.boundary_every
        wait = journal.boundary_delay_ms if enough else journal.pause_ms
        lane = cells_lane(identity.thread_key(thread.space, thread.thread_id))
        journal.jobs.queue(BOUNDARY, lane, thread.space, thread.thread_id, journal.clock() + wait)
        journal.queue_transcript(thread.space, thread.thread_id, journal.transcript_delay_ms)

    def _forget(self, rows: ThreadRows) -> int:
        thread = rows.thread
        key = identity.thread_key(thread.space, thread.thread_id)
        buried = self._journal.buried(thread)
        buried |= {identity.message_key(turn.message_id): number for number, turn in rows.turns.items()}
        self._journal.jobs.drop(cells_lane(key))
        self._journal.jobs.drop(vault_lane(key))
        now = self._journal.clock()
        self._journal.jobs.queue(
            PURGE,
            vault_lane(key),
            thread.space,
            thread.thread_id,
            now,
            {"user_id": thread.user_id},
            dedupe=thread.user_id,
        )
        return len(rows.turns)


class FakeCellStore:
    """Buffer and memcells on a fake journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal

    async def look(self, space: str, thread_id: str, limit: int) -> list[Turn]:
        rows = self._journal.rows.get((space, thread_id))
        if rows is None:
            return []
        rows.unasked = 0
        last = rows.last_final
        return [turn for number, turn in rows.copies() if turn.turn_id in rows.buffer and number <= last][
            :limit
        ]

    async def count_buffered(self, space: str, thread_id: str) -> int:
        rows = self._journal.rows.get((space, thread_id))
        return 0 if rows is None else len(rows.buffer)

    async def close(self, space: str, thread_id: str, cells: Sequence[Memcell], decided_by: str) -> None:
        if not cells:
            return
        rows = self._journal.existing(space, thread_id)
        taken = [turn_id for cell in cells for turn_id in cell.turn_ids]
        if len(set(taken)) < len(taken) or not rows.buffer.issuperset(taken):
            raise NotFound("turns of these memcells are no longer in the buffer")
        rows.buffer.difference_update(taken)
        rows.cells = sorted([*rows.cells, *cells], key=_last_position)
        self._journal.queue_transcript(space, thread_id, self._journal.transcript_delay_ms)

    async def request_flush(self, space: str, thread_id: str) -> int:
        lane = cells_lane(identity.thread_key(space, thread_id))
        self._journal.jobs.drop(lane, [BOUNDARY])
        return self._journal.jobs.queue(FLUSH, lane, space, thread_id, self._journal.clock())

    async def receipts(
        self, space: str, thread_id: str, subjects: Sequence[str]
    ) -> dict[str, dict[str, JsonObject]]:
        return {subject: {} for subject in subjects}

    async def list_cells(self, space: str, thread_id: str) -> list[tuple[Memcell, tuple[str, ...]]]:
        rows = self._journal.rows.get((space, thread_id))
        if rows is None:
            return []
        ids = {turn.turn_id: turn.message_id for turn in rows.turns.values()}
        return [(cell, tuple(ids[turn_id] for turn_id in cell.turn_ids)) for cell in rows.cells]


def _last_position(cell: Memcell) -> int:
    return max(identity.turn_number(turn_id) or 0 for turn_id in cell.turn_ids)


class FakeTranscriptStore:
    """Bookkeeping of transcripts on a fake journal. Counts the turns it hands out."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal
        self.turns_read = 0
        self.folded = 0

    async def state(self, space: str, thread_id: str) -> TranscriptState | None:
        rows = self._journal.rows.get((space, thread_id))
        if rows is None:
            return None
        parts = [rows.parts[number] for number in sorted(rows.parts)]
        unwritten = [_last_position(cell) for cell in rows.cells if cell.memcell_id not in rows.transcribed]
        stale = (
            part
            for part in parts
            if part.digest is None
            or (part.part == 1 and part.header_revision != rows.header_revision)
            or any(part.first_position <= last <= part.last_position for last in unwritten)
        )
        last_part = parts[-1] if parts else None
        return TranscriptState(rows.thread, rows.header_revision, last_part, tuple(stale))

    async def turns(
        self, space: str, thread_id: str, first: int, last: int | None = None, limit: int = -1
    ) -> list[PlacedTurn]:
        rows = self._journal.rows.get((space, thread_id))
        if rows is None:
            return []
        end = rows.last_final if last is None else min(last, rows.last_final)
        final = [number for number in range(max(1, first), end + 1) if number in rows.turns]
        chosen = final if limit < 0 else final[:limit]
        self.turns_read += len(chosen)
        return [PlacedTurn(number, deepcopy(rows.turns[number])) for number in chosen]

    async def cells(self, space: str, thread_id: str, first: int, last: int) -> list[Memcell]:
        rows = self._journal.rows.get((space, thread_id))
        cells = [] if rows is None else rows.cells
        return [cell for cell in cells if first <= _last_position(cell) <= last]

    async def parts(self, space: str, thread_id: str) -> list[StoredPart]:
        rows = self._journal.rows.get((space, thread_id))
        return [] if rows is None else [rows.parts[number] for number in sorted(rows.parts)]

    async def announce(self, space: str, thread_id: str, part: StoredPart) -> None:
        if (rows := self._journal.rows.get((space, thread_id))) is not None:
            known = rows.parts.get(part.part) or replace(part, digest=None)
            rows.parts[part.part] = replace(known, writing=part.writing)

    async def record(self, space: str, thread_id: str, part: StoredPart, cells: Sequence[Memcell]) -> None:
        rows = self._journal.rows.get((space, thread_id))
        if rows is None:
            return
        if part.part in rows.parts:
            rows.parts[part.part] = replace(part, writing=None)
        rows.transcribed |= {cell.memcell_id for cell in cells}

    async def forget_part(self, space: str, thread_id: str, part: int) -> None:
        rows = self._journal.rows.get((space, thread_id))
        if rows is not None and part in rows.parts:
            rows.parts[part] = replace(rows.parts[part], digest=None, writing=None)

    async def forget_parts(self, space: str, user_id: str, thread_id: str) -> None:
        rows = self._journal.rows.get((space, thread_id))
        if rows is not None and rows.thread.user_id == user_id:
            rows.parts.clear()
            rows.transcribed.clear()

    async def known_parts(self) -> list[KnownPart]:
        return [
            KnownPart(
                space,
                rows.thread.user_id,
                thread_id,
                number,
                frozenset([part.digest, *(part.writing or "").split()]),
            )
            for (space, thread_id), rows in self._journal.rows.items()
            if not rows.thread.incognito
            for number, part in sorted(rows.parts.items())
            if part.digest is not None
        ]

    async def revise(
        self, space: str, thread_id: str, turns: Sequence[Turn], header: Mapping[str, Any]
    ) -> int:
        rows = self._journal.rows.get((space, thread_id))
        if rows is None:
            return 0
        changed = 0
        for turn in turns:
            number = identity.turn_number(turn.turn_id) or 0
            known = rows.turns.get(number)
            if known is not None and known.message_id == turn.message_id:
                rows.turns[number] = replace(
                    known,
                    content=turn.content,
                    sender_id=turn.sender_id,
                    reasoning=turn.reasoning,
                    edited=True,
                )
                changed += 1
        if header:
            title, tags = header.get("title", rows.thread.title), header.get("tags", rows.thread.tags)
            rows.thread = replace(rows.thread, title=title, tags=tuple(tags))
            rows.header_revision += 1
        return changed

    async def queue_take_in(
        self, space: str, thread_id: str, part: int, now: int, *, gone: bool = False
    ) -> None:
        lane = vault_lane(identity.thread_key(space, thread_id))
        dedupe = f"{part}{' gone' if gone else ''}"
        self._journal.jobs.queue(TAKE_IN, lane, space, thread_id, now, {"part": part, "gone": gone}, dedupe)

    async def tombstones(self, space: str, user_id: str, thread_key: str) -> list[tuple[int, str]]:
        buried = self._journal.tombstones.get((space, user_id, thread_key), {})
        return sorted((number, key) for key, number in buried.items())

    async def fold_log(self) -> None:
        self.folded += 1


class FakeCoverageStore:
    """Counts a fake journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal

    async def spaces(self) -> list[str]:
        journal = self._journal
        buried = [space for (space, *_), messages in journal.tombstones.items() if messages]
        return sorted({"default", *(space for space, _ in journal.rows), *buried})

    async def coverage(
        self, *, space: str, thread_id: str | None = None, user_id: str | None = None
    ) -> Coverage:
        chosen = [
            rows
            for key, rows in sorted(self._journal.rows.items())
            if key[0] == space and thread_id in (None, key[1]) and user_id in (None, rows.thread.user_id)
        ]
        turns = [(rows, turn) for rows in chosen for turn in rows.turns.values()]
        places = [(rows.thread.thread_id, turn.turn_id, _places(rows, turn)) for rows, turn in turns]
        lost = {rows.thread.thread_id: number for rows in chosen if (number := self._lost(rows)) > 0}
        stray = [(thread, turn) for thread, turn, where in places if not where]
        forgotten = self._forgotten(space, thread_id, user_id)
        return Coverage(
            messages=len(turns) + sum(lost.values()) + forgotten,
            buffered=sum("buffer" in where for *_, where in places),
            celled=sum("cell" in where for *_, where in places),
            extracted=sum("cell" in where for *_, where in places) - await self._unworked(space, chosen),
            skipped=sum("skipped" in where for *_, where in places),
            forgotten=forgotten,
            missing=len(stray) + sum(lost.values()),
            doubled=sum(len(where) > 1 for *_, where in places),
            indexed=0,
            embedded=0,
            digest=_digest(chosen),
            missing_turns=(*stray[:100], *((thread, f"{number} turns") for thread, number in lost.items())),
        )

    async def _unworked(self, space: str, chosen: Sequence[ThreadRows]) -> int:
        jobs = await self._journal.jobs.list_jobs(space=space, limit=10_000)
        held_back = {job.payload.get("cell") for job in jobs if job.kind == STRATEGY}
        return sum(
            len(cell.turn_ids) for rows in chosen for cell in rows.cells if cell.memcell_id in held_back
        )

    async def inconsistencies(self) -> list[str]:
        return [
            f"journal: memcell {cell.memcell_id} does not hold the turns it lists"
            for rows in self._journal.rows.values()
            for cell in rows.cells
            if not {turn.turn_id for turn in rows.turns.values()}.issuperset(cell.turn_ids)
        ]

    def _lost(self, rows: ThreadRows) -> int:
        return rows.last_number - len(self._journal.buried(rows.thread)) - len(rows.turns)

    def _forgotten(self, space: str, thread_id: str | None, user_id: str | None) -> int:
        wanted = None if thread_id is None else identity.thread_key(space, thread_id)
        return sum(
            len(messages)
            for (home, user, key), messages in self._journal.tombstones.items()
            if home == space and wanted in (None, key) and user_id in (None, user)
        )


def _places(rows: ThreadRows, turn: Turn) -> list[str]:
    celled = any(turn.turn_id in cell.turn_ids for cell in rows.cells)
    where = {"buffer": turn.turn_id in rows.buffer, "cell": celled, "skipped": turn.skip_reason is not None}
    return [name for name, holds in where.items() if holds]


def _digest(chosen: Sequence[ThreadRows]) -> str:
    digest = hashlib.sha256()
    for rows in chosen:
        said = "".join(
            identity.turn_digest(turn, turn.message_id).hex().upper() for turn in rows.turns.values()
        )
        if said:
            key = identity.thread_key(rows.thread.space, rows.thread.thread_id)
            digest.update(f"{key}:{said}\n".encode())
    return digest.hexdigest()


class FakeJournalBuilder:
    """Takes whole threads into a fake journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal

    async def add_thread(
        self, thread: Thread, turns: list[Turn], cells: list[Memcell], parts: list[StoredPart]
    ) -> None:
        if (thread.space, thread.thread_id) in self._journal.rows:
            raise AlreadyExists(f"there is a thread {thread.thread_id!r} already")
        if len({turn.message_id for turn in turns}) < len(turns):
            raise AlreadyExists("two turns have the same message id")
        if len({part.part for part in parts}) < len(parts):
            raise AlreadyExists("two files are the same part")
        rows = self._journal.open(thread)
        updated = max([thread.created, *(turn.timestamp for turn in turns)])
        rows.thread = replace(rows.thread, updated=updated, turn_count=len(turns))
        rows.turns = {identity.turn_number(turn.turn_id) or 0: deepcopy(turn) for turn in turns}
        rows.numbers = {turn.message_id: number for number, turn in rows.turns.items()}
        rows.last_number = max([rows.last_number, *rows.turns])
        rows.buffer = {turn.turn_id for turn in turns if turn.skip_reason is None}
        for cell in cells:
            members = tuple(turn_id for turn_id in cell.turn_ids if turn_id in rows.buffer)
            if members:
                rows.buffer.difference_update(members)
                rows.cells.append(replace(cell, turn_ids=members))
        rows.transcribed = {cell.memcell_id for cell in rows.cells}
        rows.parts = {part.part: replace(part, header_revision=1) for part in parts}
        lane = cells_lane(identity.thread_key(thread.space, thread.thread_id))
        self._journal.jobs.queue(BOUNDARY, lane, thread.space, thread.thread_id, self._journal.clock())

    async def add_tombstones(self, file: TombstoneFile) -> None:
        buried = self._journal.tombstones.setdefault((file.space, file.user_id, file.thread_key), {})
        for number, key in file.messages:
            buried.setdefault(key, number)


class FakeVault:
    """Files in a dictionary. `broken` says in words why nothing can be written. Counts the files it reads."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.broken: str | None = None
        self.missing = False
        self.characters_written = 0
        self.looks = 0
        self._own: dict[str, str] = {}

    def is_there(self) -> bool:
        return not self.missing

    def problem(self) -> str | None:
        return self.broken

    async def read(self, path: str) -> str | None:
        return self.files.get(path)

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        self.looks += 1
        if (text := self.files.get(path)) is None:
            return None
        part = text.encode()[:limit].decode(errors="replace")
        stamp = (await self.stamps())[path]
        return VaultFile(part, identity.text_digest(part), START, stamp, is_whole=part == text)

    async def stamps(self, folder: str = "") -> dict[str, FileStamp]:
        paths = await self.list_files(folder)
        return {path: FileStamp(hash(self.files[path]), len(self.files[path].encode())) for path in paths}

    def is_own(self, path: str, digest: str) -> bool:
        return self._own.get(path) == digest

    async def write(self, path: str, text: str, ours: frozenset[str]) -> str | None:
        if self.broken is not None:
            raise StorageUnavailable(self.broken)
        conflict = None
        if (there := self.files.get(path)) is not None and identity.text_digest(there) not in ours:
            conflict = await self.keep_copy(path, identity.text_digest(there))
        self.files[path] = text
        self._own[path] = identity.text_digest(text)
        self.characters_written += len(text)
        return conflict

    async def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        found = await self.look(path)
        if found is not None and found.digest not in {identity.text_digest(text), *ours}:
            return found
        if found is None or found.text != text:
            await self.write(path, text, ours)
        self._own[path] = identity.text_digest(text)
        return None

    async def keep_copy(self, path: str, digest: str) -> str | None:
        there = self.files.get(path)
        if there is None or identity.text_digest(there) != digest:
            return None
        conflict = f"{path.removesuffix('.md')}.conflict-{digest[:8]}.md"
        self.files[conflict] = there
        return conflict

    async def remove_folder(self, path: str) -> None:
        if self.broken is not None:
            raise StorageUnavailable(self.broken)
        self.files = {name: text for name, text in self.files.items() if not name.startswith(f"{path}/")}

    async def remove_empty_folder(self, path: str) -> None:
        """There are none."""

    async def remove_file(self, path: str, ours: frozenset[str]) -> str | None:
        if self.broken is not None:
            raise StorageUnavailable(self.broken)
        if (there := self.files.get(path)) is None:
            return None
        digest = identity.text_digest(there)
        conflict = None if digest in ours else await self.keep_copy(path, digest)
        del self.files[path]
        return conflict

    async def list_files(self, folder: str = "") -> list[str]:
        return sorted(name for name in self.files if not folder or name.startswith(f"{folder}/"))


class FakeKeyStore:
    """Keys by the hash of their secret, in memory."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}

    def any_in_force(self) -> bool:
        return any(key.revoked is None for key in self._keys.values())

    def find(self, secret_hash: str) -> ApiKey | None:
        key = self._keys.get(secret_hash)
        return None if key is None or key.revoked is not None else key

    async def add(self, key: ApiKey, secret_hash: str) -> None:
        self._keys[secret_hash] = key

    async def list_keys(self) -> list[ApiKey]:
        return sorted(self._keys.values(), key=lambda key: (key.created, key.key_id))

    async def revoke(self, key_id: str, now: int) -> ApiKey:
        for secret_hash, key in self._keys.items():
            if key.key_id == key_id:
                self._keys[secret_hash] = key if key.revoked is not None else replace(key, revoked=now)
                return self._keys[secret_hash]
        raise NotFound(f"there is no key {key_id!r}", field="key_id")


class FakeNoteStore:
    """Notes by their path, in memory."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    async def known(self, owner: str | None = None) -> list[Note]:
        notes = [self._notes[path] for path in sorted(self._notes)]
        return [note for note in notes if owner in (None, note.owner)]

    async def at(self, paths: Collection[str]) -> list[Note]:
        return [self._notes[path] for path in sorted(self._notes.keys() & set(paths))]

    async def seen(self, note: Note) -> None:
        self._notes[note.path] = note

    async def gone(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._notes.pop(path, None)


class FakeVaultWatcher:
    """Tells what it is told to tell, until it is stopped."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[set[str] | None] = asyncio.Queue()
        self.blind: str | None = None

    def problem(self) -> str | None:
        return self.blind

    def tell(self, *paths: str) -> None:
        self._told.put_nowait(set(paths))

    async def changes(self) -> AsyncIterator[set[str]]:
        while (paths := await self._told.get()) is not None:
            yield paths

    def stop(self) -> None:
        self._told.put_nowait(None)


def _each_fake_has_its_port(journal: FakeJournal) -> None:
    """Read by mypy alone."""
    _1: Clock = journal.clock
    _2: ThreadStore = journal.threads
    _3: CellStore = journal.cells
    _4: TranscriptStore = journal.transcripts
    _5: CoverageStore = journal.coverage
    _6: JobRunner = journal.jobs
    _7: JournalBuilder = journal.builder
    _8: Vault = FakeVault()
    _10: KeyStore = FakeKeyStore()
    _11: NoteStore = FakeNoteStore()
    _12: VaultWatcher = FakeVaultWatcher()
