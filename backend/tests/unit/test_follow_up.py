"""What follows a finished turn: memory, then skills; a title for the first exchange; a summary in time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from recollect.domain.identity import thread_key
from recollect.domain.job import SKILLS, SUMMARY, TITLE, Job, JobSpec, cells_lane, chat_lane
from recollect.domain.model import JsonObject, Status, Thread, Turn
from recollect.service.chat.post_turn_jobs import (
    FinishedTurn,
    Leaving,
    SkillStrategy,
    SkillWork,
    run_post_response_tasks,
)
from tests.fakes import START

THREAD = Thread("default", "t1", "ann", START, START, title="Porto")
QUESTION = Turn("t-1", "m1", "user", "ann", "hello", START)
ANSWER = Turn("t-4", "m4", "assistant", "bot", "hi", START)
KEY = thread_key("default", "t1")


def calling(*names: str) -> Turn:
    calls: list[JsonObject] = [{"id": name, "function": {"name": name}} for name in names]
    return Turn("t-2", "m2", "assistant", "bot", "", START, tool_calls=calls)


def finished(*before: Turn, **changes: Any) -> FinishedTurn:
    turn = FinishedTurn(THREAD, QUESTION, ANSWER, [*before, ANSWER])
    return replace(turn, **changes)


def kinds(turn: FinishedTurn) -> list[str]:
    return [job.kind for job in run_post_response_tasks(turn).jobs]


def test_a_plain_answer_is_followed_by_memory_alone() -> None:
    follow_up = run_post_response_tasks(finished())
    assert (follow_up.memory, follow_up.jobs) == (True, ())


# Skills


@pytest.mark.parametrize(
    "before",
    [[calling("search")], [calling("search", "read")]],
    ids=["two rounds", "two tool calls in one"],
)
def test_two_rounds_or_two_tool_calls_are_worth_a_skill(before: Sequence[Turn]) -> None:
    (job,) = run_post_response_tasks(finished(*before)).jobs
    turns = ["t-1", "t-2", "t-4"]
    assert job == JobSpec(SKILLS, cells_lane(KEY), "default", "t1", {"turns": turns}, dedupe="t-4")


def test_two_tool_calls_in_the_answer_itself_are_worth_a_skill() -> None:
    answer = replace(ANSWER, tool_calls=[{"id": "1"}, {"id": "2"}])
    assert kinds(finished(answer=answer, since_question=[answer])) == [SKILLS]


def test_one_tool_call_is_not() -> None:
    answer = replace(ANSWER, tool_calls=[{"id": "1"}])
    result = Turn("t-5", "m5", "tool", "tool", "found", START, tool_call_id="1")
    assert kinds(finished(answer=answer, since_question=[answer, result])) == []


def test_a_request_that_asks_gets_its_skills() -> None:
    assert kinds(finished(extract_skills=True)) == [SKILLS]


@pytest.mark.parametrize(
    "changes",
    [{"auto_skills": False}, {"thread": replace(THREAD, incognito=True)}],
    ids=["preferences", "incognito"],
)
@pytest.mark.parametrize("asked", [False, True])
def test_preferences_and_incognito_switch_skills_off(changes: dict[str, Any], asked: bool) -> None:
    assert SKILLS not in kinds(finished(calling("a", "b"), extract_skills=asked, **changes))


# Memory


@pytest.mark.parametrize(
    ("changes", "memory"),
    [
        ({}, True),
        ({"auto_skills": False}, True),
        ({"auto_memory": False}, False),
        ({"thread": replace(THREAD, incognito=True)}, False),
    ],
)
def test_preferences_and_incognito_switch_memory_off(changes: dict[str, Any], memory: bool) -> None:
    assert run_post_response_tasks(finished(**changes)).memory is memory


def test_skills_do_not_need_memory() -> None:
    assert kinds(finished(calling("a", "b"), auto_memory=False)) == [SKILLS]


# Titles


UNNAMED = replace(THREAD, title="New chat")


def test_the_first_answer_of_an_unnamed_thread_brings_a_title() -> None:
    (job,) = run_post_response_tasks(finished(thread=UNNAMED, first_answer=True)).jobs
    assert job == JobSpec(TITLE, chat_lane(KEY), "default", "t1", {"turns": ["t-1", "t-4"]})


@pytest.mark.parametrize(
    "changes",
    [
        {"first_answer": False},
        {"thread": THREAD},
        {"thread": replace(UNNAMED, incognito=True)},
        {"answer": replace(ANSWER, content="")},
    ],
    ids=["a later answer", "a named thread", "incognito", "an answer without words"],
)
def test_no_other_does(changes: dict[str, Any]) -> None:
    assert TITLE not in kinds(finished(**{"thread": UNNAMED, "first_answer": True, **changes}))


# Turns that broke off


@pytest.mark.parametrize("status", ["partial", "failed"])
def test_an_answer_that_broke_off_brings_neither_skills_nor_a_title(status: Status) -> None:
    broken = replace(ANSWER, status=status)
    turn = finished(calling("a", "b"), thread=UNNAMED, first_answer=True, extract_skills=True, answer=broken)
    assert (run_post_response_tasks(turn).memory, kinds(turn)) == (True, [])


# Summaries


def test_what_will_leave_the_window_is_summed_up() -> None:
    (job,) = run_post_response_tasks(finished(leaving=Leaving(epoch=3, cut=21, places=(11, 13)))).jobs
    payload = {"epoch": 3, "cut": 21, "places": [11, 13]}
    assert job == JobSpec(SUMMARY, chat_lane(KEY), "default", "t1", payload, dedupe="3:21")


def test_nothing_follows_a_turn_of_an_incognito_thread() -> None:
    incognito = replace(UNNAMED, incognito=True)
    turn = finished(calling("a", "b"), thread=incognito, first_answer=True, leaving=Leaving(1, 3, (1, 2)))
    follow_up = run_post_response_tasks(turn)
    assert (follow_up.memory, follow_up.jobs) == (False, ())


def test_all_of_it_comes_in_order() -> None:
    turn = finished(calling("a", "b"), thread=UNNAMED, first_answer=True, leaving=Leaving(1, 3, (1, 2)))
    assert kinds(turn) == [SKILLS, TITLE, SUMMARY]


# The work on skills


class Receipts:
    def __init__(self) -> None:
        self.kept: list[tuple[str, str, str, str, JsonObject]] = []

    async def __call__(
        self, space: str, thread_id: str, subject: str, stage: str, detail: JsonObject
    ) -> None:
        self.kept.append((space, thread_id, subject, stage, detail))


JOB = Job(1, SKILLS, "lane", "default", "t1", {"turns": ["t-1", "t-2", "t-4"]})


async def test_without_a_strategy_the_receipt_says_so() -> None:
    receipts = Receipts()
    await SkillWork((), receipts).handle(JOB)
    detail = {"detail": "no skill strategy is registered"}
    assert receipts.kept == [("default", "t1", "t-4", "skills", detail)]


async def test_every_strategy_that_is_registered_runs_and_leaves_its_receipt() -> None:
    async def first(job: Job) -> JsonObject:
        return {"wrote": len(job.payload["turns"])}

    async def second(job: Job) -> JsonObject:
        return {"wrote": 0}

    receipts, strategies = Receipts(), [first, second]
    registered: Sequence[SkillStrategy] = strategies
    await SkillWork(registered, receipts).handle(JOB)
    assert [detail for *_, detail in receipts.kept] == [{"wrote": 3}, {"wrote": 0}]
