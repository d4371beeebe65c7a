"""Memcell markers: Obsidian comments in a transcript that say which turns a memcell holds.

    %% memcell c-9a1f04: t-12 t-13 · gap %%

The last word is what closed the memcell.
"""

import re
from collections.abc import Iterable

from recollect.memory.line_values import ANCHOR, read_text, write_anchor
from recollect.memory.model import Memcell, TranscriptPart
from recollect.memory.problem import Problem

_memcell = re.compile(rf"%% memcell ({ANCHOR}):((?: {ANCHOR})*)(?: · ({ANCHOR}))? %%").fullmatch
_anchors = re.compile(ANCHOR).findall


def render_markers(part: TranscriptPart) -> dict[int, list[str]]:
    """Markers by the index of the turn that each follows: its last one, but never before an earlier marker.

    A memcell none of whose turns is here follows the marker before it, or precedes all turns (index -1).
    """
    places = {turn.turn_id: place for place, turn in enumerate(part.turns)}
    markers: dict[int, list[str]] = {}
    place = -1
    for memcell in part.memcells:
        last = memcell.turn_ids[-1] if memcell.turn_ids else ""
        place = max(place, places.get(last, -1))
        markers.setdefault(place, []).append(_render_memcell(memcell))
    return markers


def read_markers(comments: Iterable[tuple[int, str]]) -> tuple[tuple[Memcell, ...], list[Problem]]:
    """The memcells among the comments of a file, and what is wrong with the rest."""
    memcells: dict[str, Memcell] = {}
    problems = []
    for line, comment in comments:
        try:
            memcell = _read_memcell(comment)
            if memcell.memcell_id in memcells:
                raise ValueError("another memcell has the same id")
            memcells[memcell.memcell_id] = memcell
        except ValueError as error:
            problems.append(Problem(line, str(error)))
    return tuple(memcells.values()), problems


def _render_memcell(memcell: Memcell) -> str:
    turns = "".join(f" {write_anchor(turn_id)}" for turn_id in memcell.turn_ids)
    reason = f" · {write_anchor(memcell.reason)}" if memcell.reason else ""
    return f"%% memcell {write_anchor(memcell.memcell_id)}:{turns}{reason} %%\n"


def _read_memcell(comment: str) -> Memcell:
    found = _memcell(comment)
    if not found:
        raise ValueError("this comment is not the marker of a memcell")
    turn_ids = tuple(map(read_text, _anchors(found[2])))
    return Memcell(read_text(found[1]), turn_ids, read_text(found[3]) if found[3] else "")
