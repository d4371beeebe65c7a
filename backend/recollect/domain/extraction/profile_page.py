"""The profile by a model: what it is asked, and which lines of its answer are kept."""

from collections.abc import Iterable, Mapping, Sequence

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.profile import HEADINGS, RULES, basis_of, heading_of, line_of
from recollect.domain.extraction.answer import items_of, list_of, strict_object, text_of
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.known import listed
from recollect.domain.extraction.prompts import check_template, filled_with
from recollect.domain.llm import quoted
from recollect.domain.model import JsonObject

_TEXT: JsonObject = {"type": "string"}
_MOST_LINES = 120
_MOST_FACTS = 12
_LINE_CHARS = 300
PROFILE_PLACEHOLDERS = frozenset(["facts", "categories"])
PROFILE_SCHEMA: JsonObject = strict_object(
    lines=list_of(
        strict_object(
            category={"type": "string", "enum": list(HEADINGS)},
            text=_TEXT,
            facts=list_of(_TEXT, _MOST_FACTS),
        ),
        _MOST_LINES,
    )
)


def numbered(facts: Iterable[KnownEntry]) -> dict[str, KnownEntry]:
    """The facts by the short ids that the model knows them by."""
    return {f"f{number}": fact for number, fact in enumerate(facts, 1)}


def profile_messages(
    template: str, facts: Mapping[str, KnownEntry], lines: Sequence[KnownEntry]
) -> list[JsonObject]:
    """The prompt: the page so far, line by line with the facts of each, and the facts that have changed since.

    Raises ValueError if the template is invalid.
    """
    check_template(template, "facts", PROFILE_PLACEHOLDERS)
    names = {fact.entry_id: name for name, fact in facts.items()}
    shown: set[str] = set()
    told: list[tuple[str, str]] = []
    for line in lines:
        ids = [names[name] for name in line.entry.extra.get("fact", "").split() if name in names]
        shown.update(ids)
        told.append((f"line, {line.category}, {' '.join(ids)}", line.entry.text))
    told += [
        (f"{name}, {heading_of(fact)}", listed(fact)) for name, fact in facts.items() if name not in shown
    ]

    def fitting(room: int) -> list[str]:
        share = _LINE_CHARS
        while True:
            written = [f"[{head}] {quoted(text, share)}" for head, text in told]
            if sum(len(line) + 1 for line in written) <= room or not share:
                return written
            share = share * 9 // 10

    return filled_with(template, "facts", {"categories": ", ".join(HEADINGS)}, fitting)


def parse_profile_answer(text: str, facts: Mapping[str, KnownEntry], by: str) -> list[KnownEntry]:
    """The page: each fact at most once. A line that names no fact of the input, or several headings, is dropped.

    Facts that no line names keep their own. Raises ValueError where the answer holds no page.
    """
    free = dict(facts)
    made: list[KnownEntry] = []
    for item in items_of(find_object(text, ("lines",)).value, "lines"):
        if not isinstance(item, dict):
            continue
        names = [str(name) for name in dict.fromkeys(map(str, items_of(item, "facts")))]
        said, category = text_of(item, "text"), text_of(item, "category")
        shown = [free[name] for name in names if name in free]
        is_whole = bool(shown) and len(shown) == len(names) <= _MOST_FACTS
        if not is_whole or not 0 < len(said) <= _LINE_CHARS:
            continue
        if {heading_of(fact) for fact in shown} != {category}:
            continue
        made.append(line_of(*shown, text=said, by=by))
        for name in names:
            del free[name]
    return [*made, *(line_of(fact, by=by) for fact in free.values())]


def kept_lines(lines: Iterable[KnownEntry], on_page: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Those lines of a model's page whose facts are on the page still, and say what they said then.

    Of any other line, each such fact by itself: the model has seen it.
    """
    facts = {fact.entry_id: fact for fact in on_page}
    kept = []
    for line in lines:
        names, by = line.entry.extra.get("fact", "").split(), line.entry.by.partition(", ")[2]
        if by == RULES:
            continue
        told = zip(names, line.entry.extra.get("basis", "").split(), strict=False)
        same = [name for name, said in told if name in facts and basis_of([facts[name]]) == said]
        shown = [facts.pop(name) for name in same]
        if shown and len(shown) == len(names):
            kept.append(line_of(*shown, text=line.entry.text, by=by))
        else:
            kept += [line_of(fact, by=by) for fact in shown]
    return kept
