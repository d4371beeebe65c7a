"""What a model answers about a memcell, and how it is read: with patience for its form, none for its size."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, TypeVar

from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.draft import ATTRIBUTES, CUT_OFF, CellText, Draft, Extraction, Kind, Refused
from recollect.domain.extraction.prompts import called, day_begins
from recollect.domain.model import JsonObject, Turn

MAX_FACTS = 20
MAX_PLANS = 10
MAX_TEXT = 400
MAX_EPISODE = 2_000
MAX_TITLE = 100
_MAX_SHORT = 120

_MAX_CITED = 20
_TEXT: JsonObject = {"type": "string"}


def strict_object(**properties: JsonObject) -> JsonObject:
    """A schema in which every property is required and no other is allowed."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def list_of(items: JsonObject, most: int) -> JsonObject:
    """A schema for a list that ends: a small model would go on for as long as it may."""
    return {"type": "array", "items": items, "maxItems": most}


_TURNS = list_of({"type": "integer"}, _MAX_CITED)
ANSWER_SCHEMA: JsonObject = strict_object(
    title=_TEXT,
    episode=_TEXT,
    facts=list_of(
        strict_object(
            text=_TEXT,
            turns=_TURNS,
            subject=_TEXT,
            attribute={"type": "string", "enum": sorted(ATTRIBUTES)},
            value=_TEXT,
        ),
        MAX_FACTS,
    ),
    foresight=list_of(strict_object(text=_TEXT, turns=_TURNS, **{"from": _TEXT, "to": _TEXT}), MAX_PLANS),
)

_FIELDS = ("title", "episode", "facts", "foresight")
_KINDS: dict[str, Kind] = {"facts": "facts", "foresight": "foresight"}
_numbers = re.compile(r"\d{1,6}").findall
_iso_day = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})").match
_controls = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_sentence_end = re.compile(r"[.!?。！？…](?=\s|$|[^\x00-\x7f])")  # noqa: RUF001 - full-width punctuation
T = TypeVar("T")


def parse_memcell_answer(text: str, cell: CellText) -> Extraction:
    """The drafts in an answer, not yet held against the turns, and what could not be taken.

    An answer that was cut off counts as far as it goes. Raises ValueError, in words that never quote the answer, where
    there is nothing to take.
    """
    found = find_object(text, _FIELDS)
    refused: list[Refused] = []
    if found.cut_off_in is not None:
        refused.append(Refused(_KINDS.get(found.cut_off_in, "episodes"), CUT_OFF))
    episode = _episode(found.value, cell)
    facts = _items(found.value, "facts", MAX_FACTS, lambda item: _fact(item, cell), refused)
    plans = _items(found.value, "foresight", MAX_PLANS, lambda item: _plan(item, cell), refused)
    drafts = [*([episode] if episode else []), *_merged(facts), *_merged(plans)]
    return Extraction(tuple(drafts), tuple(refused))


def lacking(text: str) -> str | None:
    """What is missing from an answer that can be read, in words."""
    return None if find_object(text, _FIELDS).cut_off_in is None else CUT_OFF


def items_of(value: JsonObject, name: str) -> list[Any]:
    """The list under a name; a lone item counts as a list, none as an empty one. Raises ValueError for anything else."""
    listed = value.get(name)
    if listed is None or listed == "":
        return []
    if isinstance(listed, dict | str):
        return [listed]
    if not isinstance(listed, list):
        raise ValueError(f"{name!r} is not a list")
    return listed


def text_of(value: JsonObject, name: str, *, required: bool = False) -> str:
    """The text under a name, on one line. Raises ValueError where it is no text, or missing though required."""
    found = value.get(name)
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = str(found)
    if found is None:
        found = ""
    if not isinstance(found, str):
        raise ValueError(f"{name!r} is not a text")
    line = plain_line(found)
    if required and not line:
        raise ValueError(f"{name!r} is missing")
    return line


def plain_line(text: str) -> str:
    """One line without control characters and halves of characters."""
    return " ".join(_controls.sub(" ", text.encode("utf-8", "replace").decode()).split())


def turn_ids_of(value: Any, turns: Sequence[Turn]) -> tuple[str, ...]:
    """The ids of the turns that are named by number, in order. A number of no turn gives an id that no turn has."""
    listed = value if isinstance(value, list) else [value]
    numbers: list[int] = []
    for item in listed:
        if isinstance(item, str):
            numbers += map(int, _numbers(item))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            numbers.append(int(item))
    ids = {number: turn.turn_id for number, turn in enumerate(turns, 1)}
    return tuple(ids.get(number, f"no turn {number}") for number in sorted(set(numbers)))


