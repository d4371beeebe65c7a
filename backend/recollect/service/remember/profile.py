"""The profile page of a user follows the facts that hold about them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import FACTS, PROFILE, EntryChange, KnownEntry
from recollect.domain.entries.links import SUPERSEDED_BY, UNTIL, origin_ids
from recollect.domain.entries.profile import PROFILE_ATTRIBUTES, USER, in_free_places, profile_of
from recollect.domain.job import Job
from recollect.domain.model import JsonObject
from recollect.domain.strategy import Cause, causes_of
from recollect.infra.journal.entries import SqlEntryStore
from recollect.service.coordination import OwnerLocks
from recollect.service.remember.consolidate import NOTHING, leave_receipts
from recollect.service.remember.extract import RULES

_MOST_READ = 200
"""Per attribute. Far more than fit on a page, because some may not belong there."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Rebuilds the page from the facts; lines that a person wrote or pinned stay.

    A pin is no word: a pinned line whose fact no longer holds is marked like the fact, and not shown.
    """

    entries: SqlEntryStore
    locks: OwnerLocks

    async def handle(self, job: Job) -> None:
        """For jobs of the strategy profile."""
        space, owner = job.space, str(job.payload["owner"])
        async with self.locks.of(owner):
            facts = await self._facts(space, owner)
            known = {
                line.entry_id: line
                for line in await self.entries.list_entries(space, owner, kinds=(PROFILE,))
            }
            theirs = [line for line in known.values() if line.is_edited]
            deletions = await self.entries.deletions(space, owner)
            lines = profile_of(space, owner, [*facts, *theirs])
            page = {line.entry_id: line for line in in_free_places(lines, facts, theirs, deletions)}
            put = [_as_version(line, known.get(line.entry_id)) for line in page.values()]
            put += await self._pinned_lines_in_step(known.values(), page)
            gone = [
                line.entry_id
                for line in known.values()
                if line.entry_id not in page and not line.is_edited and not line.is_pinned
            ]
            written = tuple(put)
            await self.entries.apply(
                EntryChange(
                    space, owner, "consolidation", "the facts changed", put=written, remove=tuple(gone)
                )
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
        found = [
            fact
            for fact in await self.entries.of_person(space, owner, FACTS)
            if fact.entry.extra.get("subject", "").strip().casefold() == USER
            and fact.entry.extra.get("attribute") in PROFILE_ATTRIBUTES
        ]
        for attribute in PROFILE_ATTRIBUTES:
            found += await self.entries.of_subject(
                space, owner, FACTS, USER, attribute, newest=_MOST_READ, holding=True
            )
        return list({fact.entry_id: fact for fact in found}.values())

    async def _pinned_lines_in_step(
        self, lines: Iterable[KnownEntry], page: Collection[str]
    ) -> list[KnownEntry]:
        """Pinned lines that are not on the page any more, each with the marks of its fact."""
        found = []
        for line in lines:
            if not line.is_pinned or line.is_edited or line.entry_id in page:
                continue
            facts = await self.entries.some(line.space, line.owner, origin_ids(line.entry))
            over = next((fact.entry.extra for fact in facts if not fact.holds), None)
            if over is not None:
                marks = {key: over[key] for key in (UNTIL, SUPERSEDED_BY) if key in over}
                entry = replace(line.entry, extra={**line.entry.extra, **marks})
                found.append(replace(line, entry=entry))
        return found


def _told(cause: Cause, lines: Sequence[KnownEntry]) -> JsonObject:
    """The receipt of a memcell: its lines on the page. The same however often the page is made."""
    wrote = [line.entry_id for line in lines if set(origin_ids(line.entry)) & set(cause.entry_ids)]
    if not wrote:
        return {"state": NOTHING, "why": "nothing of it belongs on the page"}
    return {"state": "extracted", "wrote": wrote, "by": RULES}


def _as_version(line: KnownEntry, known: KnownEntry | None) -> KnownEntry:
    if known is None:
        return line
    pinned = {"pinned": "yes"} if known.is_pinned else {}
    entry = replace(line.entry, extra={**line.entry.extra, **pinned})
    return replace(line, entry=entry, path=known.path, revision=known.revision)
