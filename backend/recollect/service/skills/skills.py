"""Skills: files that agents read, made of like cases, better with every new one."""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from recollect.domain.entries.entry import CASES, Deletion, KnownEntry, skill_deletion_id
from recollect.domain.extraction.skill import (
    SKILL_SCHEMA,
    Case,
    Skill,
    basis_of,
    case_of,
    is_named_after,
    makes_a_skill,
    parse_skill_answer,
    same_skill,
    similar_cases,
    skill_messages,
    unwritten,
)
from recollect.domain.job import Job
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.paths import owner_of_path, skill_folder
from recollect.domain.strategy import Cause, causes_of
from recollect.infra.journal.cells import SqlModelAnswers
from recollect.infra.journal.entries import SqlEntryStore
from recollect.service.models.cached_model_calls import CachedModelCalls, ExtractionFailed, Question
from recollect.service.remember.consolidate import NO_MODEL, NOTHING, leave_receipts
from recollect.service.remember.extract import PromptTexts
from recollect.service.skills.files import PlacedSkill, SkillShelf, without_copies


@dataclass(frozen=True, slots=True)
class SkillOrder:
    """What a skill is to be made of: the one that there is, if any, and all of its cases, the oldest first."""

    space: str
    owner: str
    thread: ThreadRef
    """Of the newest case."""
    cases: Sequence[Case]
    skill: Skill | None = None
    taken: Collection[str] = ()
    """Names that other skills have."""


SKILL = "skill"
_UNWRITTEN = "unwritten"
"""The basis of a skill whose text is still to be written: that of no cases."""
_MOST_CASES = 500
_case_ids = re.compile(r"\bca-[0-9a-f]{12}\b").findall
_LEFT_OF_IT = "was made of a forgotten case: what is left of it is gone"
_NO_CHANGE: JsonObject = {"state": NOTHING, "why": "it changes no skill"}
_DELETED: JsonObject = {"state": NOTHING, "why": "its skill was deleted by a person"}
_MISSING: JsonObject = {"state": NOTHING, "why": "the file of its skill is missing, or can't be read"}


@dataclass(slots=True)
class _Agent:
    """One agent's cases and skills while a job works on them."""

    space: str
    owner: str
    known: dict[str, KnownEntry]
    """Cases by their ids, the oldest first."""
    placed: dict[str, PlacedSkill]
    """Skills by their names, without the copies of them that a person made."""
    folders: frozenset[str]
    """Folders that hold a file of a skill already."""
    deletions: dict[str, Deletion]
    """Of skills that a person deleted, by their ids."""
    missing: frozenset[str]
    """Cases of skills whose files are gone or can't be read; whether a person removed them is not known yet."""
    deleted_cases: dict[str, Deletion] = field(init=False)
    """The deletion that each deleted skill's case is in."""
    told: dict[str, JsonObject] = field(default_factory=dict)
    """What the receipts of cases are to say, by their ids."""

    def __post_init__(self) -> None:
        self.deleted_cases = {
            case_id: deletion for deletion in self.deletions.values() for case_id in deletion.turn_ids
        }

    def cases_by_user(self) -> list[list[Case]]:
        by_user: defaultdict[str, list[Case]] = defaultdict(list)
        for known in self.known.values():
            by_user[known.entry.extra.get("user", "")].append(case_of(known.entry, _link(self.owner, known)))
        return list(by_user.values())

    @property
    def skills(self) -> dict[str, Skill]:
        return {name: placed.skill for name, placed in self.placed.items()}

    def taken(self, but: str = "") -> set[str]:
        """Names that no new skill can have; `but` is its own until now."""
        return {*self.placed, *self.folders} - {but}

    def is_in_a_skill(self, case: Case) -> bool:
        return any(case.case_id in skill.cases for skill in self.skills.values())

    def held(self, case_ids: Iterable[str]) -> JsonObject | None:
        """Why no skill is made of a case with one of these ids; None for those that are free."""
        ids = set(case_ids)
        if not ids.isdisjoint(self.missing):
            return _MISSING
        return None if ids.isdisjoint(self.deleted_cases) else _DELETED

    def user_of(self, case: Case) -> str:
        return self.known[case.case_id].entry.extra.get("user", "")

    def order(self, skill: Skill | None, cases: Sequence[Case], taken: Iterable[str]) -> SkillOrder:
        thread = self.known[cases[-1].case_id].sources[0].thread_in(self.space)
        return SkillOrder(self.space, self.owner, thread, cases, skill, frozenset(taken))

    def tell(self, cases: Iterable[Case], detail: JsonObject) -> None:
        self.told |= {case.case_id: detail for case in cases}

    def receipts(self, causes: Iterable[Cause]) -> list[tuple[Cause, JsonObject]]:
        """For the memcell of each case that there is something to tell of; for one that set this off, in any case."""
        by_cell = {(cause.thread, cause.cell): (cause, self._unchanged(cause)) for cause in causes}
        for case_id, detail in self.told.items():
            case = self.known[case_id]
            cause = Cause(case.sources[0].thread_in(self.space), case.cell, (case_id,))
            by_cell[cause.thread, cause.cell] = (cause, detail)
        return list(by_cell.values())

    def _unchanged(self, cause: Cause) -> JsonObject:
        """For one that changes nothing, or whose run was cut short after all was made."""
        names = [
            name for name, skill in self.skills.items() if not set(skill.cases).isdisjoint(cause.entry_ids)
        ]
        if names:
            return {"state": "extracted", "skill": names[0]}
        return self.held(cause.entry_ids) or _NO_CHANGE


