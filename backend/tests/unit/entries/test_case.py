"""Cases: what a model tells of what was tried with which tools, and how it ended."""

import json
from typing import Any

import pytest

from recollect.domain.extraction.case import (
    OTHER_TOOL,
    case_messages,
    parse_case_answer,
    tools_called,
)
from recollect.domain.extraction.draft import CellText, Draft
from recollect.domain.extraction.ground import UNKNOWN_TURN
from recollect.domain.extraction.prompts import PROMPT_CHARS
from recollect.domain.model import JsonObject, Turn
from tests.unit.made_cells import Said, call, cell_of, turn_of


def calling(number: int, *calls: JsonObject, text: str = "") -> Turn:
    return turn_of(number, "assistant", text, tool_calls=list(calls))


def returning(number: int, text: str, call_id: str | None = None) -> Turn:
    return turn_of(number, "tool", text, tool_call_id=call_id)


def backup(*ending: Said | Turn) -> CellText:
    return cell_of(
        ("user", "Find out why the nightly backup failed."),
        calling(2, call("read_log", '{"path": "/var/log/backup", "lines": 50}')),
        returning(3, "the disk was full", "read_log"),
        calling(4, call("delete_files", '{"pattern": "old-*", "api_key": "hush"}')),
        returning(5, "12 GB free", "delete_files"),
        ("assistant", "The disk was full; I deleted the old archives."),
        *ending,
    )


ANSWER: dict[str, Any] = {
    "task": "Find out why the nightly backup failed",
    "steps": [
        {"tool": "read_log", "did": "Read the log of the backup.", "result": "the disk was full"},
        {"tool": "delete_files", "did": "Deleted the old archives.", "result": "12 GB free"},
    ],
    "outcome": "worked",
    "lesson": "The disk was full: delete old archives.",
    "turns": [1, 2, 3, 4, 5],
}


def parse(answer: object, cell: CellText | None = None) -> Draft:
    (draft,) = parse_case_answer(json.dumps(answer), cell or backup()).drafts
    return draft


# Which cells


def test_tools_are_named_once_in_the_order_of_their_first_call() -> None:
    cell = cell_of(
        ("user", "Go."), calling(2, call("b"), call("a")), calling(3, call("b"), {"function": "odd"})
    )
    assert tools_called(cell) == ("b", "a")


# By a model


def test_the_prompt_shows_calls_with_their_arguments_and_results() -> None:
    system, user = case_messages("Tools: {{tools}}\n{{messages}}", backup())
    assert 'Tools: "read_log", "delete_files"' in system["content"]
    assert "(calls read_log {" in user["content"]
    assert "/var/log/backup" in user["content"]
    assert "12 GB free" in user["content"]


def test_the_prompt_is_bounded() -> None:
    wordy = cell_of(
        ("user", "Go."), calling(2, call("a", json.dumps({"text": "x" * 50_000}))), returning(3, "y" * 50_000)
    )
    assert sum(len(message["content"]) for message in case_messages("{{messages}}", wordy)) <= PROMPT_CHARS


def test_an_answer_gives_a_case_with_its_steps_tools_and_outcome() -> None:
    draft = parse(ANSWER)
    assert (draft.kind, draft.title, draft.properties) == (
        "cases",
        "Find out why the nightly backup failed",
        {"tools": "read_log, delete_files", "outcome": "worked"},
    )
    assert draft.turn_ids == ("t-1", "t-2", "t-3", "t-4", "t-5")
    assert draft.text == (
        "1. `read_log`: Read the log of the backup. Result: the disk was full\n"
        "2. `delete_files`: Deleted the old archives. Result: 12 GB free\n"
        "Lesson: The disk was full: delete old archives."
    )


def test_a_case_that_cites_nothing_cites_its_cell() -> None:
    assert parse(ANSWER | {"turns": []}).turn_ids == tuple(turn.turn_id for turn in backup().turns)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("nothing", "no JSON object"),
        ({"task": "x", "steps": []}, "no steps"),
        ({"task": "x", "steps": [7]}, "no steps"),
    ],
)
def test_an_answer_without_steps_is_refused(answer: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(answer)


def test_of_work_whose_task_nobody_names_there_is_no_case() -> None:
    work = [calling(1, call("read_log", "{}")), returning(2, "the disk was full", "read_log")]
    for cell in (cell_of(*work), cell_of(*work, ("user", "Thanks, that works!"))):
        assert parse_case_answer(json.dumps(ANSWER | {"task": ""}), cell).drafts == ()


def test_a_step_with_a_tool_that_was_not_called_is_refused_and_the_others_stay() -> None:
    step = {"tool": "format_disk", "did": "Read the log.", "result": ""}
    result = parse_case_answer(json.dumps(ANSWER | {"steps": [*ANSWER["steps"], step]}), backup())
    assert [refused.reason for refused in result.refused] == [OTHER_TOOL]
    assert result.drafts == parse_case_answer(json.dumps(ANSWER), backup()).drafts


@pytest.mark.parametrize("tool", ["format_disk", ""])
def test_a_case_of_tools_that_were_never_called_is_refused(tool: str) -> None:
    steps = [{"tool": tool, "did": "Read the log.", "result": ""}]
    result = parse_case_answer(json.dumps(ANSWER | {"steps": steps}), backup())
    assert ([refused.reason for refused in result.refused], result.drafts) == ([OTHER_TOOL], ())


def test_a_case_that_cites_a_turn_of_another_cell_is_refused() -> None:
    result = parse_case_answer(json.dumps(ANSWER | {"turns": [99]}), backup())
    assert ([refused.reason for refused in result.refused], result.drafts) == ([UNKNOWN_TURN], ())


def test_a_model_is_not_shown_what_looks_secret_in_a_call() -> None:
    arguments = json.dumps({"env": "prod", "api_key": "sk-123", "with": [{"password": "hunter2"}]})
    shown = str(
        case_messages("{{messages}}", cell_of(("user", "Deploy it."), calling(2, call("deploy", arguments))))
    )
    assert "prod" in shown
    assert "sk-123" not in shown
    assert "hunter2" not in shown
