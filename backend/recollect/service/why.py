"""Why: the chain from an entry to the words it came from."""

from dataclasses import dataclass

from recollect.memory import entry_links
from recollect.memory.identity import turn_number
from recollect.memory.known_entry import KnownEntry
from recollect.memory.model import Memcell
from recollect.service.cited_turns import Quote
from recollect.service.entry_view import EntryView
from recollect.service.ports import TranscriptStore

_MOST = 200
"""Entries in a chain: a skill may have been made of many cases."""
_DEEPEST = 8
_LONGEST_CELL = 2_000


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an entry is there: what made it, of which memcell and turns, or of which entries."""

    known: KnownEntry
    memcell: Memcell | None
    """None for what came of no memcell, or of one that is gone."""
    quotes: tuple[Quote, ...]
    made_of: tuple["Reason", ...] = ()
    left_out: int = 0
    """Origins that are told already, are gone, or would make the chain too long."""

    @property
    def strategy(self) -> str:
        return self.known.strategy or self.known.entry.by.partition(", ")[0]

    @property
    def model(self) -> str | None:
        """The model that wrote it, or `rules`; None where it does not say."""
        return self.known.entry.by.partition(", ")[2] or None


async def why(view: EntryView, transcripts: TranscriptStore, known: KnownEntry) -> Reason:
    """The whole chain, each entry once."""
    return await _reason(view, transcripts, known, {known.entry_id}, _DEEPEST)


async def _reason(
    view: EntryView, transcripts: TranscriptStore, known: KnownEntry, told: set[str], depth: int
) -> Reason:
    (quotes,) = await view.quotes([known])
    named = entry_links.origin_ids(known.entry)
    origins = await view.named(known, named)
    made_of = []
    for entry_id, origin in origins.items():
        if depth == 0 or entry_id in told or len(told) >= _MOST or not await view.may_see(origin):
            continue
        told.add(entry_id)
        made_of.append(await _reason(view, transcripts, origin, told, depth - 1))
    memcell = await _memcell(view.space, transcripts, known)
    return Reason(known, memcell, quotes, tuple(made_of), len(named) - len(made_of))


async def _memcell(space: str, transcripts: TranscriptStore, known: KnownEntry) -> Memcell | None:
    """It ends at or after the last of its turns that the entry cites."""
    for thread_id in dict.fromkeys(source.thread_id for source in known.sources if known.cell):
        places = [
            turn_number(source.turn_id) or 0 for source in known.sources if source.thread_id == thread_id
        ]
        cells = await transcripts.cells(space, thread_id, min(places), max(places) + _LONGEST_CELL)
        found = next((cell for cell in cells if cell.memcell_id == known.cell), None)
        if found is not None:
            return found
    return None
