"""What a memcell holds becomes entries, cell by cell, one owner at a time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import (
    CASES,
    FACTS,
    FORESIGHT,
    PROFILE,
    EntryChange,
    EntryReceipt,
    KnownEntry,
    statement_key,
    text_key,
)
from recollect.domain.entries.links import origin_ids, partners
from recollect.domain.entries.merge_drafts import Known, Origin, Outcome, Proposal, proposals_of, remember
from recollect.domain.extraction.case import has_trajectory
from recollect.domain.extraction.draft import CellText, Draft, Extraction, Kind, StoredCell
from recollect.domain.extraction.prompts import MOST_READ, is_ahead, known_without, nearest
from recollect.domain.job import Job, JobSpec, NotYet
from recollect.domain.model import JsonObject
from recollect.domain.paths import agent_folder, owner_folder
from recollect.domain.people import Preferences
from recollect.domain.strategy import Cause, Event, Tuning, strategies_of
from recollect.errors import NotFound
from recollect.failpoints import FailPoints
from recollect.infra.journal.cells import SqlCellTexts
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.models.cached_model_calls import ExtractionFailed
from recollect.service.remember.extract import RULES, Extracted, Extractor

NOTHING = "nothing worth keeping"
NO_MODEL: JsonObject = {"state": "off", "why": "no model is configured"}
OFF: JsonObject = {"state": "off", "why": "the strategy is switched off"}


async def leave_receipts(
    entries: SqlEntryStore, space: str, owner: str, strategy: str, told: Iterable[tuple[Cause, JsonObject]]
) -> None:
    """Store a receipt with each memcell that caused the run, in place of its last one from this strategy."""
    for cause, detail in told:
        receipt = EntryReceipt(cause.thread, cause.cell, strategy, detail)
        try:
            await entries.apply(EntryChange(space, owner, "extraction", strategy, receipts=(receipt,)))
        except NotFound:
            continue  # Its thread was forgotten meanwhile, with all of its receipts.


CASE = "case"
_KINDS: dict[str, Kind] = {"episode": "episodes", "facts": "facts", "foresight": "foresight", CASE: "cases"}
_KNOWN: JsonObject = {"state": "known", "why": "there is a case of these turns"}
_CUT_OFF = "the model's answer was cut off; a retry of the job or 'recollect reprocess' asks it again"
_EVENTS: dict[str, Event] = {"facts": "facts changed", CASE: "case written"}


FactsLike = Callable[[str, str, Sequence[str]], Awaitable[list[str]]]
_MOST_SAID, _SAID_CHARS = 20, 500
"""How many user messages, and how many characters of each, are embedded to find similar facts."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One job of a memcell: whose it is, and what each of its strategies is to do."""

    stored: StoredCell
    user: str
    agent: str
    preferences: Preferences
    wanted: list[str]
    """Strategies that work now, in their order."""
    off: dict[str, JsonObject]
    """What the others tell."""

    def owner_of(self, strategy: str) -> str:
        return self.agent if strategy == CASE else self.user

    def receipts_of(self, owner: str) -> list[EntryReceipt]:
        thread, cell = self.stored.thread.ref, self.stored.memcell_id
        told = {name: detail for name, detail in self.off.items() if self.owner_of(name) == owner}
        return [EntryReceipt(thread, cell, name, detail) for name, detail in told.items()]


