"""A case without a model: the request, the calls with their results, and what became of it."""

import re
from typing import Any

from recollect.memory.extraction.answer import cut_at_sentence, plain_line
from recollect.memory.extraction.case import (
    MAX_STEPS,
    MAX_TASK,
    Step,
    has_trajectory,
    is_secret,
    render_steps,
    tool_of,
    tools_called,
)
from recollect.memory.extraction.draft import CellText, Draft, Extraction
from recollect.memory.model import Turn

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
