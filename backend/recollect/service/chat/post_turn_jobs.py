"""The jobs that follow a finished turn, and the handler of skills jobs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from recollect.domain.identity import thread_key
from recollect.domain.job import SKILLS, SUMMARY, TITLE, Job, JobSpec, cells_lane, chat_lane
from recollect.domain.model import JsonObject, Thread, Turn

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
    if finished.thread.incognito:
        return ()
    return (
        *([_skills(finished)] if _wants_skills(finished) else []),
        *([_title(finished)] if _wants_title(finished) else []),
        *([_summary(finished, finished.leaving)] if finished.leaving else []),
    )


def _wants_skills(finished: FinishedTurn) -> bool:
    if not finished.auto_skills or finished.answer.status != "complete":
        return False
    rounds = sum(turn.role == "assistant" for turn in finished.since_question)
    calls = sum(len(turn.tool_calls or ()) for turn in finished.since_question)
    return finished.extract_skills or rounds >= ENOUGH_ROUNDS or calls >= ENOUGH_TOOL_CALLS


def _wants_title(finished: FinishedTurn) -> bool:
    answered = finished.answer.status == "complete" and bool(finished.answer.content)
    return finished.first_answer and answered and not finished.thread.title


def _skills(finished: FinishedTurn) -> JobSpec:
    turns = [finished.question.turn_id, *(turn.turn_id for turn in finished.since_question)]
    thread = finished.thread
    lane = cells_lane(thread_key(thread.space, thread.thread_id))
    return JobSpec(
        SKILLS, lane, thread.space, thread.thread_id, {"turns": turns}, dedupe=finished.answer.turn_id
    )


def _title(finished: FinishedTurn) -> JobSpec:
    turns = [finished.question.turn_id, finished.answer.turn_id]
    thread = finished.thread
    lane = chat_lane(thread_key(thread.space, thread.thread_id))
    return JobSpec(TITLE, lane, thread.space, thread.thread_id, {"turns": turns})


def _summary(finished: FinishedTurn, leaving: Leaving) -> JobSpec:
    thread = finished.thread
    lane = chat_lane(thread_key(thread.space, thread.thread_id))
    payload: JsonObject = {"epoch": leaving.epoch, "cut": leaving.cut, "places": list(leaving.places)}
    return JobSpec(
        SUMMARY, lane, thread.space, thread.thread_id, payload, dedupe=f"{leaving.epoch}:{leaving.cut}"
    )


SkillStrategy = Callable[[Job], Awaitable[JsonObject]]
"""Works on the turns that a job names, and returns what its receipt is to say."""
RecordReceipt = Callable[[str, str, str, str, JsonObject], Awaitable[None]]
"""Space, thread, the turn it is about, the stage, and what happened."""


@dataclass(frozen=True, slots=True)
class SkillWork:
    """The handler of skills jobs: runs the strategy and leaves a receipt with the answer's turn."""

    strategy: SkillStrategy
    record: RecordReceipt

    async def handle(self, job: Job) -> None:
        turns = job.payload.get("turns") or ()
        if job.thread_id is not None and turns:
            await self.record(job.space, job.thread_id, str(turns[-1]), SKILLS, await self.strategy(job))
