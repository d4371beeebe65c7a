"""A case without a model: the request, the calls with their results, and what became of it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.domain.extraction.answer import (
    cut_at_sentence,
    items_of,
    list_of,
    plain_line,
    strict_object,
    text_of,
    turn_ids_of,
)
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.draft import CellText, Draft, Extraction, Refused
from recollect.domain.extraction.ground import flaw
from recollect.domain.extraction.prompts import PROMPT_TURNS, check_template, date_of, filled_in, one_line
from recollect.domain.model import JsonObject, Turn

OUTCOMES = ("worked", "failed", "unclear")
MAX_STEPS = 20
MAX_TASK = 200
MAX_STEP = 400
OTHER_TOOL = "it names a tool that was not called"
LESSON = "Lesson: "

_ARGUMENT_CHARS = 400
_DEEPEST_ARGUMENT = 8
_TEXT: JsonObject = {"type": "string"}
CASE_SCHEMA: JsonObject = strict_object(
    task=_TEXT,
    steps=list_of(strict_object(tool=_TEXT, did=_TEXT, result=_TEXT), MAX_STEPS),
    outcome={"type": "string", "enum": list(OUTCOMES)},
    lesson=_TEXT,
    turns=list_of({"type": "integer"}, PROMPT_TURNS),
)
_FIELDS = ("task", "steps", "outcome")
CASE_PLACEHOLDERS = frozenset(["messages", "date", "user", "tools"])
_step_line = re.compile(r"\s*\d{1,3}\.\s+(?:`([^`\n]+)`:?\s*)?(.*?)(?:\s*Result: (.*))?").fullmatch


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
    """The prompt of a case: the task, and the turns with their calls. Raises ValueError where the template is none."""
    check_template(template, "messages", CASE_PLACEHOLDERS)
    values = {
        "date": date_of(cell),
        "user": one_line(cell.user_name or cell.user_id),
        "tools": ", ".join(json.dumps(name, ensure_ascii=False) for name in tools_called(cell)[:40]) or '""',
    }
    return filled_in(template, "messages", values, [_with_calls(turn) for turn in cell.turns], cell.time_zone)


def parse_case_answer(text: str, cell: CellText) -> Extraction:
    """The case in an answer, not yet held against the turns. Raises ValueError where there is nothing to take.

    None where no task is named, in the answer or by a person: a cell may begin in the middle of the work.
    """
    found = find_object(text, _FIELDS)
    refused = [Refused("cases", "the answer is cut off here")] if found.cut_off_in is not None else []
    task = text_of(found.value, "task")[:MAX_TASK] or _request(cell)
    steps = _steps(found.value, refused)
    outcome = text_of(found.value, "outcome").casefold()
    lesson = cut_at_sentence(text_of(found.value, "lesson"), MAX_STEP)
    if not task:
        return Extraction((), tuple(refused))
    if not steps:
        raise ValueError("the answer has no steps")
    cited = turn_ids_of(found.value.get("turns"), cell.turns) or tuple(turn.turn_id for turn in cell.turns)
    draft = Draft(
        "cases",
        task,
        render_steps(steps, lesson),
        cell.turns[0].timestamp if cell.turns else 0,
        cited,
        tools=_tools_in(steps),
        outcome=outcome if outcome in OUTCOMES else "unclear",
    )
    return Extraction((draft,), tuple(refused))


def ground_case(extraction: Extraction, cell: CellText) -> Extraction:
    """What cites messages of the cell, step by step; tools have to be ones that were called."""
    kept: list[Draft] = []
    refused = list(extraction.refused)
    for draft in extraction.drafts:
        if (reason := flaw(draft, cell)) is not None:
            refused.append(Refused(draft.kind, reason))
            continue
        grounded, reasons = _grounded(draft, frozenset(tools_called(cell)))
        refused += [Refused(draft.kind, reason) for reason in reasons]
        kept += [grounded] if grounded is not None else []
    return Extraction(tuple(kept), tuple(refused))


def render_steps(steps: Sequence[Step], lesson: str = "") -> str:
    """The text of a case."""
    lines = []
    for number, step in enumerate(steps, 1):
        tool = f"`{step.tool}`: " if step.tool else ""
        result = f" Result: {step.result}" if step.result else ""
        lines.append(f"{number}. {tool}{step.did}{result}")
    return "\n".join([*lines, *([LESSON + lesson] if lesson else [])])


def read_steps(text: str) -> tuple[tuple[Step, ...], str]:
    """The steps and the lesson of a case, as far as a person left them readable."""
    steps, lesson = [], ""
    for line in text.split("\n"):
        if found := _step_line(line):
            steps.append(Step(found[1] or "", found[2].strip(), (found[3] or "").strip()))
        elif line.startswith(LESSON):
            lesson = line.removeprefix(LESSON).strip()
    return tuple(steps), lesson


def _grounded(draft: Draft, called: frozenset[str]) -> tuple[Draft | None, list[str]]:
    steps, lesson = read_steps(draft.text)
    kept = [step for step in steps if not step.tool or step.tool in called]
    reasons = [OTHER_TOOL] * (len(steps) - len(kept))
    if not any(step.tool for step in kept):
        return None, reasons or [OTHER_TOOL]
    return replace(draft, text=render_steps(kept, lesson), tools=_tools_in(kept)), reasons


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


def _tools_in(steps: Sequence[Step]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step.tool for step in steps if step.tool))


def _request(cell: CellText) -> str:
    """What the first message of a person says, in one line; none that comes after all work."""
    last_call = max((place for place, turn in enumerate(cell.turns) if turn.tool_calls), default=0)
    said = next(
        (plain_line(turn.content[:4_000]) for turn in cell.turns[:last_call] if turn.role == "user"), ""
    )
    return cut_at_sentence(said.strip(), MAX_TASK)


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
    """Arguments without the values that look secret, and without what lies too deep in them to be told."""
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


_VALUE_CHARS = 60
_RESULT_CHARS = 120
_LOOKED_AT = 4_000
_error = re.compile(
    r"""^[\s\[(*!-]{0,3}(?:error|exception|failed|failure|fatal|traceback|invalid|denied|timed?\ ?out|cannot|could\ not|unable\ to
        |错误|錯誤|失败|失敗|异常|異常|无法|無法)
    | "(?:error|errors|exception)"\s*:\s*+(?!null|""|\[\]|false|\{\}|0) | "(?:ok|success)"\s*:\s*false
    | "status"\s*:\s*"?(?:error|failed|[45]\d\d) | Traceback\ \(most | \b(?:[A-Z][a-zA-Z]*(?:Error|Exception)):
    | \bexit(?:ed)?\ (?:code|status|with\ code)\W{0,2}[1-9] | \bHTTP(?:/\d\.\d)?\ [45]\d\d\b | \b(?:4\d\d|5\d\d)\ (?:error|bad|not\ found|forbidden)
    | \b(?:not\ found|no\ such\ file|permission\ denied|command\ not\ found|connection\ refused|access\ denied)\b""",
    re.IGNORECASE | re.VERBOSE,
).search
_complains = re.compile(
    r"\b(?:(?:doesn|didn|isn|won|still don|still doesn|does|did)(?:'?t|\ not)\ (?:work|help|run|right)\w*|not working|still"
    r"\ (?:broken|failing|wrong|fails|the same)|that'?s (?:wrong|not (?:it|right|what))|failed|fails|broke|worse|useless)\b"
    r"|不行|不对|不對|还是(?:不|报|有)|没用|沒用|报错|報錯|失败|失敗",
    re.IGNORECASE,
).search
_thanks = re.compile(
    r"\b(?:thanks?|thank you|thx|perfect|great|awesome|excellent|brilliant|it works|works now|that works|worked|solved"
    r"|fixed|well done|merci|danke|gracias|obrigad[oa]|спасибо)\b|谢谢|謝謝|太好了|可以了|搞定|完美|解决了|成功了|ありがとう",
    re.IGNORECASE,
).search


def case_by_rules(cell: CellText) -> Extraction:
    """The case of a cell with tool calls; none for one without. The same cell gives the same case."""
    task = _task(cell)
    if not has_trajectory(cell) or not task:
        return Extraction()
    results = _results(cell)
    steps: list[Step] = []
    for turn in cell.turns:
        for position, call in enumerate(turn.tool_calls or ()):
            name, arguments = tool_of(call)
            if name:
                result = results.get((turn.turn_id, position))
                steps.append(Step(name, _in_short(arguments), _result_in_short(result)))
    if not steps:
        return Extraction()
    cited = tuple(turn.turn_id for turn in cell.turns if turn.role != "system")
    draft = Draft(
        "cases",
        task,
        render_steps(steps[:MAX_STEPS]),
        cell.turns[0].timestamp,
        cited,
        tools=tools_called(cell),
        outcome=_outcome(cell),
    )
    return Extraction((draft,))


def looks_like_an_error(result: str) -> bool:
    """Whether a tool's result says that it failed, as far as that can be told without understanding it."""
    return _error(result[:_LOOKED_AT]) is not None


def _task(cell: CellText) -> str:
    """What the person said last before the first call that follows them; what comes after all work is no task."""
    said = ""
    for turn in cell.turns:
        if turn.role == "user" and turn.content.strip():
            said = plain_line(turn.content[:_LOOKED_AT])
        if turn.tool_calls and said:
            return cut_at_sentence(said, MAX_TASK)
    return ""


def _results(cell: CellText) -> dict[tuple[str, int], Turn]:
    """The result of each call, by the turn that called and the call's place in it: by id, else in order."""
    found: dict[tuple[str, int], Turn] = {}
    waiting: list[tuple[str, int, str | None]] = []
    for turn in cell.turns:
        calls = turn.tool_calls or ()
        waiting += [(turn.turn_id, place, _call_id(call)) for place, call in enumerate(calls)]
        if turn.role == "tool" and waiting:
            same = [call for call in waiting if call[2] is not None and call[2] == turn.tool_call_id]
            answered = same[-1] if same else waiting[0]
            waiting.remove(answered)
            found[answered[:2]] = turn
    return found


def _call_id(call: dict[str, Any]) -> str | None:
    value = call.get("id")
    return value if isinstance(value, str) else None


def _in_short(arguments: Any) -> str:
    """The arguments of a call on one line; what looks secret is left out."""
    if not isinstance(arguments, dict):
        return _clipped(str(arguments), _RESULT_CHARS) if arguments else "called without arguments"
    named = [
        f"{plain_line(str(name))[:40]} = {'…' if is_secret(str(name)) else _clipped(str(value), _VALUE_CHARS)}"
        for name, value in list(arguments.items())[:6]
    ]
    return ", ".join(named) or "called without arguments"


def _result_in_short(result: Turn | None) -> str:
    if result is None:
        return "no result"
    text = _clipped(result.content, _RESULT_CHARS)
    return f"failed: {text}" if looks_like_an_error(result.content) else text or "nothing"


def _clipped(text: str, limit: int) -> str:
    # A back quote or the mark of a result would be read as one of ours.
    line = plain_line(text[:_LOOKED_AT]).replace("`", "'").replace("Result: ", "Result ")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _outcome(cell: CellText) -> str:
    """What the person says of it, else what the last result says."""
    last_call = max(place for place, turn in enumerate(cell.turns) if turn.tool_calls)
    for turn in reversed(cell.turns[last_call + 1 :]):
        if turn.role == "user":
            if _complains(turn.content[:_LOOKED_AT]):
                return "failed"
            if _thanks(turn.content[:_LOOKED_AT]):
                return "worked"
    results = [turn for turn in cell.turns if turn.role == "tool"]
    if not results:
        return "unclear"
    return "failed" if looks_like_an_error(results[-1].content) else "worked"
