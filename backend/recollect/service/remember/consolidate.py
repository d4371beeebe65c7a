"""What a memcell holds becomes entries, cell by cell, one owner at a time."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from recollect.domain.entries.entry import (
    CASES,
    FACTS,
    FORESIGHT,
    EntryChange,
    EntryReceipt,
    KnownEntry,
    text_key,
)
from recollect.domain.entries.links import partners
from recollect.domain.entries.merge_drafts import Known, Origin, Outcome, Proposal, proposals_of, remember
from recollect.domain.extraction.case import has_trajectory
from recollect.domain.extraction.draft import Draft, Kind, StoredCell
from recollect.domain.job import Job, JobSpec, NotYet
from recollect.domain.model import JsonObject
from recollect.domain.paths import agent_folder, owner_folder
from recollect.domain.strategy import Cause, Event, Tuning
from recollect.errors import NotFound
from recollect.failpoints import FailPoints
from recollect.infra.journal.cells import SqlCellTexts
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.remember.extract import RULES, Extracted, Extractor

NOTHING = "nothing worth keeping"
NO_MODEL: JsonObject = {"state": "off", "why": "no model is configured"}


async def leave_receipts(
    entries: SqlEntryStore, space: str, owner: str, strategy: str, told: Iterable[tuple[Cause, JsonObject]]
) -> None:
    """Store a receipt with each memcell that caused the run, in place of its last one from this strategy."""
    for cause, detail in told:
        receipt = EntryReceipt(cause.thread, cause.cell, strategy, detail)
        try:
            await entries.apply(EntryChange(space, owner, "extraction", strategy, receipt=receipt))
        except NotFound:
            continue  # Its thread was forgotten meanwhile, with all of its receipts.


_KINDS: dict[str, Kind] = {"episode": "episodes", "facts": "facts", "foresight": "foresight"}


@dataclass(frozen=True, slots=True)
class Remembering:
    """Runs the strategies that work on memcells.

    A strategy that runs twice leaves the same entries. What a person wrote keeps its words, and wins over all that was
    said before it; what they deleted does not come back, and a user who wants no memory gets none.
    """

    cells: SqlCellTexts
    entries: SqlEntryStore
    extractor: Extractor
    people: SqlPresetStore
    tuning: Callable[[], Tuning]
    clock: Clock
    locks: OwnerLocks
    fail_points: FailPoints

    async def handle(self, job: Job) -> None:
        """For jobs of the strategies episode, facts and foresight."""
        strategy, memcell = str(job.payload["strategy"]), str(job.payload["cell"])
        stored = None if job.thread is None else await self.cells.cell(job.thread, memcell)
        if stored is None:
            return  # Forgotten meanwhile.
        owner = owner_folder(job.space, stored.thread.user_id)
        preferences = await self.people.preferences(job.space, stored.thread.user_id)
        off = None if preferences.auto_memory else {"state": "off", "why": "auto_memory is off"}
        off = off or await self._without_model(strategy, stored, owner)
        if off is not None:
            cause = Cause(stored.thread.ref, memcell)
            await leave_receipts(self.entries, job.space, owner, strategy, [(cause, off)])
            return
        if not stored.is_written:
            raise NotYet("its transcript is being written")
        name = _user_name(stored)
        extracted = await self.extractor.user_memory(stored, stored.text(name, preferences.time_zone))
        kind = _KINDS[strategy]
        origin = Origin(job.space, owner, strategy, extracted.by, stored, name)
        async with self.locks.of(owner):
            await self._write(origin, extracted.extraction.of(kind), _told(extracted, kind))

    async def _without_model(self, strategy: str, stored: StoredCell, owner: str) -> JsonObject | None:
        """Why a strategy that needs a model leaves what is there. None where it has one, or needs none.

        Without a model an episode is written where none is, or where its words were edited since.
        """
        if self.extractor.model_calls is not None:
            return None
        if strategy == "episode":
            made = await self.entries.of_cell(stored.thread.space, owner, stored.memcell_id, strategy)
            by_model = any(known.entry.by != f"{strategy}, {RULES}" for known in made)
            if not by_model or any(turn.edited for turn in stored.turns):
                return None
        return NO_MODEL

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
        new = proposals_of(drafts, origin)
        outcome = remember(new, await self._known(origin, new))
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
                receipt=EntryReceipt(cell.thread.ref, cell.memcell_id, origin.strategy, detail),
                extra_jobs=self._jobs_after(event, origin, tuple(outcome.put)) if tells else (),
            )
        )
        self.fail_points.reach("remember.applied")
        return outcome

    def _jobs_after(self, event: Event, origin: Origin, changed: tuple[str, ...]) -> tuple[JobSpec, ...]:
        cause = Cause(origin.cell.thread.ref, origin.cell.memcell_id, changed)
        return tuple(self.tuning().after(event, origin.space, origin.owner, self.clock(), cause))

    async def _known(self, origin: Origin, new: Sequence[Proposal]) -> Known:
        space, owner, cell = origin.space, origin.owner, origin.cell.memcell_id
        of_cell = await self.entries.of_cell(space, owner, cell, origin.strategy)
        named = [name for proposal in new for name in (*proposal.replaces, *proposal.ends)]
        named += partners(*(each.entry for each in of_cell))
        return Known(
            of_cell,
            alike={proposal.known.entry_id: await self._alike(proposal.known) for proposal in new},
            linked=await self.entries.linked(space, owner, named),
            deletions=await self.entries.deletions(space, owner, cell),
        )

    async def _alike(self, entry: KnownEntry) -> list[KnownEntry]:
        """Those with the same text."""
        if entry.kind not in (FACTS, FORESIGHT):
            return []
        return await self.entries.with_text(entry.space, entry.owner, entry.kind, text_key(entry.entry.text))


def _user_name(stored: StoredCell) -> str:
    user_id = stored.thread.user_id
    return "The user" if user_id == "me" else user_id


def _told(extracted: Extracted, kind: Kind) -> JsonObject:
    refused = Counter(each.reason for each in extracted.extraction.refused if each.kind == kind)
    told: JsonObject = {"by": extracted.by, "cost": extracted.cost, "refused": dict(refused)}
    told["secrets_masked"] = extracted.secrets_masked
    if extracted.extraction.is_missing(kind):
        told |= {
            "state": "failed",
            "why": "the model's answer was cut off; 'recollect reprocess --ask-again' asks it again",
        }
    return {name: value for name, value in told.items() if value}


CASE = "case"
_KNOWN: JsonObject = {"state": "known", "why": "there is a case of these turns"}


@dataclass(frozen=True, slots=True)
class Cases:
    """Each stretch of work with tools makes one case, whether its memcell or its chat turn comes first."""

    cells: SqlCellTexts
    entries: SqlEntryStore
    people: SqlPresetStore
    extractor: Extractor
    remembering: Remembering

    async def handle(self, job: Job) -> None:
        """For jobs of the strategy case."""
        memcell = str(job.payload["cell"])
        stored = None if job.thread is None else await self.cells.cell(job.thread, memcell)
        if stored is None:
            return  # Forgotten meanwhile.
        told = await self._learn(stored)
        if "by" not in told:
            owner = agent_folder(job.space, stored.thread.agent_id)
            cause = Cause(stored.thread.ref, stored.memcell_id)
            await leave_receipts(self.entries, job.space, owner, CASE, [(cause, told)])

    async def from_turns(self, job: Job) -> JsonObject:
        """For the work on skills that follows a chat turn: its receipt."""
        turn_ids = [str(turn_id) for turn_id in job.payload["turns"]]
        stored = None if job.thread is None else await self.cells.stretch(job.thread, turn_ids)
        return {"state": "forgotten"} if stored is None else await self._learn(stored)

    async def _learn(self, stored: StoredCell) -> JsonObject:
        space, thread = stored.thread.space, stored.thread
        preferences = await self.people.preferences(space, thread.user_id)
        if not preferences.auto_skills:
            return {"state": "off", "why": "auto_skills is off"}
        cell = stored.text(thread.user_id, preferences.time_zone)
        if not has_trajectory(cell):
            return {"state": NOTHING, "why": "no tool was used"}
        if self.extractor.model_calls is None:
            return NO_MODEL
        if not stored.is_written:
            raise NotYet("its transcript is being written")
        if await self._is_known(stored):
            return _KNOWN
        extracted = await self.extractor.case(stored, cell)
        origin = Origin(space, agent_folder(space, thread.agent_id), CASE, extracted.by, stored)
        # While the model was asked, another stretch may have come first.
        outcome = await self.remembering.write_case(
            origin, extracted.extraction.of("cases"), _case_told(extracted), lambda: self._is_known(stored)
        )
        if outcome is None:
            return _KNOWN
        return {"state": "extracted" if outcome.put else NOTHING, **outcome.as_json(), "by": extracted.by}

    async def _is_known(self, stored: StoredCell) -> bool:
        """Another stretch made a case of the calls in this one."""
        calls = [turn.turn_id for turn in stored.turns if turn.tool_calls]
        citing = await self.entries.citing(stored.thread.ref, calls)
        return any(each.kind == CASES and each.cell != stored.memcell_id for each in citing)


def _case_told(extracted: Extracted) -> JsonObject:
    refused = len(extracted.extraction.refused)
    told: JsonObject = {"by": extracted.by, "cost": extracted.cost, "refused": refused}
    told["secrets_masked"] = extracted.secrets_masked
    return {name: value for name, value in told.items() if value}
