"""What a model answers about a memcell, and how it is read: with patience for its form, none for its size."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, TypeVar

from recollect.domain.entries.entry import ABOUT, EVENT, LAPSES
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.draft import (
    CATEGORIES,
    CUT_OFF,
    OWNER,
    CellText,
    Draft,
    Extraction,
    Kind,
    Quoted,
    Refused,
)
from recollect.domain.extraction.prompts import PROMPT_TURNS, called, day_begins
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import JsonObject, Turn

MAX_FACTS = 20
MAX_PLANS = 10
MAX_TEXT = 400
MAX_EPISODE = 2_000
MAX_TITLE = 100
MAX_STEPS = 20
OUTCOMES = ("worked", "failed", "unclear")
_MAX_SHORT = 120
_MAX_QUOTES = 6
_MAX_IDS = 10
_TEXT: JsonObject = {"type": "string"}
_OR_NULL: JsonObject = {"type": ["string", "null"]}


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


def or_null(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}]}


_QUOTES = list_of(strict_object(message={"type": "integer"}, words=_TEXT), _MAX_QUOTES)
_IDS = list_of(_TEXT, _MAX_IDS)
CASE_SCHEMA: JsonObject = strict_object(
    task=_TEXT,
    steps=list_of(strict_object(tool=_TEXT, did=_TEXT, result=_TEXT), MAX_STEPS),
    outcome={"type": "string", "enum": list(OUTCOMES)},
    lesson=_TEXT,
    turns=list_of({"type": "integer"}, PROMPT_TURNS),
)
ANSWER_SCHEMA: JsonObject = strict_object(
    asks=list_of({"type": "integer"}, PROMPT_TURNS),
    episode=or_null(strict_object(title=_TEXT, text=_TEXT)),
    facts=list_of(
        strict_object(
            text=_TEXT,
            about=_TEXT,
            category={"type": "string", "enum": list(CATEGORIES)},
            when=_OR_NULL,
            until=_OR_NULL,
            quotes=_QUOTES,
            replaces=_IDS,
            ends=_IDS,
        ),
        MAX_FACTS,
    ),
    foresight=list_of(
        strict_object(text=_TEXT, when=_OR_NULL, until=_OR_NULL, quotes=_QUOTES, replaces=_IDS, ends=_IDS),
        MAX_PLANS,
    ),
    case=or_null(CASE_SCHEMA),
)

FIELDS = ("episode", "facts", "foresight", "case")
_KINDS: dict[str, Kind] = {"facts": "facts", "foresight": "foresight", "case": "cases"}
BAD_DATE = "a date of it can't be read"
_numbers = re.compile(r"\d{1,6}").findall
_iso_date = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?").fullmatch
_controls = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_sentence_end = re.compile(r"[.!?。！？…](?=\s|$|[^\x00-\x7f])")  # noqa: RUF001 - full-width punctuation
T = TypeVar("T")


def parse_memcell_answer(text: str, cell: CellText) -> Extraction:
    """The drafts in an answer, not yet held against the turns, and what could not be taken.

    An answer that was cut off counts as far as it goes. Raises ValueError, in words that never quote the answer, where
    there is nothing to take.
    """
    found = find_object(text, FIELDS)
    refused: list[Refused] = []
    if found.cut_off_in is not None:
        refused.append(Refused(_KINDS.get(found.cut_off_in, "episodes"), CUT_OFF))
    episode = _episode(found.value, cell)
    facts = _items(found.value, "facts", MAX_FACTS, lambda item: _fact(item, cell), refused)
    plans = _items(found.value, "foresight", MAX_PLANS, lambda item: _plan(item, cell), refused)
    drafts = [*([episode] if episode else []), *_merged(facts), *_merged(plans)]
    people = {turn.turn_id for turn in cell.turns if turn.role == "user"}
    asks = found.value.get("asks")
    asking = None if asks is None else tuple(filter(people.__contains__, turn_ids_of(asks, cell.turns)))
    return Extraction(tuple(drafts), tuple(refused), asking)


def lacking(text: str) -> str | None:
    """What is missing from an answer that can be read, in words."""
    return None if find_object(text, FIELDS).cut_off_in is None else CUT_OFF


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
    """Truncate to the limit, at the end of a sentence if there is one."""
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
        except _BadDate:
            refused.append(Refused(kind, BAD_DATE))
        except ValueError as error:
            problem = str(error)
            refused.append(Refused(kind, problem))
    if problem and not kept:
        raise ValueError(f"no item of {name!r} can be read: {problem}")
    refused += [Refused(kind, f"there are more than {most}")] * min(len(listed[most:]), 1_000)
    return kept


def _episode(value: JsonObject, cell: CellText) -> Draft | None:
    told = value.get("episode")
    if isinstance(told, dict):
        told = {str(key).strip().lower(): each for key, each in told.items()}
    else:
        told = {"title": value.get("title"), "text": told}
    text = cut_at_sentence(text_of(told, "text"), MAX_EPISODE)
    title = text_of(told, "title").rstrip(".。")
    if not text:
        return None
    shown = tuple(turn.turn_id for turn in cell.turns if turn.role in ("user", "assistant"))
    when = cell.turns[0].timestamp if cell.turns else 0
    title = cut_at_sentence(title or text, MAX_TITLE).rstrip(".。")
    return Draft("episodes", title, text, when, shown)


def _fact(item: JsonObject, cell: CellText) -> Draft:
    draft = _statement("facts", item, cell)
    category = text_of(item, "category").casefold()
    until = _days(item, "until", cell)
    properties = {
        "subject": _subject(text_of(item, "about"), draft, cell),
        "category": category if category in CATEGORIES else EVENT,
        "happened": _date(item, "when"),
        LAPSES: "" if until is None else write_time(until[1]),
    }
    return replace(draft, properties=properties)


def _plan(item: JsonObject, cell: CellText) -> Draft:
    draft = _statement("foresight", item, cell)
    days = [found for name in ("when", "until") if (found := _days(item, name, cell)) is not None]
    if not days:
        return draft
    begins = min(begin for begin, _ in days) if _date(item, "when") else min(draft.when, days[0][0])
    ends = max(end for _, end in days)
    return replace(draft, properties={ABOUT: write_time(begins), LAPSES: write_time(ends)})


def _statement(kind: Kind, item: JsonObject, cell: CellText) -> Draft:
    text = text_of(item, "text", required=True)
    if len(text) > MAX_TEXT:
        raise ValueError(f"a text has more than {MAX_TEXT} characters")
    quotes = tuple(_quotes(item.get("quotes"), cell))
    ids = tuple(dict.fromkeys(quote.turn_id for quote in quotes))
    cited = [turn for turn in cell.turns if turn.turn_id in ids] or cell.turns
    said = [turn for turn in cited if turn.role == "user"] or cited
    when = max((turn.timestamp for turn in said), default=0)
    replaces, ends = (_ids(item.get(name)) for name in ("replaces", "ends"))
    return Draft(kind, text, text, when, ids, quotes=quotes, replaces=replaces, ends=ends)


def _quotes(value: Any, cell: CellText) -> Iterator[Quoted]:
    """A message that is not named, or not there, gives an id that no turn has."""
    for item in value if isinstance(value, list) else [value] if isinstance(value, dict) else ():
        if isinstance(item, dict):
            told = {str(key).strip().lower(): each for key, each in item.items()}
            for turn_id in turn_ids_of(told.get("message"), cell.turns) or ("no turn",):
                yield Quoted(turn_id, text_of(told, "words"))


def _ids(value: Any) -> tuple[str, ...]:
    """Short ids of known facts and plans, as they were listed."""
    listed = value if isinstance(value, list) else [value]
    written = (str(item).strip(" []").casefold() for item in listed if item not in (None, ""))
    return tuple(dict.fromkeys(written))


def _subject(about: str, draft: Draft, cell: CellText) -> str:
    """`user` for the owner; else whom it names, or who said it where it names nobody."""
    if not about:
        people = {turn.turn_id: turn.sender_id for turn in cell.turns if turn.role == "user"}
        about = next((who for turn_id, who in people.items() if turn_id in draft.turn_ids), cell.user_id)
    own = {OWNER, "the user", cell.user_id.casefold(), called(cell).casefold()}
    return OWNER if about.casefold() in own else about[:_MAX_SHORT]


class _BadDate(ValueError):
    """A date that is none."""


def _date(item: JsonObject, name: str) -> str:
    """`2026`, `2026-05` or `2026-05-08`; empty where none is given. Raises _BadDate for anything else."""
    written = text_of(item, name)
    if not written or written.casefold() == "null":
        return ""
    found = _iso_date(written)
    if found is None:
        raise _BadDate
    parts = [int(part) for part in found.groups() if part]
    try:
        date(*parts, *(1, 1)[len(parts) - 1 :])
    except ValueError:
        raise _BadDate from None  # The 31st of June.
    return "-".join(f"{part:04d}" if place == 0 else f"{part:02d}" for place, part in enumerate(parts))


def _days(item: JsonObject, name: str, cell: CellText) -> tuple[int, int] | None:
    """The first and the last millisecond of a date, where the user is."""
    if not (written := _date(item, name)):
        return None
    parts = [int(part) for part in written.split("-")]
    first = date(*parts, *(1, 1)[len(parts) - 1 :])
    try:
        match len(parts):
            case 1:
                after = date(first.year + 1, 1, 1)
            case 2:
                after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
            case _:
                after = first + timedelta(1)
    except (ValueError, OverflowError):
        after = date.max
    return day_begins(first, cell.time_zone), day_begins(after, cell.time_zone) - 1


def _merged(drafts: Sequence[Draft]) -> Iterator[Draft]:
    """Each statement about the same subject and time once, with all turns that were cited for it."""
    found: dict[tuple[object, ...], Draft] = {}
    for draft in drafts:
        told = draft.properties
        times = (told[ABOUT], told[LAPSES]) if ABOUT in told else None
        key = (draft.text.casefold().rstrip(".。!！"), told.get("subject", "").casefold(), times)  # noqa: RUF001
        known = found.setdefault(key, draft)
        if known is not draft:
            found[key] = replace(
                known,
                turn_ids=_both(known.turn_ids, draft.turn_ids),
                quotes=_both(known.quotes, draft.quotes),
                replaces=_both(known.replaces, draft.replaces),
                ends=_both(known.ends, draft.ends),
            )
    yield from found.values()


def _both(one: Sequence[T], other: Sequence[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys([*one, *other]))
