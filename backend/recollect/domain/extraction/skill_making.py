"""Skills from cases: what a model is asked, and how its answer is read."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from recollect.domain.extraction.answer import (
    cut_at_sentence,
    items_of,
    list_of,
    plain_line,
    strict_object,
    text_of,
)
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.case import OTHER_TOOL
from recollect.domain.extraction.draft import Refused
from recollect.domain.extraction.prompts import check_template, filled_with
from recollect.domain.extraction.skill import (
    MAX_CASES,
    MAX_DESCRIPTION,
    MAX_EXAMPLES,
    Case,
    Example,
    Skill,
    makes_a_skill,
    skill_description,
    skill_name,
)
from recollect.domain.llm import quoted
from recollect.domain.model import JsonObject

_MOST_TASKS = 4
_TASK_CHARS = 160


def unwritten(skill: Skill | None, cases: Sequence[Case], taken: Collection[str] = ()) -> Skill:
    """The given skill or a new one with all that follows from its cases, without the text that a model writes.

    `cases` are all of the skill's, the oldest first. Raises ValueError where they are too few to make a new one.
    """
    if skill is None and not makes_a_skill(cases):
        raise ValueError("a skill is made from two cases or more, one of which worked")
    worked = [case for case in cases if case.outcome == "worked"]
    newest = (worked or list(cases))[-1].task[:_TASK_CHARS]
    base = skill or Skill("", "")
    tools = _tools(base, cases)
    tasks = [plain_line(case.task[:_TASK_CHARS]) for case in reversed(cases)]
    return Skill(
        name=base.name or skill_name(newest, tools, taken),
        description=base.description or skill_description(newest),
        when=tuple(dict.fromkeys(task for task in tasks if task))[:_MOST_TASKS] or base.when,
        examples=_examples(base, cases),
        tools=tools,
        cases=_case_ids(base, cases),
        edited=base.edited,
    )


def _examples(skill: Skill, cases: Sequence[Case]) -> tuple[Example, ...]:
    """The newest cases of a skill, those that it showed before included."""
    new = {case.link: Example(case.link, case.outcome, case.task[:_TASK_CHARS]) for case in cases}
    known = {example.link: example for example in skill.examples if example.link not in new}
    return (*known.values(), *new.values())[-MAX_EXAMPLES:]


def _case_ids(skill: Skill, cases: Sequence[Case]) -> tuple[str, ...]:
    new = [case.case_id for case in cases]
    known = [case_id for case_id in skill.cases if case_id not in new]
    return tuple(dict.fromkeys([*known, *new]))[-MAX_CASES:]


def _tools(skill: Skill, cases: Sequence[Case]) -> tuple[str, ...]:
    """Of the cases that worked, where there are any: what only failed is no part of the way."""
    worked = [case for case in cases if case.outcome == "worked"] or list(cases)
    used = dict.fromkeys(tool for case in worked for tool in case.tools)
    return tuple(used) or skill.tools


_TEXT: JsonObject = {"type": "string"}
_MOST_LINES = 10
_LINES = list_of(_TEXT, _MOST_LINES)
SKILL_SCHEMA: JsonObject = strict_object(
    name=_TEXT, description=_TEXT, when=_LINES, steps=_LINES, pitfalls=_LINES
)

_FIELDS = ("name", "description", "steps")
SKILL_PLACEHOLDERS = frozenset(["cases", "skill", "tools"])
_MOST_CASES = 8
_LINE_CHARS = 400
_SKILL_CHARS = 2_000
_in_backticks = re.compile(r"`([^`]{1,80})`").findall
_bullet = re.compile(r"^\s*(?:[-*+]|\d{1,2}[.)])\s+")


def skill_messages(template: str, skill: Skill | None, cases: Sequence[Case]) -> list[JsonObject]:
    """The prompt of a skill: the newest cases, and the skill as it is. Raises ValueError if the template is invalid."""
    check_template(template, "cases", SKILL_PLACEHOLDERS)
    values = {
        "tools": ", ".join(f"`{tool}`" for tool in _tools_used(skill, cases)[:40]) or "none",
        "skill": quoted(_as_text(skill), _SKILL_CHARS) if skill else "there is none yet.",
    }
    return filled_with(template, "cases", values, _lines(cases[-_MOST_CASES:]))


def parse_skill_answer(
    text: str, skill: Skill | None, cases: Sequence[Case], taken: Collection[str] = ()
) -> tuple[Skill, tuple[Refused, ...]]:
    """The skill in an answer, and the lines of it that the cases don't support.

    The name of a skill that is there already stays. Raises ValueError where the answer has no steps to take.
    """
    found = find_object(text, _FIELDS)
    refused: list[Refused] = []
    check = _line_check(skill, cases)
    steps = _checked(found.value, "steps", check, refused)
    if not steps or found.cut_off_in == "steps":
        raise ValueError("the answer has no steps" if not steps else "the answer is cut off in its steps")
    made = unwritten(skill, cases, taken)
    description = skill_description(cut_at_sentence(text_of(found.value, "description"), MAX_DESCRIPTION))
    if description and (reason := check(description)) is not None:
        refused.append(Refused("cases", reason))
        description = ""
    name = made.name if skill else _name(found.value, made, check, refused, taken)
    return (
        replace(
            made,
            name=name,
            description=description or made.description,
            when=_checked(found.value, "when", check, refused) or made.when,
            steps=steps,
            pitfalls=_checked(found.value, "pitfalls", check, refused),
        ),
        tuple(refused),
    )


def _name(
    value: JsonObject,
    made: Skill,
    check: Callable[[str], str | None],
    refused: list[Refused],
    taken: Collection[str],
) -> str:
    proposed = text_of(value, "name")
    if (reason := check(proposed.replace("-", " "))) is not None:
        refused.append(Refused("cases", reason))
        return made.name
    return skill_name(proposed, made.tools, taken) if proposed else made.name


def _checked(
    value: JsonObject, name: str, check: Callable[[str], str | None], refused: list[Refused]
) -> tuple[str, ...]:
    kept: list[str] = []
    for item in items_of(value, name)[:_MOST_LINES]:
        line = _bullet.sub("", plain_line(item)) if isinstance(item, str) else ""
        reason = check(line) if line else f"a line of {name!r} is not a text"
        if reason is None:
            kept.append(cut_at_sentence(line, _LINE_CHARS))
        else:
            refused.append(Refused("cases", reason))
    return tuple(dict.fromkeys(kept))


def _line_check(skill: Skill | None, cases: Sequence[Case]) -> Callable[[str], str | None]:
    """Says why a line can't be in the skill: it names a tool, in backticks, that no case used or mentions."""
    tools = _tools_used(skill, cases)
    texts = [f"{case.task}\n{case.text}" for case in cases]
    known = "\n".join([*texts, *tools, _as_text(skill) if skill else ""])

    def check(line: str) -> str | None:
        called = [name for name in _in_backticks(line) if re.fullmatch(r"[\w.-]+", name)]
        return None if all(name in known for name in called) else OTHER_TOOL

    return check


def _tools_used(skill: Skill | None, cases: Sequence[Case]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys([*(skill.tools if skill else ()), *(tool for case in cases for tool in case.tools)])
    )


def _as_text(skill: Skill) -> str:
    return json.dumps(
        {
            "description": skill.description,
            "when": skill.when,
            "steps": skill.steps,
            "pitfalls": skill.pitfalls,
        },
        ensure_ascii=False,
    )


def _lines(cases: Sequence[Case]) -> Callable[[int], list[str]]:
    def fitting(room: int) -> list[str]:
        share = max(0, room // max(1, len(cases)) - 40)
        while True:
            lines = [
                f"[{number}] {case.outcome}: {quoted(plain_line(f'{case.task} | {case.text}'), share)}"
                for number, case in enumerate(cases, 1)
            ]
            if sum(len(line) + 1 for line in lines) <= room or not share:
                return lines
            share = share * 9 // 10

    return fitting