def cut_at_sentence(text: str, limit: int) -> str:
    """At most so many characters, up to the end of a sentence where there is one."""
    if len(text) <= limit:
        return text
    ends = [found.end() for found in _sentence_end.finditer(text, 0, limit)]
    return text[: ends[-1]] if ends and ends[-1] > limit // 3 else text[: limit - 1].rstrip() + "…"


def _items(
    value: JsonObject, name: str, most: int, read: Callable[[JsonObject], T], refused: list[Refused]
) -> list[T]:
    listed = items_of(value, name)
    kind = _KINDS[name]
    kept: list[T] = []
    problem = ""
    for item in listed[:most]:
        try:
            if not isinstance(item, dict):
                raise ValueError("an item is not an object")
            kept.append(read({str(key).strip().lower(): each for key, each in item.items()}))
        except ValueError as error:
            problem = str(error)
            refused.append(Refused(kind, problem))
    if problem and not kept:
        raise ValueError(f"no item of {name!r} can be read: {problem}")
    refused += [Refused(kind, f"there are more than {most}")] * min(len(listed[most:]), 1_000)
    return kept


def _episode(value: JsonObject, cell: CellText) -> Draft | None:
    text = cut_at_sentence(text_of(value, "episode"), MAX_EPISODE)
    title = text_of(value, "title").rstrip(".。")
    if not text:
        return None
    shown = tuple(turn.turn_id for turn in cell.turns if turn.role in ("user", "assistant"))
    when = cell.turns[0].timestamp if cell.turns else 0
    title = cut_at_sentence(title or text, MAX_TITLE).rstrip(".。")
    return Draft("episodes", title, text, when, shown)


def _fact(item: JsonObject, cell: CellText) -> Draft:
    draft = _statement("facts", item, cell)
    attribute = text_of(item, "attribute").casefold().replace(" ", "_")
    return replace(
        draft,
        subject=text_of(item, "subject")[:_MAX_SHORT] or _speaker(draft, cell),
        attribute=attribute if attribute in ATTRIBUTES else "other",
        value=text_of(item, "value")[:_MAX_SHORT],
    )


def _plan(item: JsonObject, cell: CellText) -> Draft:
    draft = _statement("foresight", item, cell)
    days = [day for name in ("from", "to") if (day := _iso(text_of(item, name))) is not None]
    if not days:
        return draft
    end = day_begins(max(days) + timedelta(1), cell.time_zone) - 1
    return replace(draft, about=(day_begins(min(days), cell.time_zone), end))


def _statement(kind: Kind, item: JsonObject, cell: CellText) -> Draft:
    text = text_of(item, "text", required=True)
    if len(text) > MAX_TEXT:
        raise ValueError(f"a text has more than {MAX_TEXT} characters")
    ids = turn_ids_of(item.get("turns"), cell.turns)
    cited = [turn for turn in cell.turns if turn.turn_id in ids] or cell.turns
    said = next((turn for turn in cited if turn.role == "user"), cited[0] if cited else None)
    return Draft(kind, text, text, said.timestamp if said else 0, ids)


def _speaker(draft: Draft, cell: CellText) -> str:
    """Who said it."""
    people = {turn.turn_id: turn.sender_id for turn in cell.turns if turn.role == "user"}
    sender = next((who for turn_id, who in people.items() if turn_id in draft.turn_ids), cell.user_id)
    return called(cell) if sender == cell.user_id or len(set(people.values())) <= 1 else sender


def _iso(written: str) -> date | None:
    found = _iso_day(written)
    try:
        return date(*map(int, found.groups())) if found and 1970 <= int(found[1]) < 9999 else None
    except ValueError:
        return None  # The 31st of June.


def _merged(drafts: Sequence[Draft]) -> Iterator[Draft]:
    """Each statement once, with all turns that were cited for it."""
    by_text: dict[str, Draft] = {}
    for draft in drafts:
        key = draft.text.casefold().rstrip(".。!！")  # noqa: RUF001
        known = by_text.setdefault(key, draft)
        if known is not draft:
            by_text[key] = replace(known, turn_ids=tuple(dict.fromkeys([*known.turn_ids, *draft.turn_ids])))
    yield from by_text.values()
