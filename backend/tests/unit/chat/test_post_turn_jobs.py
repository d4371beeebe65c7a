"""The jobs that follow a finished turn: skills, a title for the first exchange, a summary in time."""

from dataclasses import replace
from typing import Any

import pytest

from recollect.domain.identity import thread_key
from recollect.domain.job import SKILLS, SUMMARY, TITLE, Job, JobSpec, cells_lane, chat_lane
from recollect.domain.model import JsonObject, Thread, ThreadRef, Turn
from recollect.service.chat.post_turn_jobs import FinishedTurn, Leaving, SkillWork, run_post_response_tasks
from tests.fakes import START

THREAD = Thread("default", "t1", "ann", START, START, title="Porto")
UNNAMED = replace(THREAD, title=None)
INCOGNITO = replace(UNNAMED, incognito=True)
QUESTION = Turn("t-1", "m1", "user", "ann", "hello", START)
ANSWER = Turn("t-4", "m4", "assistant", "bot", "hi", START)
RESULT = Turn("t-5", "m5", "tool", "tool", "found", START, tool_call_id="1")
KEY = thread_key(ThreadRef("default", "ann", "t1"))


def calling(*names: str) -> Turn:
    calls: list[JsonObject] = [{"id": name, "function": {"name": name}} for name in names]
    return Turn("t-2", "m2", "assistant", "bot", "", START, tool_calls=calls)


ONE_CALL = replace(ANSWER, tool_calls=[{"id": "1"}])
TWO_CALLS = replace(ANSWER, tool_calls=[{"id": "1"}, {"id": "2"}])


def finished(*before: Turn, **changes: Any) -> FinishedTurn:
    turn = FinishedTurn(THREAD, QUESTION, ANSWER, [*before, ANSWER])
    return replace(turn, **changes)


SKILLED = finished(calling("a", "b"), thread=UNNAMED, first_answer=True, leaving=Leaving(1, 3, (1, 2)))


@pytest.mark.parametrize(
    ("turn", "kinds"),
    [
        pytest.param(finished(), [], id="a plain answer"),
        pytest.param(finished(calling("search")), [SKILLS], id="two rounds"),
        pytest.param(finished(calling("search", "read")), [SKILLS], id="two tool calls in a round"),
        pytest.param(
            finished(answer=TWO_CALLS, since_question=[TWO_CALLS]), [SKILLS], id="two in the answer itself"
        ),
        pytest.param(finished(answer=ONE_CALL, since_question=[ONE_CALL, RESULT]), [], id="one tool call"),
        pytest.param(finished(extract_skills=True), [SKILLS], id="asked for skills"),
        pytest.param(finished(calling("a", "b"), auto_skills=False), [], id="skills off"),
        pytest.param(finished(extract_skills=True, auto_skills=False), [], id="asked for, but off"),
        pytest.param(finished(first_answer=True), [], id="a named thread"),
        pytest.param(finished(thread=UNNAMED), [], id="a later answer"),
        pytest.param(
            finished(thread=UNNAMED, first_answer=True, answer=replace(ANSWER, content="")),
            [],
            id="an answer without words",
        ),
        pytest.param(SKILLED, [SKILLS, TITLE, SUMMARY], id="all of them, in order"),
        pytest.param(replace(SKILLED, thread=INCOGNITO, extract_skills=True), [], id="incognito"),
        *(
            pytest.param(
                replace(SKILLED, answer=replace(ANSWER, status=status), extract_skills=True, leaving=None),
                [],
                id=status,
            )
            for status in ("partial", "failed")
        ),
    ],
)
def test_what_follows_a_turn(turn: FinishedTurn, kinds: list[str]) -> None:
    assert [job.kind for job in run_post_response_tasks(turn)] == kinds


def test_each_job_names_what_it_works_on() -> None:
    turn = replace(SKILLED, leaving=Leaving(epoch=3, cut=21, places=(11, 13)))
    leaving = {"epoch": 3, "cut": 21, "places": [11, 13]}
    assert run_post_response_tasks(turn) == (
        JobSpec(
            SKILLS,
            cells_lane(KEY),
            {"turns": ["t-1", "t-2", "t-4"]},
            dedupe="t-4",
        ),
        JobSpec(TITLE, chat_lane(KEY), {"turns": ["t-1", "t-4"]}),
        JobSpec(SUMMARY, chat_lane(KEY), leaving, dedupe="3:21"),
    )


async def test_the_work_on_skills_leaves_a_receipt_with_the_answers_turn() -> None:
    kept: list[tuple[object, ...]] = []

    async def strategy(job: Job) -> JsonObject:
        return {"wrote": len(job.payload["turns"])}

    async def record(*receipt: object) -> None:
        kept.append(receipt)

    await SkillWork(strategy, record).handle(
        Job(1, SKILLS, "lane", "default", "ann", "t1", {"turns": ["t-1", "t-4"]})
    )
    assert kept == [(ThreadRef("default", "ann", "t1"), "t-4", "skills", {"wrote": 2})]
