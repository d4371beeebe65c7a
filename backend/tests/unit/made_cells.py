"""Memcells made by hand, and statements about them."""

from collections.abc import Mapping
from typing import Any

from recollect.domain.extraction.draft import CellText, Draft, Extraction, Kind, Quoted
from recollect.domain.extraction.ground import ground
from recollect.domain.model import Role, Turn

NOON = 1_778_241_600_000
"""8 May 2026, a Friday, 12:00 UTC."""
SECOND = 1000

Said = tuple[Role, str]


def cell_of(
    *said: Said | Turn,
    recalled: str = "",
    user_name: str = "Ann",
    time_zone: str = "Europe/Berlin",
    at: int = NOON,
) -> CellText:
    """Turns t-1, t-2, … a second apart; who speaks is `ann`, or called like their role."""
    turns = tuple(
        each if isinstance(each, Turn) else turn_of(number, each[0], each[1], at=at + SECOND * number)
        for number, each in enumerate(said, 1)
    )
    return CellText("ann", turns, user_name, time_zone, recalled)


def turn_of(number: int, role: Role, text: str, *, at: int = NOON, sender: str = "", **more: Any) -> Turn:
    sender = sender or ("ann" if role == "user" else role)
    return Turn(f"t-{number}", f"m-{number}", role, sender, text, at, **more)


def said(text: str) -> CellText:
    """A cell in which Ann says this and nothing else."""
    return cell_of(("user", text))


def statement(text: str, *turns: int, kind: Kind = "facts", **more: Any) -> Draft:
    """Cites the first turn where none is named."""
    return Draft(kind, text, text, NOON, tuple(f"t-{number}" for number in turns or (1,)), **more)


def quoting(text: str, words: str, turn: int = 1, **more: Any) -> Draft:
    """A fact that quotes words of one turn."""
    return statement(text, turn, quotes=(Quoted(f"t-{turn}", words),), **more)


def grounded(cell: CellText, *drafts: Draft, known: Mapping[str, str] | None = None) -> Extraction:
    return ground(Extraction(drafts), cell, known)


def refusal(cell: CellText, draft: Draft, known: Mapping[str, str] | None = None) -> str | None:
    """Why a statement is refused; None where it is kept."""
    result = grounded(cell, draft, known=known)
    assert len(result.drafts) + len(result.refused) == 1
    return result.refused[0].reason if result.refused else None


def call(name: str, arguments: str = "{}", call_id: str | None = None) -> dict[str, Any]:
    return {"id": call_id or name, "type": "function", "function": {"name": name, "arguments": arguments}}
