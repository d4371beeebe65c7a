"""Remember: what a memcell holds becomes entries, cell by cell, one owner's one after another."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from recollect.errors import EmbedderUnavailable
from recollect.failpoints import FailPoints
from recollect.memory import consolidate, succession
from recollect.memory.entry_links import successor_ids
from recollect.memory.extraction.draft import FUNCTIONAL, Draft, Kind
from recollect.memory.job import Job, NotYet
from recollect.memory.known_entry import (
    FACTS,
    FORESIGHT,
    EntryChange,
    EntryJob,
    EntryReceipt,
    KnownEntry,
)
from recollect.memory.matters import matter_key, matter_of, same_matter
from recollect.memory.model import JsonObject
from recollect.memory.profile import USER
from recollect.memory.remembered import Known, Origin, Outcome, entries_of, remember
from recollect.memory.stored_cell import StoredCell
from recollect.memory.strategy import Cause, Event, Tuning
from recollect.memory.text_key import text_key
from recollect.memory.vault_paths import owner_folder
from recollect.service.extract import Extracted, Extractor
from recollect.service.owner_locks import OwnerLocks
from recollect.service.ports import CellTexts, Clock, Embedder, EntryStore, PeopleStore
from recollect.service.strategy_receipts import NOTHING

_KINDS: dict[str, Kind] = {"episode": "episodes", "facts": "facts", "foresight": "foresight"}
_MOST_ALIKE = 200
"""So many of the newest that may say the same are compared."""
_MOST_PERHAPS = 5
"""So many of those whose words leave it open are compared by their meaning."""
_MOST_READ_PERHAPS = 4 * _MOST_PERHAPS
"""Of these some fall out: they hold no longer, or are about another day."""

Pair = frozenset[str]


@dataclass(frozen=True, slots=True)
class Remembering:
    """Runs the strategies that work on memcells.

    A strategy that runs twice leaves the same entries. Where a person has the word, extraction has none: what they
    wrote stays, what they deleted does not come back, and who wants no memory gets none.
    """

    cells: CellTexts
    entries: EntryStore
    extractor: Extractor
    people: PeopleStore
    embedder: Embedder | None
    tuning: Callable[[], Tuning]
    clock: Clock
    locks: OwnerLocks
    fail_points: FailPoints

    async def handle(self, job: Job) -> None:
        """For jobs of the strategies episode, facts and foresight."""
        strategy, memcell = str(job.payload["strategy"]), str(job.payload["cell"])
        stored = await self.cells.cell(job.space, str(job.thread_id), memcell)
        if stored is None:
            return  # Forgotten meanwhile.
        owner = owner_folder(job.space, stored.thread.user_id)
        preferences = await self.people.preferences(job.space, stored.thread.user_id)
        if not preferences.auto_memory:
            await self.leave_receipt(stored, owner, strategy, {"state": "off", "why": "auto_memory is off"})
            return
        if not stored.is_written:
            raise NotYet("its transcript is being written")
        name = await self._user_name(stored, owner)
        extracted = await self.extractor.user_memory(stored, stored.text(name, preferences.time_zone))
        kind = _KINDS[strategy]
        origin = Origin(job.space, owner, strategy, extracted.by, stored, name)
        async with self.locks.of(owner):
            await self._write(origin, extracted.extraction.of(kind), _told(extracted, kind))

    async def write_case(
        self,
        origin: Origin,
        drafts: Sequence[Draft],
        told: JsonObject,
        unless: Callable[[], Awaitable[bool]],
    ) -> Outcome | None:
        """For agents: the same, without what only facts need. None where `unless` says so once it is their turn."""
        async with self.locks.of(origin.owner):
            if await unless():
                return None
            return await self._write(origin, drafts, told, event="case written")

    async def _write(
        self, origin: Origin, drafts: Sequence[Draft], told: JsonObject, event: Event = "facts changed"
    ) -> Outcome:
        space, owner, cell = origin.space, origin.owner, origin.cell
        new = entries_of(drafts, origin)
        known = Known(
            of_cell=await self.entries.of_cell(space, owner, cell.memcell_id, origin.strategy),
            alike={entry.entry_id: await self._alike(entry) for entry in new},
            buried=await self.entries.buried(space, owner, cell.memcell_id),
        )
        same = await self._same_meaning(new, known)
        outcome = remember(new, known, lambda one, other: frozenset([one.entry_id, other.entry_id]) in same)
        await self._close_gaps(outcome, known)
        detail = {"state": "extracted" if new else NOTHING, **told, **outcome.as_json()}
        changed = bool(outcome.put or outcome.remove)
        tells = changed and (origin.strategy == "facts" or event == "case written")
        await self.entries.apply(
            EntryChange(
                space,
                owner,
                "extraction",
                f"{origin.strategy} of {cell.memcell_id}",
                put=tuple(outcome.put.values()),
                remove=tuple(outcome.remove),
                receipt=EntryReceipt(cell.thread.thread_id, cell.memcell_id, origin.strategy, detail),
                extra_jobs=self._follow_ups(event, origin, tuple(outcome.put)) if tells else (),
            )
        )
        self.fail_points.reach("remember.applied")
        return outcome

    def _follow_ups(self, event: Event, origin: Origin, changed: tuple[str, ...]) -> tuple[EntryJob, ...]:
        cause = Cause(origin.cell.thread.thread_id, origin.cell.memcell_id, changed)
        return tuple(self.tuning().after(event, origin.space, origin.owner, self.clock(), cause))

    async def _alike(self, entry: KnownEntry) -> list[KnownEntry]:
        """Those with the same words, or about the same matter, and the newest about the same attribute of the same
        subject: other facts of what is had once are one matter already."""
        if entry.kind not in (FACTS, FORESIGHT):
            return []
        space, owner, extra = entry.space, entry.owner, entry.entry.extra
        found = await self.entries.with_text(space, owner, entry.kind, text_key(entry.entry.text))
        if matter_of(entry) is not None:
            found += await self.entries.of_matter(space, owner, matter_key(entry), newest=_MOST_ALIKE)
        subject, attribute = extra.get("subject", ""), extra.get("attribute", "")
        if entry.kind != FACTS or attribute not in FUNCTIONAL:
            said = await self.entries.wordings(space, owner, entry.kind, subject, attribute, _MOST_ALIKE)
            perhaps = 0 if self.embedder is None else _MOST_READ_PERHAPS
            worth = consolidate.worth_comparing(entry, said, perhaps)
            found += await self.entries.some(space, owner, worth)
        alike = {each.entry_id: each for each in found}
        # Older than all of these may be what a person wrote, which holds instead of them.
        named = [name for each in alike.values() for name in successor_ids(each.entry) if name not in alike]
        holding = await self.entries.some(entry.space, entry.owner, named) if named else []
        return [*alike.values(), *holding]

    async def _same_meaning(self, new: Sequence[KnownEntry], known: Known) -> set[Pair]:
        """Pairs that mean the same, of those whose words leave it open. Without a model none do."""
        if self.embedder is None:
            return set()
        same: set[Pair] = set()
        for entry in new:
            alike = sorted(known.alike[entry.entry_id], key=lambda other: other.entry.when)
            perhaps = [other for other in alike if consolidate.is_perhaps_same(entry, other)]
            if not perhaps:
                continue
            try:
                texts = [entry.entry.text, *(other.entry.text for other in perhaps[-_MOST_PERHAPS:])]
                vectors = await self.embedder.embed(texts)
            except EmbedderUnavailable:
                return same
            likeness = np.asarray(vectors[1:] @ vectors[0])
            same |= {
                frozenset([entry.entry_id, other.entry_id])
                for other, cosine in zip(perhaps[-_MOST_PERHAPS:], likeness, strict=True)
                if cosine >= consolidate.SAME_MEANING
            }
        return same

    async def _close_gaps(self, outcome: Outcome, known: Known) -> None:
        """What a fact had superseded that is removed, or says something else now, holds again."""
        for entry in known.of_cell:
            now = outcome.put.get(entry.entry_id)
            is_gone = entry.entry_id in outcome.remove or (now is not None and not same_matter([now], entry))
            if is_gone and matter_of(entry) is not None:
                about = await self.entries.of_matter(entry.space, entry.owner, matter_key(entry))
                rest = {each.entry_id: each for each in about}
                same = same_matter({**rest, **outcome.put}.values(), entry)
                left = {each.entry_id: each for each in same if each.entry_id not in outcome.remove}
                for marked in succession.in_succession(left.values()):
                    if marked != left[marked.entry_id]:
                        outcome.put[marked.entry_id] = marked

    async def _user_name(self, stored: StoredCell, owner: str) -> str:
        """What was known before this cell: what it tells itself must not change what its other strategies ask."""
        named = await self.entries.of_subject(stored.thread.space, owner, FACTS, USER, "name")
        mine = {each.entry_id for each in named if each.cell == stored.memcell_id and not each.is_edited}
        holding = [
            each.entry.extra["value"]
            for each in named
            if each.entry_id not in mine
            and (each.holds or each.entry.extra["superseded_by"] in mine)
            and each.entry.extra.get("value")
        ]
        user_id = stored.thread.user_id
        return holding[-1] if holding else ("The user" if user_id == "me" else user_id)

    async def leave_receipt(self, stored: StoredCell, owner: str, strategy: str, detail: JsonObject) -> None:
        """For a strategy that found nothing to do."""
        receipt = EntryReceipt(stored.thread.thread_id, stored.memcell_id, strategy, detail)
        await self.entries.apply(
            EntryChange(stored.thread.space, owner, "extraction", strategy, receipt=receipt)
        )


def _told(extracted: Extracted, kind: Kind) -> JsonObject:
    refused: dict[str, int] = {}
    for each in extracted.extraction.refused:
        if each.kind == kind:
            refused[each.reason] = refused.get(each.reason, 0) + 1
    told: JsonObject = {"by": extracted.by, "cost": extracted.cost, "refused": refused}
    if extracted.extraction.is_missing(kind):
        told |= {
            "state": "failed",
            "why": "the model's answer was cut off; 'recollect reprocess --ask-again' asks it anew",
        }
    return {name: value for name, value in told.items() if value}
