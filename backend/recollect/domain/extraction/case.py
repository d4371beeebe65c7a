"""Cases: what an agent did for a task with which tools, and how it ended. A model tells it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.domain.extraction.answer import (
    FIELDS,
    MAX_STEPS,
    OUTCOMES,
    cut_at_sentence,
    items_of,
    plain_line,
    text_of,
    turn_ids_of,
)
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.draft import CUT_OFF, CellText, Draft, Extraction, Refused
from recollect.domain.extraction.ground import flaw
from recollect.domain.extraction.prompts import check_template, date_of, filled_in, one_line
from recollect.domain.llm import json_quoted, without_control_tokens
from recollect.domain.model import JsonObject, Turn

MAX_TASK = 200
MAX_STEP = 400
OTHER_TOOL = "it names a tool that was not called"

_ARGUMENT_CHARS = 400
_DEEPEST_ARGUMENT = 8
_FIELDS = ("task", "steps", "outcome")
CASE_PLACEHOLDERS = frozenset(["messages", "date", "user", "tools"])


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried; the tool is empty where none was used."""

    tool: str
    did: str
    result: str = ""


is_secret = re.compile(
    r"pass(?:word|wd|phrase)?|secret|token|api_?key|auth|credential|cookie|private", re.IGNORECASE
).search
"""Whether the name of an argument says that its value is nobody else's business."""


def has_trajectory(cell: CellText) -> bool:
    """Whether there is work with tools to learn from."""
    return any(turn.tool_calls for turn in cell.turns)


def tools_called(cell: CellText) -> tuple[str, ...]:
    """The names of the tools, each once, in the order of their first call."""
    names = (tool_of(call)[0] for turn in cell.turns for call in turn.tool_calls or ())
    return tuple(dict.fromkeys(name for name in names if name))


def tool_of(call: JsonObject) -> tuple[str, Any]:
    """The name and the arguments of a call in OpenAI's shape; the arguments as they came where they are no JSON."""
    function = call.get("function")
    if not isinstance(function, dict):
        return "", None
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = arguments[:_ARGUMENT_CHARS]
    return plain_line(name.replace("`", ""))[:64] if isinstance(name, str) else "", arguments


def case_messages(template: str, cell: CellText) -> list[JsonObject]:
    """The prompt of a case: the task, and the turns with their calls. Raises ValueError if the template is invalid."""
    check_template(template, "messages", CASE_PLACEHOLDERS)
    values = {
        "date": date_of(cell),
        "user": without_control_tokens(one_line(cell.user_name or cell.user_id)),
        "tools": ", ".join(json_quoted(name) for name in tools_called(cell)[:40]) or '""',
    }
    return filled_in(template, "messages", values, shown_with_calls(cell).turns, cell.time_zone)


def parse_case_answer(text: str, cell: CellText) -> Extraction:
    """The case in an answer, without the steps whose tools were not called. Raises ValueError where it has no steps.

    None where no task is named, in the answer or by a person: a cell may begin in the middle of the work.
    """
    found = find_object(text, _FIELDS)
    return _case_of(found.value, cell, is_cut_off=found.cut_off_in is not None)


def case_in_memcell_answer(text: str, cell: CellText) -> Extraction:
    """The same for the answer about a whole memcell; nothing where no tool was called."""
    found = find_object(text, FIELDS)
    told = found.value.get("case")
    if not has_trajectory(cell) or not isinstance(told, dict):
        return Extraction()
    lowered = {str(key).strip().lower(): each for key, each in told.items()}
    try:
        return _case_of(lowered, cell, is_cut_off=False)
    except ValueError as error:
        return Extraction((), (Refused("cases", str(error)),))


