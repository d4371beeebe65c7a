"""What a forgotten case leaves in the sections of a skill that a person changed: nothing that we wrote because of it."""

from collections.abc import Collection, Iterable

from recollect.memory.extraction.answer import plain_line
from recollect.memory.extraction.skill import Skill
from recollect.memory.extraction.skill_file import item_of, parse_skill, render_skill, sections_of
from recollect.memory.extraction.skill_merge import is_as_written
from recollect.memory.front_matter import split_front_matter

_TELLING_BYTES = 12
"""A shorter task may stand by chance in a line that somebody wrote themself."""


def without_forgotten(text: str, made: Skill, lost: Collection[str], before: Iterable[str]) -> str:
    """The file without lines that name a lost case or repeat its task, and items that we wrote and would not again.

    `made` is the skill as the cases that are left make it; `before` are versions of the file, this one among them.
    A person's other lines stay.
    """
    versions = list(dict.fromkeys([*before, text]))
    tasks = {task for each in versions for task in _tasks_of(each, lost)}
    said_still = {*_items(render_skill(made)), *(example.task for example in made.examples)}
    gone = {*tasks, *(item for each in versions for item in _our_items(each))} - said_still
    telling = [*lost, *(task for task in tasks - said_still if len(task.encode()) >= _TELLING_BYTES)]
    body = split_front_matter(text)[1] - 1
    lines = text.split("\n")
    kept = [
        line
        for line in lines[body:]
        if item_of(line) not in gone and not any(words in plain_line(line) for words in telling)
    ]
    return "\n".join([*lines[:body], *kept])


def _tasks_of(text: str, lost: Collection[str]) -> set[str]:
    skill = parse_skill(text).skill
    examples = skill.examples if skill is not None else ()
    return {example.task for example in examples if example.link.rpartition("^")[2] in lost and example.task}


def _our_items(text: str) -> Iterable[str]:
    """Of a file that is as we wrote it, the sections that are no person's."""
    skill = parse_skill(text).skill
    if skill is None or not is_as_written(text):
        return
    for title, section in sections_of(text, split_front_matter(text)[1]):
        if title not in skill.edited:
            yield from _items(section)


def _items(text: str) -> list[str]:
    return [item for line in text.split("\n") if (item := item_of(line)) is not None]
