"""Skills: what cases of one kind teach. A new case of that kind improves its skill; it makes no second one."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
from recollect.domain.llm import quoted
from recollect.domain.model import Entry, JsonObject
from recollect.domain.paths import DEVICES
from recollect.domain.recall.words import normal, words_in

MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_EXAMPLES = 10
"""The newest cases, as links. `cases` names more of them."""
MAX_CASES = 200
LEAST_CASES = 2
_ALIKE = 1 / 2
_NAME_WORDS = 8
_SHORTEST = 2
_RESERVED = ("anthropic", "claude")
"""Words that some agents allow in no skill's name."""


@dataclass(frozen=True)
class Case:
    """A case as it is in the vault, and who made it."""

    case_id: str
    task: str
    text: str
    tools: tuple[str, ...]
    outcome: str
    link: str
    """To its entry, from the agent's folder."""
    by: str = ""

    @cached_property
    def terms(self) -> frozenset[str]:
        """The telling words of its task."""
        return _telling(self.task)


@dataclass(frozen=True, slots=True)
class Example:
    """A case that a skill shows."""

    link: str
    outcome: str
    task: str


@dataclass(frozen=True)
class Skill:
    """Each text is one line."""

    name: str
    description: str
    when: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    pitfalls: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    tools: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    """The ids of the cases that it was made from, the newest ones last."""
    edited: tuple[str, ...] = ()
    """What a person wrote and nobody else changes: the titles of sections, `description`."""
    by: str = ""
    """The model that made it."""
    basis: str = ""
    """Names its cases as they were when it was made of them: another word in one gives another."""
    digest: str = ""
    """Of what its file said when we wrote it; a file that gives another was changed by a person since."""

    @cached_property
    def terms(self) -> tuple[frozenset[str], ...]:
        """The telling words of its description, and of the tasks that it shows."""
        texts = [self.description, *(example.task for example in self.examples)]
        return tuple(map(_telling, texts))


def _telling(text: str) -> frozenset[str]:
    """Its words without the shortest: in alphabets these are mostly articles and prepositions."""
    return frozenset(word for word in words_in(text) if len(word) > _SHORTEST or not word.isascii())


def case_of(entry: Entry, link: str) -> Case:
    """A case from its entry."""
    tools = tuple(tool for tool in map(str.strip, entry.extra.get("tools", "").split(",")) if tool)
    return Case(
        entry.entry_id,
        plain_line(entry.title),
        entry.text,
        tools,
        entry.extra.get("outcome", "unclear"),
        link,
        entry.by,
    )


