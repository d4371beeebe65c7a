"""The jobs that follow a finished turn: skills, a title for the first exchange, a summary in time."""

from dataclasses import replace
from typing import Any

import pytest

from recollect.domain.identity import thread_key
from recollect.domain.job import SKILLS, SUMMARY, TITLE, JobSpec, cells_lane, chat_lane
from recollect.domain.model import JsonObject, Thread, ThreadRef, Turn
from recollect.service.chat.followups import run_post_response_tasks
from tests.fakes import START

THREAD = Thread("default", "t1", "ann", START, START, title="Porto")
UNNAMED = replace(THREAD, title=None)
INCOGNITO = replace(UNNAMED, incognito=True)
QUESTION = Turn("t-1", "m1", "user", "ann", "hello", START)
ANSWER = Turn("t-4", "m4", "assistant", "bot", "hi", START)
KEY = thread_key(ThreadRef("default", "ann", "t1"))


def calling(*names: str) -> Turn:
    calls: list[JsonObject] = [{"id": name, "function": {"name": name}} for name in names]
    return Turn("t-2", "m2", "assistant", "bot", "", START, tool_calls=calls)


ONE_CALL = replace(ANSWER, tool_calls=[{"id": "1"}])
TWO_CALLS = replace(ANSWER, tool_calls=[{"id": "1"}, {"id": "2"}])


LEAVING: JsonObject = {"epoch": 3, "cut": 21, "places": [11, 13]}


def kinds(*turns: Turn, thread: Thread = THREAD, **asked: Any) -> list[str]:
    return [job.kind for job in run_post_response_tasks(thread, [QUESTION, *turns], **asked)]


@pytest.mark.parametrize(
    ("turns", "wanted"),
    [
        pytest.param([ANSWER], [], id="a plain answer"),
        pytest.param([calling("search"), ANSWER], [SKILLS], id="two rounds"),
        pytest.param([calling("search", "read"), ANSWER], [SKILLS], id="two tool calls in a round"),
        pytest.param([TWO_CALLS], [SKILLS], id="two in the answer itself"),
        pytest.param([ONE_CALL], [], id="one tool call"),
    ],
)
def test_work_with_tools_is_followed_by_work_on_skills(turns: list[Turn], wanted: list[str]) -> None:
    assert kinds(*turns) == wanted
    assert kinds(*turns, extract_skills=True) == [SKILLS]
    assert kinds(*turns, extract_skills=True, auto_skills=False) == []


def test_the_first_answer_in_words_names_a_thread_without_a_title() -> None:
    assert kinds(ANSWER, thread=UNNAMED, first_answer=True) == [TITLE]
    assert kinds(ANSWER, first_answer=True) == kinds(ANSWER, thread=UNNAMED) == []
    assert kinds(replace(ANSWER, content=""), thread=UNNAMED, first_answer=True) == []


def test_nothing_follows_an_answer_that_broke_off_or_an_incognito_thread() -> None:
    for status in ("partial", "failed"):
        broken = replace(ANSWER, status=status)
        assert kinds(broken, thread=UNNAMED, first_answer=True, extract_skills=True) == []
    everything: dict[str, Any] = {"first_answer": True, "extract_skills": True, "leaving": LEAVING}
    assert kinds(ANSWER, thread=INCOGNITO, **everything) == []


def test_each_job_names_what_it_works_on() -> None:
    said = [QUESTION, calling("a", "b"), ANSWER]
    assert run_post_response_tasks(UNNAMED, said, first_answer=True, leaving=LEAVING) == (
        JobSpec(SKILLS, cells_lane(KEY), {"turns": ["t-1", "t-2", "t-4"]}, dedupe="t-4"),
        JobSpec(TITLE, chat_lane(KEY), {"turns": ["t-1", "t-4"]}),
        JobSpec(SUMMARY, chat_lane(KEY), LEAVING, dedupe="3:21"),
    )
