"""Skills by a model: what it is asked about cases, and how its answer is read."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from recollect.memory.extraction.answer import (
    cut_at_sentence,
    items_of,
    list_of,
    plain_line,
    strict_object,
    text_of,
)
from recollect.memory.extraction.answer_json import find_object
from recollect.memory.extraction.case import OTHER_TOOL
from recollect.memory.extraction.draft import Refused
from recollect.memory.extraction.grounding import UNTOLD_NAME, UNTOLD_NUMBER
from recollect.memory.extraction.grounding_words import (
    is_known,
    names_in,
    numbers_in,
    numbers_said,
    vocabulary,
)
from recollect.memory.extraction.prompts import check_template, filled_with
from recollect.memory.extraction.skill import MAX_DESCRIPTION, Case, Skill, skill_description, skill_name
from recollect.memory.extraction.skill_rules import case_ids, examples_of, improve_by_rules
from recollect.memory.model import JsonObject
from recollect.memory.quoted_turns import quoted

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
    """The prompt of a skill: the newest cases, and the skill as it is. Raises ValueError where the template is none."""
    check_template(template, "cases", SKILL_PLACEHOLDERS)
    values = {
        "tools": ", ".join(f"`{tool}`" for tool in _tools(skill, cases)[:40]) or "none",
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
    made = improve_by_rules(skill, cases, taken)
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
            examples=examples_of(skill, cases),
            cases=case_ids(skill, cases),
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
    """Says why a line can't be in the skill. Advice is in its own words; tools, names and numbers are the cases'."""
    tools = _tools(skill, cases)
    texts = [f"{case.task}\n{case.text}" for case in cases]
    known_text = "\n".join([*texts, *tools, _as_text(skill) if skill else ""])
    known, numbers = vocabulary(known_text), numbers_said(known_text)

    def check(line: str) -> str | None:
        called = [name for name in _in_backticks(line) if re.fullmatch(r"[\w.-]+", name)]
        if not all(name in tools or is_known(name, known) for name in called):
            return OTHER_TOOL
        if not numbers_in(line) <= numbers:
            return UNTOLD_NUMBER
        return None if all(is_known(name, known) for name in names_in(line, starts=False)) else UNTOLD_NAME

    return check


def _tools(skill: Skill | None, cases: Sequence[Case]) -> tuple[str, ...]:
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
