"""Skills: files that agents read, made of like cases, better with every new one."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.memory.extraction.skill import Case, Skill, case_of, makes_a_skill, same_skill, similar_cases
from recollect.memory.extraction.skill_file import parse_skill
from recollect.memory.extraction.skill_merge import merge_skill
from recollect.memory.extraction.skill_rules import improve_by_rules
from recollect.memory.identity import text_digest
from recollect.memory.job import Job
from recollect.memory.known_entry import CASES, KnownEntry
from recollect.service.owner_locks import OwnerLocks
from recollect.service.ports import EntryStore, SkillFileStore, Vault
from recollect.service.take_in import EditReports

_MOST_CASES = 500
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Skills:
    """One skill for each kind of task, made of one user's cases alone; what a person changed in its file stays."""

    entries: EntryStore
    files: SkillFileStore
    vault: Vault
    reports: EditReports
    locks: OwnerLocks
    fail_points: FailPoints

    async def handle(self, job: Job) -> None:
        """For jobs of the strategy skill."""
        owner = str(job.payload["owner"])
        async with self.locks.of(owner):
            known = await self.entries.list_entries(job.space, owner, kinds=(CASES,), limit=_MOST_CASES)
            by_user: defaultdict[str, list[Case]] = defaultdict(list)
            for entry in reversed(known):
                by_user[entry.entry.extra.get("user", "")].append(case_of(entry.entry, _link(owner, entry)))
            skills = await self._skills(owner)
            await self._forget_lost(
                job.space, owner, [case for cases in by_user.values() for case in cases], skills
            )
            for cases in by_user.values():
                await self._improve(owner, cases, skills)

    async def _skills(self, owner: str) -> dict[str, Skill]:
        """By their names, as they stand in the vault; files that can't be read are left alone."""
        skills: dict[str, Skill] = {}
        for path in await self.vault.list_files(f"{owner}/skills"):
            found = await self.vault.look(path, _MOST_BYTES)
            skill = parse_skill(found.text).skill if found is not None and found.is_whole else None
            if skill is not None and path == _path(owner, skill.name):
                skills[skill.name] = skill
        return skills

    async def _improve(self, owner: str, cases: Sequence[Case], skills: dict[str, Skill]) -> None:
        """Every case of theirs is in the skill of its kind, once there are enough of them."""
        for case in cases:
            if any(case.case_id in skill.cases for skill in skills.values()):
                continue
            mine = {case.case_id for case in cases}
            own = [skill for skill in skills.values() if mine.issuperset(skill.cases)]
            name = same_skill(case, own)
            if name is not None:
                held = [*skills[name].cases, case.case_id]
                like = [each for each in cases if each.case_id in held]
                await self._write(owner, improve_by_rules(skills[name], like), skills)
                continue
            like = [each for each in cases if each in similar_cases(case, cases)]
            if makes_a_skill(like):
                await self._write(owner, improve_by_rules(None, like, skills), skills)

    async def _forget_lost(
        self, space: str, owner: str, cases: Sequence[Case], skills: dict[str, Skill]
    ) -> None:
        """A skill some of whose cases are forgotten is made anew of the rest; where too few are left, it goes."""
        there = {case.case_id for case in cases}
        for skill in list(skills.values()):
            older = [case_id for case_id in skill.cases if case_id not in there]
            if all([await self.entries.get(space, case_id) is not None for case_id in older]):
                continue
            rest = [case for case in cases if case.case_id in skill.cases]
            if makes_a_skill(rest):
                others = skills.keys() - {skill.name}
                anew = improve_by_rules(None, rest, others)
                await self._write(owner, replace(anew, name=skill.name, edited=skill.edited), skills)
            else:
                await self._remove(_path(owner, skill.name))
                del skills[skill.name]

    async def _remove(self, path: str) -> None:
        current = await self.vault.look(path, _MOST_BYTES)
        await self.vault.remove_file(path, frozenset([current.digest] if current is not None else ()))
        await self.files.forget(path)

    async def _write(self, owner: str, improved: Skill, skills: dict[str, Skill]) -> None:
        path = _path(owner, improved.name)
        current = await self.vault.look(path, _MOST_BYTES)
        text = current.text if current is not None else None
        merged = merge_skill(await self.files.last_written(path, text), text, improved)
        for title in merged.conflicts:
            self.reports.tell(
                path, f"{title} was changed by hand and stays so; the skill is improved elsewhere"
            )
        skills[improved.name] = parse_skill(merged.text).skill or improved
        if merged.text == text:
            return
        await self.files.announce(path, merged.text)
        self.fail_points.reach("skill.announced")
        ours = frozenset([text_digest(merged.text), *([current.digest] if current is not None else [])])
        if await self.vault.write_unless_foreign(path, merged.text, ours) is not None:
            raise StorageUnavailable("the skill's file is being edited")
        await self.files.record(path, merged.text)


def _path(owner: str, name: str) -> str:
    return f"{owner}/skills/{name}/SKILL.md"


def _link(owner: str, entry: KnownEntry) -> str:
    file = entry.path.removeprefix(f"{owner}/").removesuffix(".md")
    return f"{file}#^{entry.entry_id}"
