"""What a durable job is."""

from dataclasses import dataclass, field
from typing import Literal

from recollect.domain.model import JsonObject, ThreadRef

JobState = Literal["queued", "running", "dead"]


@dataclass(frozen=True, slots=True)
class Job:
    """Work that survives the process. A job that is done is gone; a dead one waits for a person.

    Jobs of one lane run one after another in the order in which they were queued.
    """

    job_id: int
    kind: str
    lane: str
    space: str
    user_id: str | None
    """Whose thread it works on."""
    thread_id: str | None
    payload: JsonObject = field(default_factory=dict)
    state: JobState = "queued"
    attempts: int = 0
    """Failures so far."""
    interruptions: int = 0
    """How often the process died while it ran."""
    claims: int = 0
    """How often it was started; a runner whose count is no longer current has lost the job."""
    run_at: int = 0
    created: int = 0
    error: str | None = None

    @property
    def thread(self) -> ThreadRef | None:
        """The thread that it works on, if it names one."""
        if self.user_id is None or self.thread_id is None:
            return None
        return ThreadRef(self.space, self.user_id, self.thread_id)


class Unfinished(Exception):
    """Raised by a handler that has more to do. The job runs again at once; this is not counted as a failure."""


class Preempted(Exception):
    """Raised by a handler that had to make way. The job is due again at once, in its place, as if it had not run."""


class GivenUp(Exception):
    """Raised by a handler that must not run again unasked. The job is dead at once."""


class NotYet(Exception):
    """Raised by a handler that has to wait. The job is due again after `delay_ms`; this is not counted as a failure."""

    def __init__(self, reason: str, delay_ms: int = 300) -> None:
        super().__init__(reason)
        self.delay_ms = delay_ms


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job to be queued with its cause. Skipped if one of the same lane, kind and `dedupe` is already queued."""

    kind: str
    lane: str
    payload: JsonObject = field(default_factory=dict)
    dedupe: str = ""
    delay_ms: int = 0
    restart: bool = False
    """Restart the delay of an equal job that is already queued."""
    every: int = 1
    """Queue it once every N times."""


BOUNDARY = "boundary"
FLUSH = "flush"
TRANSCRIBE = "transcribe"
PURGE = "purge"
TRANSCRIPT_EDITS = "transcript_edits"
SKILLS = "skills"
TITLE = "title"
SUMMARY = "summary"
PEOPLE = "people"
ENTRIES = "entries"
DELETIONS = "deletions"
DELIVERY = "delivery"
WRITES_FILES = (TRANSCRIBE, PURGE, TRANSCRIPT_EDITS, PEOPLE, ENTRIES, DELETIONS)
"""Kinds that change the vault."""


def cells_lane(thread_key: str) -> str:
    """The lane in which one thread's memcells are made."""
    return f"cells:{thread_key}"


def vault_lane(thread_key: str) -> str:
    """The lane in which one thread's files are written."""
    return f"vault:{thread_key}"


def file_lane(kind: str, path: str) -> str:
    """The lane in which one file is written and imported, by the kind of its jobs."""
    return f"{kind}:{path}"


def webhook_lane(webhook_id: str) -> str:
    """The lane in which deliveries to one webhook are tried first. Webhooks of a space take turns, as owners do."""
    return f"webhook:deliveries/to/{webhook_id}"


def chat_lane(thread_key: str) -> str:
    """The lane of a chat's title and summaries, which must not wait for memory's pauses."""
    return f"chat:{thread_key}"