def basis_of(cases: Iterable[Case]) -> str:
    """The same for the same cases in any order; where they lie is no part of it."""
    told = sorted([case.case_id, case.task, case.text, *case.tools, case.outcome, case.by] for case in cases)
    return hashlib.sha256(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")).hexdigest()[:12]


def makes_a_skill(cases: Collection[Case]) -> bool:
    """Two cases or more, one of which worked: less teaches nothing that the case itself doesn't say."""
    ids = {case.case_id for case in cases}
    return len(ids) >= LEAST_CASES and any(case.outcome == "worked" for case in cases)


def same_task(one: Case, other: Case) -> bool:
    """Whether two cases are of one kind: tools in common, and tasks in similar words."""
    return _tools_alike(one.tools, other.tools) >= _ALIKE and _words_alike(one.terms, other.terms) >= _ALIKE


def similar_cases(case: Case, others: Iterable[Case]) -> tuple[Case, ...]:
    """Of the others those of its kind, in their order."""
    return tuple(other for other in others if other.case_id != case.case_id and same_task(case, other))


def same_skill(case: Case, skills: Sequence[Skill]) -> str | None:
    """The name of the skill that a case belongs to: one that holds it already, else the one most like it."""
    holding = sorted(skill.name for skill in skills if case.case_id in skill.cases)
    if holding:
        return holding[0]
    similarity: list[tuple[float, str]] = []
    for skill in skills:
        if (tools := _tools_alike(case.tools, skill.tools)) < _ALIKE:
            continue
        if (words := max(_words_alike(case.terms, terms) for terms in skill.terms)) >= _ALIKE:
            similarity.append((-(tools + words), skill.name))
    return min(similarity)[1] if similarity else None


def skill_name(proposed: str, tools: Sequence[str], taken: Collection[str]) -> str:
    """A name that no other skill has: kebab-case, ASCII, safe as the name of a folder on every system."""
    base = (
        _kebab(proposed)
        or _kebab(" ".join(tools))
        or f"skill-{hashlib.sha256(proposed.encode()).hexdigest()[:8]}"
    )
    base = f"{base}-skill" if base in DEVICES else base
    name, number = base, 2
    while name in taken:
        ending = f"-{number}"
        name = base[: MAX_NAME - len(ending)].rstrip("-") + ending
        number += 1
    return name


def agents_name(name: str, tools: Sequence[str], taken: Collection[str]) -> str:
    """The name itself where the Agent Skills specification allows it and no other skill has it, else one like it.

    Letters of any script are allowed: a person may have chosen them.
    """
    is_allowed = (
        len(name) <= MAX_NAME
        and name == unicodedata.normalize("NFKC", name).lower()
        and all(part.isalnum() for part in name.split("-"))
        and name not in DEVICES
    )
    return name if is_allowed and name not in taken else skill_name(name, tools, taken)


def skill_description(text: str) -> str:
    """A description as agents take it: without angle brackets, in which some see tags and refuse the file."""
    return text.replace("<", "(").replace(">", ")")[:MAX_DESCRIPTION]


def is_named_after(name: str, cases: Iterable[Case]) -> bool:
    """Whether every word of a skill's name is one that these cases or their tools say."""
    said = set(_plain_words(" ".join(" ".join([case.task, case.text, *case.tools]) for case in cases)))
    return said.issuperset(name.split("-"))


def _kebab(text: str) -> str:
    """The first words of a text in lower-case ASCII, joined by hyphens; empty where it has none."""
    words = _plain_words(text[:500])
    if sum(map(len, words)) * 2 < len("".join(re.findall(r"\w", text[:500]))):
        return ""  # Another script: what is left of it would say nothing.
    words = [word for word in words if not any(each in word for each in _RESERVED)]
    joined = ""
    for word in words[:_NAME_WORDS]:
        longer = f"{joined}-{word}" if joined else word
        if len(longer) > MAX_NAME:
            break
        joined = longer
    return joined


def _plain_words(text: str) -> list[str]:
    """Letters with marks count as those without."""
    plain = unicodedata.normalize("NFKD", re.sub("['\u2019]", "", normal(text)).casefold())
    return re.findall(r"[a-z0-9]+", "".join(char for char in plain if not unicodedata.combining(char)))


def _tools_alike(one: Sequence[str], other: Sequence[str]) -> float:
    """How many of the tools of both they share, from 0 to 1."""
    first, second = set(one), set(other)
    return len(first & second) / len(first | second) if first or second else 0.0


def _words_alike(first: frozenset[str], second: frozenset[str]) -> float:
    """How much of the shorter text's content the longer one has; one shared word is not enough where there are more."""
    shared, shorter = len(first & second), min(len(first), len(second))
    if not shorter or shared < min(2, shorter):
        return 0.0
    return shared / shorter


# What a model is asked, and how its answer is read.

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
    tools, ids = _tools(base, cases), [case.case_id for case in cases]
    tasks = [plain_line(case.task[:_TASK_CHARS]) for case in reversed(cases)]
    return Skill(
        name=base.name or skill_name(newest, tools, taken),
        description=base.description or skill_description(newest),
        when=tuple(dict.fromkeys(task for task in tasks if task))[:_MOST_TASKS] or base.when,
        examples=_examples(base, cases),
        tools=tools,
        cases=tuple(dict.fromkeys([*(each for each in base.cases if each not in ids), *ids]))[-MAX_CASES:],
        edited=base.edited,
    )


def _examples(skill: Skill, cases: Sequence[Case]) -> tuple[Example, ...]:
    """The newest cases of a skill, those that it showed before included."""
    new = {case.link: Example(case.link, case.outcome, case.task[:_TASK_CHARS]) for case in cases}
    known = {example.link: example for example in skill.examples if example.link not in new}
    return (*known.values(), *new.values())[-MAX_EXAMPLES:]


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
    names = ("description", "when", "steps", "pitfalls")
    return json.dumps({name: getattr(skill, name) for name in names}, ensure_ascii=False)


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
