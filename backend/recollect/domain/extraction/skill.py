"""Skills: what cases of one kind teach. A new case of that kind improves its skill; it makes no second one."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from recollect.domain.extraction.answer import plain_line
from recollect.domain.model import Entry
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
