"""The jobs that follow a finished turn, and the handler of skills jobs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from recollect.domain.identity import thread_key
from recollect.domain.job import SKILLS, SUMMARY, TITLE, Job, JobSpec, cells_lane, chat_lane
from recollect.domain.model import JsonObject, Thread, ThreadRef, Turn

ENOUGH_ROUNDS = 2
ENOUGH_TOOL_CALLS = 2


@dataclass(frozen=True, slots=True)
class Leaving:
    """The turns at these places, all before `cut`, will leave the window when `epoch` ends."""

    epoch: int
    cut: int
    places: tuple[int, ...]
    """What was said in branches that were left may stand between them."""


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """All that the decision needs to know."""

    thread: Thread
    question: Turn
    answer: Turn
    since_question: Sequence[Turn]
    """What follows the last message of the user, the answer included."""
    first_answer: bool = False
    """The thread has no other complete answer."""
    extract_skills: bool = False
    """The request asks for it."""
    auto_skills: bool = True
    leaving: Leaving | None = None
    """Given when the window is three quarters full and this epoch's summary has not been queued yet."""


def run_post_response_tasks(finished: FinishedTurn) -> tuple[JobSpec, ...]:
    """The jobs that follow a turn, besides memory's. Each runs once: it is queued in the transaction that stores the answer.

    Work on skills shares memory's lane and so runs behind it. Titles and summaries have a lane of their own, as
    memory waits for pauses. Nothing follows a turn of an incognito thread.
    """
    thread, answer = finished.thread, finished.answer.turn_id
    if thread.incognito:
        return ()
    key = thread_key(thread.ref)
    turns = [finished.question.turn_id, *(turn.turn_id for turn in finished.since_question)]
    jobs: list[JobSpec] = []

    def add(kind: str, lane: str, payload: JsonObject, dedupe: str = "") -> None:
        jobs.append(JobSpec(kind, lane, payload, dedupe))

    if _wants_skills(finished):
        add(SKILLS, cells_lane(key), {"turns": turns}, answer)
    if _wants_title(finished):
        add(TITLE, chat_lane(key), {"turns": [turns[0], answer]})
    if (leaving := finished.leaving) is not None:
        payload = {"epoch": leaving.epoch, "cut": leaving.cut, "places": list(leaving.places)}
        add(SUMMARY, chat_lane(key), payload, f"{leaving.epoch}:{leaving.cut}")
    return tuple(jobs)


def _wants_skills(finished: FinishedTurn) -> bool:
    if not finished.auto_skills or finished.answer.status != "complete":
        return False
    rounds = sum(turn.role == "assistant" for turn in finished.since_question)
    calls = sum(len(turn.tool_calls or ()) for turn in finished.since_question)
    return finished.extract_skills or rounds >= ENOUGH_ROUNDS or calls >= ENOUGH_TOOL_CALLS


def _wants_title(finished: FinishedTurn) -> bool:
    answered = finished.answer.status == "complete" and bool(finished.answer.content)
    return finished.first_answer and answered and not finished.thread.title


SkillStrategy = Callable[[Job], Awaitable[JsonObject]]
"""Works on the turns that a job names, and returns what its receipt is to say."""
RecordReceipt = Callable[[ThreadRef, str, str, JsonObject], Awaitable[None]]
"""The thread, the turn it is about, the stage, and what happened."""


@dataclass(frozen=True, slots=True)
class SkillWork:
    """The handler of skills jobs: runs the strategy and leaves a receipt with the answer's turn."""

    strategy: SkillStrategy
    record: RecordReceipt

    async def handle(self, job: Job) -> None:
        turns = job.payload.get("turns") or ()
        if job.thread is not None and turns:
            await self.record(job.thread, str(turns[-1]), SKILLS, await self.strategy(job))
