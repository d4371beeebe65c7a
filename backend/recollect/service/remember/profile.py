"""The profile page of a user follows the facts that hold about them."""

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.domain.entries.entry import FACTS, PROFILE, EntryChange, KnownEntry
from recollect.domain.entries.links import origin_ids
from recollect.domain.entries.profile import HEADINGS, profile_of, shows_facts
from recollect.domain.job import Job
from recollect.domain.model import JsonObject
from recollect.domain.strategy import Cause, causes_of
from recollect.infra.journal.entries import SqlEntryStore
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.entries import in_place_of
from recollect.service.remember.consolidate import NOTHING, leave_receipts
from recollect.service.remember.extract import RULES

_MOST_READ = 200
"""Of a category. Far more than fit on a page, because some may not belong there."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Rebuilds the page from the facts; lines that a person added stay."""

    entries: SqlEntryStore
    locks: OwnerLocks
    clock: Clock

    async def handle(self, job: Job) -> None:
        """For jobs of the strategy profile."""
        space, owner = job.space, str(job.payload["owner"])
        async with self.locks.of(owner):
            known = {
                line.entry_id: line
                for line in await self.entries.list_entries(space, owner, kinds=(PROFILE,))
            }
            own = [line for line in known.values() if not shows_facts(line)]
            deleted = {each.entry_id for each in await self.entries.deletions(space, owner)}
            lines = profile_of(await self._facts(space, owner), own, deleted, self.clock())
            page = {line.entry_id: line for line in lines}
            written = tuple(_as_version(line, known.get(line.entry_id)) for line in page.values())
            gone = tuple(
                line.entry_id for line in known.values() if line.entry_id not in page and line not in own
            )
            await self.entries.apply(
                EntryChange(space, owner, "consolidation", "the facts changed", put=written, remove=gone)
            )
        await leave_receipts(
            self.entries,
            space,
            owner,
            PROFILE,
            [(cause, _told(cause, written)) for cause in causes_of(job)],
        )

    async def _facts(self, space: str, owner: str) -> list[KnownEntry]:
        """Those that may have a place on the page: the newest that hold, and all that a person wrote or pinned."""
        found = await self.entries.of_person(space, owner, FACTS)
        for category in HEADINGS:
            found += await self.entries.of_category(space, owner, FACTS, category, _MOST_READ)
        return list({fact.entry_id: fact for fact in found}.values())


def _told(cause: Cause, lines: Sequence[KnownEntry]) -> JsonObject:
    """The receipt of a memcell: its lines on the page. The same however often the page is made."""
    wrote = [line.entry_id for line in lines if set(origin_ids(line.entry)) & set(cause.entry_ids)]
    if not wrote:
        return {"state": NOTHING, "why": "nothing of it belongs on the page"}
    return {"state": "extracted", "wrote": wrote, "by": RULES}


def _as_version(line: KnownEntry, known: KnownEntry | None) -> KnownEntry:
    return line if known is None else in_place_of(known, line)