@dataclass(frozen=True, slots=True)
class _Planned:
    """What one strategy changes."""

    outcome: Outcome
    receipt: EntryReceipt
    jobs: tuple[JobSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Remembering:
    """Runs the strategies that work on memcells: one job and one answer of the model for all of them.

    A job that runs twice leaves the same entries. What a person wrote keeps its words, and wins over all that was said
    before it; what they deleted does not come back, and a user who wants no memory gets none.
    """

    cells: SqlCellTexts
    entries: SqlEntryStore
    extractor: Extractor
    people: SqlPresetStore
    tuning: Callable[[], Tuning]
    clock: Clock
    locks: OwnerLocks
    fail_points: FailPoints
    facts_like: FactsLike
    """Ids of a user's facts, the nearest in meaning to these texts first."""

    async def handle(self, job: Job) -> None:
        """For the job of a memcell. Raises ExtractionFailed once the receipts say why the model gave nothing."""
        stored = None if job.thread is None else await self.cells.cell(job.thread, str(job.payload["cell"]))
        if stored is None:
            return  # Forgotten meanwhile.
        run = await self._run_of(job, stored)
        cell = stored.text(_user_name(stored), run.preferences.time_zone)
        failed: ExtractionFailed | None = None
        extracted = Extracted(Extraction(), RULES)
        if run.wanted:
            if not stored.is_written:
                raise NotYet("its transcript is being written")
            try:
                extracted = await self.extractor.memcell(stored, cell, await self._known_facts(run, cell))
            except ExtractionFailed as error:
                failed, extracted = error, await self.extractor.without_model(cell)
                await self._leave_to_rules(run, str(error))
        told = {each: _told(extracted, _KINDS[each]) for each in run.wanted}
        for each in run.wanted[1:]:
            told[each].pop("cost", None)
        if any(detail.get("state") == "failed" for detail in told.values()):
            failed = ExtractionFailed(_CUT_OFF)
        if failed is not None:
            told = {each: {**detail, "why": str(failed)} for each, detail in told.items()}
        await self._make(run, extracted, told)
        if failed is not None:
            raise failed

    async def _run_of(self, job: Job, stored: StoredCell) -> _Run:
        space, thread = job.space, stored.thread
        preferences = await self.people.preferences(space, thread.user_id)
        user, agent = owner_folder(space, thread.user_id), agent_folder(space, thread.agent_id)
        run = _Run(stored, user, agent, preferences, [], {})
        for name in strategies_of(job):
            off = OFF if not job.payload.get("asked") and name not in self.tuning().triggers else None
            off = off or await self._why_not(name, run)
            if off is None:
                run.wanted.append(name)
            else:
                run.off[name] = off
        return run

    async def _why_not(self, strategy: str, run: _Run) -> JsonObject | None:
        """Why the strategy is skipped; None: run it."""
        stored = run.stored
        if strategy == CASE:
            if not run.preferences.auto_skills:
                return {"state": "off", "why": "auto_skills is off"}
            if not any(turn.tool_calls for turn in stored.turns):
                return {"state": NOTHING, "why": "no tool was used"}
        elif not run.preferences.auto_memory:
            return {"state": "off", "why": "auto_memory is off"}
        if self.extractor.model_calls is None and (
            strategy != "episode" or await self._has_models_episode(run)
        ):
            return NO_MODEL
        return _KNOWN if strategy == CASE and await self.has_case(stored) else None

    async def _has_models_episode(self, run: _Run) -> bool:
        """Whether a model told the episode, in words that still hold: one made without a model takes no such place."""
        stored = run.stored
        made = await self.entries.of_cell(stored.thread.space, run.user, stored.memcell_id, "episode")
        by_model = any(known.entry.by != f"episode, {RULES}" for known in made)
        return by_model and not any(turn.edited for turn in stored.turns)

    async def _leave_to_rules(self, run: _Run, why: str) -> None:
        """Only an episode is made without a model; what else is there stays."""
        keeps = [] if await self._has_models_episode(run) else ["episode"]
        run.off.update({name: {"state": "failed", "why": why} for name in run.wanted if name not in keeps})
        run.wanted[:] = [name for name in run.wanted if name in keeps]

    async def _known_facts(self, run: _Run, cell: CellText) -> list[KnownEntry]:
        """What is known that the cell may touch: the nearest facts, those on the profile's page, and plans ahead."""
        if self.extractor.model_calls is None:
            return []
        space, stored = run.stored.thread.space, run.stored
        facts = await self.entries.list_entries(space, run.user, kinds=(FACTS,), limit=MOST_READ)
        lines = await self.entries.list_entries(space, run.user, kinds=(PROFILE,), holding=True)
        theirs = [line for line in lines if line.is_edited]
        page = {origin for line in lines if not line.is_edited for origin in origin_ids(line.entry)}
        older = await self.entries.some(space, run.user, sorted(page - {fact.entry_id for fact in facts}))
        last = max((turn.timestamp for turn in cell.turns), default=0)
        plans = await self.entries.list_entries(space, run.user, kinds=(FORESIGHT,), limit=MOST_READ)
        plans = [plan for plan in plans if is_ahead(plan, last)]
        known = known_without(stored.memcell_id, [*facts, *older, *theirs, *plans])
        said = [
            turn.content[:_SAID_CHARS] for turn in cell.turns if turn.role == "user" and turn.content.strip()
        ]
        alike = await self.facts_like(space, stored.thread.user_id, said[-_MOST_SAID:]) if known else []
        page |= {each.entry_id for each in (*theirs, *plans)}
        return await asyncio.to_thread(nearest, cell, known, page, alike)

    async def _make(self, run: _Run, extracted: Extracted, told: dict[str, JsonObject]) -> None:
        """Two changes at most: one of the user's entries, one of the agent's."""
        space, stored = run.stored.thread.space, run.stored
        for owner in dict.fromkeys((run.user, run.agent)):
            async with self.locks.of(owner):
                # While the model was asked, a chat's turn may have come first.
                if owner == run.agent and CASE in run.wanted and await self.has_case(stored):
                    run.wanted.remove(CASE)
                    run.off[CASE] = _KNOWN
                plans: list[_Planned] = []
                for each in run.wanted:
                    if run.owner_of(each) == owner:
                        origin = Origin(space, owner, each, extracted.by, stored)
                        drafts = extracted.extraction.of(_KINDS[each])
                        plans.append(await self._planned(origin, drafts, told[each], plans))
                asks = extracted.extraction.asks if owner == run.user else None
                await self._apply(space, owner, stored, plans, run.receipts_of(owner), asks)

    async def has_case(self, stored: StoredCell) -> bool:
        """Whether another stretch made a case of the calls in this one."""
        calls = [turn.turn_id for turn in stored.turns if turn.tool_calls]
        citing = await self.entries.citing(stored.thread.ref, calls)
        return any(each.kind == CASES and each.cell != stored.memcell_id for each in citing)

    async def write_case(self, origin: Origin, drafts: Sequence[Draft], told: JsonObject) -> Outcome | None:
        """For the turns of a chat. None where another stretch made a case of them first."""
        async with self.locks.of(origin.owner):
            if await self.has_case(origin.cell):
                return None
            plan = await self._planned(origin, drafts, told)
            await self._apply(origin.space, origin.owner, origin.cell, [plan])
            return plan.outcome

    async def _apply(
        self,
        space: str,
        owner: str,
        cell: StoredCell,
        plans: Sequence[_Planned],
        receipts: Sequence[EntryReceipt] = (),
        asks: tuple[str, ...] | None = None,
    ) -> None:
        """All that a memcell changes in one owner's entries, at once."""
        receipts = [*(plan.receipt for plan in plans), *receipts]
        if not receipts:
            return
        change = EntryChange(
            space,
            owner,
            "extraction",
            f"{', '.join(plan.receipt.strategy for plan in plans)} of {cell.memcell_id}",
            put=tuple({name: each for plan in plans for name, each in plan.outcome.put.items()}.values()),
            remove=tuple(entry_id for plan in plans for entry_id in plan.outcome.remove),
            receipts=tuple(receipts),
            extra_jobs=tuple(job for plan in plans for job in plan.jobs),
            asks=asks,
        )
        try:
            await self.entries.apply(change)
        except NotFound:
            if plans and await self.cells.cell(cell.thread.ref, cell.memcell_id) is not None:
                raise  # A message that they cite was forgotten meanwhile: the next try reads the rest.
            return  # Its thread was forgotten meanwhile, with all of its receipts.
        self.fail_points.reach("remember.applied")

    async def _planned(
        self, origin: Origin, drafts: Sequence[Draft], told: JsonObject, before: Sequence[_Planned] = ()
    ) -> _Planned:
        """What a strategy changes, of one cell, in what its owner has after the changes `before`."""
        cell = origin.cell
        new = proposals_of(drafts, origin)
        known = await self._compared(origin, new)
        for plan in before:
            known = known.after(plan.outcome)
        outcome = remember(new, known)
        detail = {"state": "extracted" if new else NOTHING, **told, **outcome.as_json()}
        receipt = EntryReceipt(cell.thread.ref, cell.memcell_id, origin.strategy, detail)
        event = _event_of(origin.strategy, outcome, any(plan.jobs for plan in before))
        jobs = () if event is None else self._jobs_after(event, origin, tuple(outcome.put))
        return _Planned(outcome, receipt, jobs)

    def _jobs_after(self, event: Event, origin: Origin, changed: tuple[str, ...]) -> tuple[JobSpec, ...]:
        cause = Cause(origin.cell.thread.ref, origin.cell.memcell_id, changed)
        return tuple(self.tuning().after(event, origin.space, origin.owner, self.clock(), cause))

    async def _compared(self, origin: Origin, new: Sequence[Proposal]) -> Known:
        space, owner, cell = origin.space, origin.owner, origin.cell.memcell_id
        of_cell = await self.entries.of_cell(space, owner, cell, origin.strategy)
        named = [name for proposal in new for name in (*proposal.replaces, *proposal.ends)]
        named += partners(*(each.entry for each in of_cell))
        linked = await self.entries.linked(space, owner, named)
        said = await self.entries.last_said(space, owner, [each.entry_id for each in linked])
        turns = sorted({source.turn_id for proposal in new for source in proposal.known.sources})
        citing = await self.entries.citing(origin.cell.thread.ref, turns)
        return Known(
            of_cell,
            alike={proposal.known.entry_id: await self._alike(proposal.known) for proposal in new},
            linked=[replace(each, repeated=said.get(each.entry_id, 0)) for each in linked],
            theirs=[each for each in citing if each.owner == owner and each.is_edited],
            deletions=await self.entries.deletions(space, owner, cell),
            deleted=await self.entries.deleted_statements(
                space, owner, [statement_key(proposal.known) for proposal in new]
            ),
        )

    async def _alike(self, entry: KnownEntry) -> list[KnownEntry]:
        """Those with the same text."""
        if entry.kind not in (FACTS, FORESIGHT):
            return []
        return await self.entries.with_text(entry.space, entry.owner, entry.kind, text_key(entry.entry.text))


def _event_of(strategy: str, outcome: Outcome, is_told: bool) -> Event | None:
    """What the outcome sets off. A plan may replace or end a fact, which the facts of its cell may have told already."""
    if strategy in _EVENTS:
        return _EVENTS[strategy] if outcome.put or outcome.remove else None
    changes_facts = any(each.kind == FACTS for each in outcome.put.values())
    return "facts changed" if changes_facts and not is_told else None


def _user_name(stored: StoredCell) -> str:
    user_id = stored.thread.user_id
    return "The user" if user_id == "me" else user_id


def _told(extracted: Extracted, kind: Kind) -> JsonObject:
    refused = Counter(each.reason for each in extracted.extraction.refused if each.kind == kind)
    told: JsonObject = {"by": extracted.by, "cost": extracted.cost, "refused": dict(refused)}
    told |= {"secrets_masked": extracted.secrets_masked, "messages_cut": extracted.messages_cut}
    if extracted.extraction.is_missing(kind):
        told |= {"state": "failed", "why": _CUT_OFF}
    return {name: value for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class Cases:
    """Each stretch of work with tools makes one case, whether its memcell or its chat turn comes first."""

    cells: SqlCellTexts
    people: SqlPresetStore
    extractor: Extractor
    remembering: Remembering

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
        if await self.remembering.has_case(stored):
            return _KNOWN
        extracted = await self.extractor.case(stored, cell)
        origin = Origin(space, agent_folder(space, thread.agent_id), CASE, extracted.by, stored)
        # While the model was asked, another stretch may have come first.
        outcome = await self.remembering.write_case(
            origin, extracted.extraction.of("cases"), _told(extracted, "cases")
        )
        if outcome is None:
            return _KNOWN
        return {"state": "extracted" if outcome.put else NOTHING, **outcome.as_json(), "by": extracted.by}
