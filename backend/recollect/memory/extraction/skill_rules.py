"""Skills without a model: the steps that successful cases share, and what went wrong in the others."""

from collections.abc import Collection, Iterable, Sequence

from recollect.memory.extraction.answer import plain_line
from recollect.memory.extraction.case import Step, read_steps
from recollect.memory.extraction.skill import (
    MAX_CASES,
    MAX_EXAMPLES,
    Case,
    Example,
    Skill,
    makes_a_skill,
    skill_description,
    skill_name,
)

_MOST_TASKS = 4
_MOST_STEPS = 10
_MOST_PITFALLS = 8
_TASK_CHARS = 160
_FAILED = "failed"


def improve_by_rules(skill: Skill | None, cases: Sequence[Case], taken: Collection[str] = ()) -> Skill:
    """The skill that the cases teach: the given one, improved, or a new one with a name that is not taken.

    `cases` are all of the skill's, the oldest first. Raises ValueError where they are too few to make a new one.
    """
    if skill is None and not makes_a_skill(cases):
        raise ValueError("a skill is made from two cases or more, one of which worked")
    worked = [case for case in cases if case.outcome == "worked"]
    newest = (worked or list(cases))[-1:]
    tools = _tools(skill, cases)
    base = skill or Skill("", "")
    return Skill(
        name=base.name or skill_name(newest[0].task, tools, taken),
        description=base.description or _description(newest[0].task, tools),
        when=_distinct([case.task[:_TASK_CHARS] for case in reversed(cases)], _MOST_TASKS) or base.when,
        steps=_common_steps(worked) or base.steps,
        pitfalls=_distinct([*_pitfalls(cases), *base.pitfalls], _MOST_PITFALLS),
        examples=examples_of(skill, cases),
        tools=tools,
        cases=case_ids(skill, cases),
        edited=base.edited,
    )


def examples_of(skill: Skill | None, cases: Sequence[Case]) -> tuple[Example, ...]:
    """The newest cases of a skill, those that it showed before included."""
    known = {example.link: example for example in (skill.examples if skill else ())}
    new = {case.link: Example(case.link, case.outcome, case.task[:_TASK_CHARS]) for case in cases}
    merged = {link: example for link, example in known.items() if link not in new} | new
    return tuple(merged.values())[-MAX_EXAMPLES:]


def case_ids(skill: Skill | None, cases: Sequence[Case]) -> tuple[str, ...]:
    new = [case.case_id for case in cases]
    known = [case_id for case_id in (skill.cases if skill else ()) if case_id not in new]
    return tuple(dict.fromkeys([*known, *new]))[-MAX_CASES:]


def _tools(skill: Skill | None, cases: Sequence[Case]) -> tuple[str, ...]:
    """Of the cases that worked, where there are any: what only failed is no part of the way."""
    worked = [case for case in cases if case.outcome == "worked"] or list(cases)
    used = dict.fromkeys(tool for case in worked for tool in case.tools)
    return tuple(used) or (skill.tools if skill else ())


def _description(task: str, tools: Sequence[str]) -> str:
    with_tools = ", ".join(tools[:6])
    if any("\u4e00" <= character <= "\u9fff" for character in task):
        return skill_description(f"用于这类任务：{task[:_TASK_CHARS]}（工具：{with_tools}）")  # noqa: RUF001
    return skill_description(f"For tasks such as: {task[:_TASK_CHARS].rstrip('.')} (tools: {with_tools})")


def _common_steps(worked: Sequence[Case]) -> tuple[str, ...]:
    """The steps of the shortest case that worked, of those whose tools every such case used."""
    ways = [_ways(case) for case in worked]
    ways = [steps for steps in ways if steps]
    if not ways:
        return ()
    shortest = min(ways, key=len)
    everywhere = set.intersection(*({step.tool for step in steps} for steps in ways))
    common = [step for step in shortest if step.tool in everywhere] or shortest
    return _distinct([_in_words(step) for step in common], _MOST_STEPS)


def _ways(case: Case) -> list[Step]:
    return [step for step in read_steps(case.text)[0] if step.tool and not _is_failure(step)]


def _pitfalls(cases: Sequence[Case]) -> Iterable[str]:
    for case in reversed(cases):
        steps, lesson = read_steps(case.text)
        if lesson:
            yield lesson
        failures = [step for step in steps if _is_failure(step)]
        if case.outcome == _FAILED and not failures:
            failures = [step for step in steps if step.tool][-1:]
        for step in failures:
            yield f"{_in_words(step)} -> {step.result}" if step.result else _in_words(step)


def _is_failure(step: Step) -> bool:
    return step.result.startswith(_FAILED)


def _in_words(step: Step) -> str:
    return plain_line(f"`{step.tool}`: {step.did}" if step.tool else step.did)


def _distinct(texts: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(plain for text in texts if (plain := plain_line(text))))[:most]