@dataclass(frozen=True, slots=True)
class Skills:
    """One skill for each kind of task, made of one user's cases alone; what a person changed in its file stays.

    What a person deleted is not made again: a case similar to its cases joins its deletion.

    Cases are worked on in their order, one at a time, so that one job for many of them makes what many jobs would.
    """

    entries: SqlEntryStore
    answers: SqlModelAnswers
    shelf: SkillShelf
    model_calls: CachedModelCalls | None
    """None without a model."""
    prompts: PromptTexts

    async def handle(self, job: Job) -> None:
        """For jobs of the strategy skill; one at a time for each agent."""
        space, owner = job.space, str(job.payload["owner"])
        listed = await self.entries.list_entries(space, owner, kinds=(CASES,), limit=_MOST_CASES)
        known = {each.entry_id: each for each in reversed(listed) if each.sources}
        await self.shelf.look_at(await self.shelf.paths(owner))  # The sweep may not have seen them yet.
        await self.shelf.follow_moves(owner)
        missing = (await self.shelf.missing(owner)).values()
        deletions = {deletion.entry_id: deletion for deletion in await self.shelf.deletions.of(space, owner)}
        gone = frozenset(case_id for each in missing for case_id in each.cases)
        folders = frozenset(map(skill_folder, await self.shelf.paths(owner)))
        placed = await self.shelf.placed(owner)
        agent = _Agent(space, owner, known, without_copies(placed), folders, deletions, gone)
        by_user = agent.cases_by_user()
        own = {each.path for each in agent.placed.values()}
        for each in placed:
            cases = [case for theirs in by_user for case in theirs]
            await self._follow_changes(agent, each, cases, is_copy=each.path not in own)
        await self._forget_elsewhere(agent, [case for theirs in by_user for case in theirs])
        for cases in by_user:
            await self._learn(agent, cases)
        await self._forget_past(agent)
        await leave_receipts(self.entries, space, owner, SKILL, agent.receipts(causes_of(job)))
        # They quote cases, of which any may be forgotten later.
        await self.answers.forget_cells(space, [owner])

    async def _learn(self, agent: _Agent, cases: Sequence[Case]) -> None:
        """Every case of one user is in the skill of its kind, once there are enough of them."""
        mine = {case.case_id for case in cases}
        loose: list[Case] = []
        held = [case for case in cases if agent.held([case.case_id]) and not agent.is_in_a_skill(case)]
        for case in cases:
            if agent.is_in_a_skill(case) or case in held:
                continue
            await asyncio.sleep(0)  # There may be many to compare: others have their turn in between.
            own = [skill for skill in agent.skills.values() if mine.issuperset(skill.cases)]
            name = same_skill(case, own)
            if name is not None:
                ids = {*agent.skills[name].cases, case.case_id}
                like = [each for each in cases if each.case_id in ids]
                await self._make(agent, agent.order(agent.skills[name], like, ()), [case])
                continue
            if alike := similar_cases(case, held):
                await self._hold(agent, case, alike[0])
                held.append(case)
                continue
            like = [*similar_cases(case, loose), case]
            if makes_a_skill(like):
                await self._make(agent, agent.order(None, like, agent.taken()), like)
                loose = [each for each in loose if each not in like]
                held += [each for each in like if agent.held([each.case_id])]
            else:
                loose.append(case)
        agent.tell(loose[-1:], {"state": NOTHING, "why": "there is no other case of its kind that worked"})

    async def _make(self, agent: _Agent, order: SkillOrder, new: Sequence[Case]) -> None:
        made, told = await self._written(order)
        if made is None:
            agent.tell(new, told)
            return
        if order.skill is None and await self._was_deleted(agent, made, new):
            return
        earlier = None if order.skill is None else agent.placed[order.skill.name].path
        agent.placed[made.name] = await self.shelf.put_skill(agent.owner, made, instead_of=earlier)
        agent.tell(new, {"state": "extracted", "skill": made.name, **told})

    async def _written(self, order: SkillOrder) -> tuple[Skill | None, JsonObject]:
        """The skill, and what its receipt is to say; None without a model, or where its answer can't be used.

        Raises Preempted and ModelUnavailable.
        """
        if self.model_calls is None:
            return None, NO_MODEL

        def read(text: str) -> tuple[Skill, Counter[str]]:
            skill, refused = parse_skill_answer(text, order.skill, order.cases, order.taken)
            return skill, Counter(each.reason for each in refused)

        template = await self.prompts.text(order.space, "skill")
        messages = skill_messages(template, order.skill, order.cases)
        question = Question("skill", order.thread, order.owner, messages, SKILL_SCHEMA, read, stage="skill")
        try:
            kept, cost = await self.model_calls.answer(question)
        except ExtractionFailed as error:
            return None, {"state": "failed", "why": str(error)}
        skill, refused = await asyncio.to_thread(read, kept.text)
        told: JsonObject = {"by": kept.model, "cost": cost, "refused": dict(refused)}
        made = replace(skill, by=kept.model, basis=basis_of(order.cases))
        return made, {name: value for name, value in told.items() if value}

    async def _hold(self, agent: _Agent, case: Case, like: Case) -> None:
        """A case of a skill that a person deleted, or whose file is missing or can't be read."""
        agent.tell([case], agent.held([like.case_id]) or _MISSING)
        if (deletion := agent.deleted_cases.get(like.case_id)) is not None:
            await self._add_to_deletion(agent, agent.deletions[deletion.entry_id], [case])

    async def _add_to_deletion(self, agent: _Agent, deletion: Deletion, cases: Sequence[Case]) -> None:
        ids = [case.case_id for case in cases]
        deletion = await self.shelf.deletions.add(agent.space, agent.owner, deletion, ids)
        agent.deletions[deletion.entry_id] = deletion
        agent.deleted_cases |= dict.fromkeys(ids, deletion)

    async def _was_deleted(self, agent: _Agent, made: Skill, cases: Sequence[Case]) -> bool:
        """Once all cases of a deleted skill are forgotten, its name is all that tells it."""
        user = agent.user_of(cases[-1])
        deletion = agent.deletions.get(skill_deletion_id(agent.space, agent.owner, user, made.name))
        if deletion is None or not await self.shelf.deletions.is_empty(agent.space, agent.owner, deletion):
            return False
        await self._add_to_deletion(agent, deletion, cases)
        agent.tell(cases, _DELETED)
        return True

    async def _forget_past(self, agent: _Agent) -> None:
        """What skills said before, or in files that are missing, goes where it names a case that is gone.

        A file that can't be read may hold its words in any place: it goes whole.
        """
        await self.shelf.store.forget_versions(agent.space, f"{agent.owner}/skills/")
        missing = await self.shelf.missing(agent.owner)
        named = {path: skill.cases for path, skill in missing.items()}
        for path, text in (await self.shelf.unreadable(agent.owner)).items():
            named[path] = (*named.get(path, ()), *_case_ids(text))
        for path, case_ids in named.items():
            if await self._lost(agent, path, case_ids):
                await self.shelf.remove_file(path)
                self.shelf.reports.tell(path, _LEFT_OF_IT)

    async def _forget_elsewhere(self, agent: _Agent, cases: Sequence[Case]) -> None:
        """Nothing of a forgotten case is left in copies that a person gave to other agents.

        One whose name, too, may be words of it goes whole, as does one that can't be read.
        """
        own = dict(agent.placed)
        for path, copy in (await self.shelf.naming_forgotten(agent.owner)).items():
            rest = [case for case in cases if copy is not None and case.case_id in copy.skill.cases]
            if copy is not None and is_named_after(copy.skill.name, rest):
                await self._follow_changes(agent, copy, cases, is_copy=True)
                agent.placed = dict(own)
            else:
                await self.shelf.remove_file(path)
                self.shelf.reports.tell(path, _LEFT_OF_IT)
            await self.shelf.store.forget_versions(agent.space, path)

    async def _lost(self, agent: _Agent, path: str, case_ids: Iterable[str]) -> list[str]:
        """Of the cases that a file names, those that were here and are gone.

        Others that are not here came with the file from another home: they change nothing.
        """
        absent = [each for each in case_ids if await self.entries.get(agent.space, each) is None]
        if not absent:
            return []
        once_here = {*await self.shelf.store.gone_cases(), *await self.shelf.written_cases(path)}
        return [case_id for case_id in absent if case_id in once_here]

    async def _follow_changes(
        self, agent: _Agent, placed: PlacedSkill, cases: Sequence[Case], *, is_copy: bool
    ) -> None:
        """A skill some of whose cases are forgotten or changed is made again of those that there are; or goes.

        A person's copy has to do with it when a case is forgotten, and only then.
        """
        skill, path = placed.skill, placed.path
        rest = [case for case in cases if case.case_id in skill.cases]
        older = [case_id for case_id in skill.cases if case_id not in agent.known]
        lost = await self._lost(agent, path, older)
        if not lost and (is_copy or older or skill.basis in ("", basis_of(rest))):
            return
        others = {name: other for name, other in agent.placed.items() if is_copy or name != skill.name}
        is_ours = bool(await self.shelf.written_cases(path))
        if not makes_a_skill(rest) or (
            lost and is_ours and not is_copy and _is_within(rest, others.values())
        ):
            if lost or is_ours:
                await self.shelf.remove_file(path)
                agent.placed = others
                agent.tell(rest, {"state": NOTHING, "why": "too little is left of its skill"})
            return
        order = agent.order(None, rest, agent.taken(but=skill.name))
        made, told = await self._written(order)
        if made is None and lost:
            # Whatever it says may be words of a forgotten case.
            made = replace(unwritten(None, rest, order.taken), basis=_UNWRITTEN)
        if made is None:
            agent.tell(rest, told)
            return
        if not lost or is_named_after(skill.name, rest):
            made = replace(made, name=skill.name)
        made = replace(made, edited=skill.edited)
        put = await self.shelf.put_skill(owner_of_path(path) or agent.owner, made, instead_of=path, lost=lost)
        agent.placed = {put.skill.name: put} | others
        agent.tell(rest, {"state": "extracted", "skill": put.skill.name, **told})


def _is_within(cases: Sequence[Case], others: Iterable[PlacedSkill]) -> bool:
    """Whether another skill was made of all of these: this one, under the name that it got before a kill."""
    ids = {case.case_id for case in cases}
    return any(ids.issubset(other.skill.cases) for other in others)


def _link(owner: str, entry: KnownEntry) -> str:
    file = entry.path.removeprefix(f"{owner}/").removesuffix(".md")
    return f"{file}#^{entry.entry_id}"
