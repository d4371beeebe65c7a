"""What a line of the profile is about that a person wrote themself: told by its title and its words."""

import re
from collections.abc import Iterator

from recollect.memory.extraction.clauses_en import clause_in
from recollect.memory.extraction.draft import FUNCTIONAL
from recollect.memory.extraction.predicates_en import traits_in
from recollect.memory.extraction.predicates_zh import KIN_ATTRIBUTE, chinese_traits
from recollect.memory.extraction.statement import Speaker

_somebodys = re.compile(
    rf"['\u2019]|\b(?:my|our|his|her|their)\b|的|{'|'.join(KIN_ATTRIBUTE)}", re.IGNORECASE
).search
"""It is said of somebody who is theirs."""
_LONGEST_NAME = 3
"""Words before the predicate; in Chinese, twice as many characters."""


def attribute_of_line(text: str, allowed: tuple[str, ...]) -> str | None:
    """Of those that may stand under its title and are had once, the one that its words name; None for any other."""
    named = (trait for predicate in _predicates(text) for trait in _traits(predicate))
    return next((each for each in named if each in FUNCTIONAL and each in allowed), None)


def _predicates(text: str) -> Iterator[str]:
    """What may be said of the owner, without their name."""
    line = " ".join(text.split()).rstrip(".。!！")  # noqa: RUF001
    clause = clause_in(line, Speaker("user"))
    if clause is not None and clause.subject == "user":
        yield clause.predicate
    words = line.split(" ")
    cuts = [(" ".join(words[:start]), " ".join(words[start:])) for start in range(_LONGEST_NAME + 1)]
    cuts += [(line[:start], line[start:].lstrip()) for start in range(2 * _LONGEST_NAME + 1)]
    yield from (predicate for name, predicate in cuts if not _somebodys(name))


def _traits(predicate: str) -> Iterator[str]:
    yield from (trait.attribute for trait in traits_in(predicate))
    yield from (trait.attribute for trait in chinese_traits(predicate))