def _case_of(value: JsonObject, cell: CellText, *, is_cut_off: bool) -> Extraction:
    refused = [Refused("cases", CUT_OFF)] if is_cut_off else []
    task = text_of(value, "task")[:MAX_TASK] or _request(cell)
    told = _steps(value, refused)
    if not task:
        return Extraction((), tuple(refused))
    if not told:
        raise ValueError("the answer has no steps")
    called = {"", *tools_called(cell)}
    steps = [step for step in told if step.tool in called]
    tools = dict.fromkeys(step.tool for step in steps if step.tool)
    outcome = text_of(value, "outcome").casefold()
    draft = Draft(
        "cases",
        task,
        _render_steps(steps, cut_at_sentence(text_of(value, "lesson"), MAX_STEP)),
        cell.turns[0].timestamp if cell.turns else 0,
        turn_ids_of(value.get("turns"), cell.turns) or tuple(turn.turn_id for turn in cell.turns),
        {"tools": ", ".join(tools), "outcome": outcome if outcome in OUTCOMES else "unclear"},
    )
    if (reason := flaw(draft, cell)) is not None:
        return Extraction((), (*refused, Refused("cases", reason)))
    refused += [Refused("cases", OTHER_TOOL)] * (len(told) - len(steps) or not tools)
    return Extraction((draft,) if tools else (), tuple(refused))


def _render_steps(steps: Sequence[Step], lesson: str) -> str:
    """The text of a case."""
    lines = []
    for number, step in enumerate(steps, 1):
        tool = f"`{step.tool}`: " if step.tool else ""
        result = f" Result: {step.result}" if step.result else ""
        lines.append(f"{number}. {tool}{step.did}{result}")
    return "\n".join([*lines, *([f"Lesson: {lesson}"] if lesson else [])])


def _steps(value: JsonObject, refused: list[Refused]) -> list[Step]:
    listed = items_of(value, "steps")
    steps: list[Step] = []
    for item in listed[:MAX_STEPS]:
        try:
            if not isinstance(item, dict):
                raise ValueError("a step is not an object")
            did = cut_at_sentence(text_of(item, "did", required=True), MAX_STEP)
            result = cut_at_sentence(text_of(item, "result"), MAX_STEP)
            steps.append(Step(text_of(item, "tool").replace("`", "")[:64], did, result))
        except ValueError as error:
            refused.append(Refused("cases", str(error)))
    refused += [Refused("cases", f"there are more than {MAX_STEPS} steps")] * (len(listed) > MAX_STEPS)
    return steps


def _request(cell: CellText) -> str:
    """What the first message of a person says, in one line; none that comes after all work."""
    last_call = max((place for place, turn in enumerate(cell.turns) if turn.tool_calls), default=0)
    said = next(
        (plain_line(turn.content[:4_000]) for turn in cell.turns[:last_call] if turn.role == "user"), ""
    )
    return cut_at_sentence(said.strip(), MAX_TASK)


def shown_with_calls(cell: CellText) -> CellText:
    """The cell as a prompt shows it: calls of tools with their arguments, in words."""
    return replace(cell, turns=tuple(map(_with_calls, cell.turns)))


def _with_calls(turn: Turn) -> Turn:
    calls = _calls_in_words(turn)
    return replace(turn, content=f"{turn.content} {calls}".strip(), tool_calls=None) if calls else turn


def _calls_in_words(turn: Turn) -> str:
    calls = (tool_of(call) for call in turn.tool_calls or ())
    return " ".join(f"(calls {name or 'a tool'} {_arguments(arguments)})" for name, arguments in calls)


def _arguments(arguments: Any) -> str:
    written = json.dumps(_without_secrets(arguments), ensure_ascii=False) if arguments else ""
    return written if len(written) <= _ARGUMENT_CHARS else written[: _ARGUMENT_CHARS - 1] + "…"


def _without_secrets(arguments: Any, depth: int = 0) -> Any:
    """Arguments without values that look secret or are nested too deeply."""
    if not isinstance(arguments, dict | list):
        return arguments
    if depth == _DEEPEST_ARGUMENT:
        return "…"
    if isinstance(arguments, list):
        return [_without_secrets(each, depth + 1) for each in arguments]
    return {
        name: "…" if is_secret(str(name)) else _without_secrets(value, depth + 1)
        for name, value in arguments.items()
    }
