"""What an excellent model makes of memcells that are in a table: what the table says of them, for the messages shown.

A row of the table: {"messages": [[sender, text], …], "facts": [[text, about, category, words, …, {more fields}], …],
"plans": [[text, when, until, words, …, {more fields}], …], "wrong": [whole items of `facts`], "episode": {title, text} or None}.
A quote is written as its words alone: the message that has them is found. What a fact replaces or ends is written as
the text of the earlier fact or plan, and answered by the id under which the prompt lists that; one that is not listed is left
out, and told as missing.
"""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_MESSAGE = re.compile(r"^\[(\d+)\] (.+)$", re.MULTILINE)
_KNOWN = re.compile(r"^\W*(f\d+)\b(.+)$", re.MULTILINE)
OTHERS = ("assistant", "tool")


def table_of(name: str) -> Any:
    """A table beside this file."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))


def where_said(row: Json, words: str) -> int | None:
    """The number, from 1, of the message that has these words; of several, a person's."""
    said = [
        (sender in OTHERS, number)
        for number, (sender, text) in enumerate(row["messages"], 1)
        if plain(words) in plain(text)
    ]
    return min(said)[1] if said else None


def plain(text: str) -> str:
    """As a reader compares words: alike in composition, case and white space."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def answered(table: list[Json], prompt: str) -> tuple[Json, list[str]]:
    """What the table says of the memcell that a prompt asks about, and which known facts the prompt lacks."""
    shown = [(int(number), *_last_string(line)) for number, line in _MESSAGE.findall(prompt)]
    known = [(name, plain(_unquoted(line))) for name, line in _KNOWN.findall(prompt)]
    answer: Json = {"episode": None, "facts": [], "foresight": [], "case": None}
    missing: list[str] = []
    for row in table:
        places = {
            place: number
            for place, (_, text) in enumerate(row["messages"], 1)
            for number, begun, is_cut in shown
            if begun and (plain(text).startswith(begun) if is_cut else plain(text) == begun)
        }
        if not places:
            continue
        answer["episode"] = row.get("episode", _episode(row))
        if "only_asks" in row:
            answer["asks"] = [places[place] for place in row["only_asks"] if place in places]
        for text, about, category, *words in row.get("facts", ()):
            more = words.pop() if isinstance(words[-1], dict) else {}
            if quotes := _quotes(row, words, places):
                fact = {"text": text, "about": about, "category": category, "when": None, "until": None}
                answer["facts"].append({**fact, "quotes": quotes, **more, **_links(more, known, missing)})
        for text, begins, ends, *words in row.get("plans", ()):
            more = words.pop() if isinstance(words[-1], dict) else {}
            if quotes := _quotes(row, words, places):
                plan = {"text": text, "when": begins, "until": ends, "quotes": quotes}
                answer["foresight"].append({**plan, **_links(more, known, missing)})
        if len(row["messages"]) in places:
            answer["facts"] += row.get("wrong", ())
    return answer, missing


def _quotes(row: Json, words: list[str], places: dict[int, int]) -> list[Json]:
    """Those quotes that stand in the messages shown."""
    said = [(where_said(row, each), each) for each in words]
    return [
        {"message": places[number], "words": each}
        for number, each in said
        if number is not None and number in places
    ]


def _links(more: Json, known: list[tuple[str, str]], missing: list[str]) -> dict[str, list[str]]:
    found = {
        link: [_id(known, each, missing) for each in more.get(link, ())] for link in ("replaces", "ends")
    }
    return {link: [name for name in names if name] for link, names in found.items()}


def _id(known: list[tuple[str, str]], text: str, missing: list[str]) -> str | None:
    for name, line in reversed(known):  # The prompt's own examples come first.
        if plain(text) in line:
            return name
    missing.append(text)
    return None


def _episode(row: Json) -> Json:
    said = [f"{sender}: {text}" for sender, text in row["messages"] if sender not in OTHERS]
    return {"title": row["messages"][0][1][:60], "text": " ".join(said)[:600]}


def _last_string(line: str) -> tuple[str, bool]:
    """The text of a message, and whether it is cut: then without its ellipsis."""
    strings = _STRINGS.findall(line)
    text = json.loads(strings[-1]) if strings else ""
    return plain(text.removesuffix("…")), text.endswith("…")


def _unquoted(line: str) -> str:
    """A line with its quoted strings as they were before they were quoted."""
    return _STRINGS.sub(lambda found: json.loads(found[0]), line)
