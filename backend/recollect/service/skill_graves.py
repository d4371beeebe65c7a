"""Graves of skills: what a person deleted is made again of none of its cases, nor of new ones like them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from recollect.memory.extraction.skill import MAX_CASES
from recollect.memory.known_entry import CASES, SKILLS, Buried, EntryChange, skill_grave_id
from recollect.service.ports import EntryStore


@dataclass(frozen=True, slots=True)
class SkillGraves:
    """A grave holds the ids of cases and not a word: what is like them is like what they say now."""

    entries: EntryStore

    async def of(self, space: str, owner: str) -> list[Buried]:
        return [grave for grave in await self.entries.buried(space, owner) if grave.kind == SKILLS]

    async def bury(self, space: str, owner: str, name: str, case_ids: Iterable[str]) -> None:
        """Each user's cases in a grave of their own. Without any case there is nothing that it could be made of."""
        by_user: defaultdict[str, list[str]] = defaultdict(list)
        for case in await self.entries.some(space, owner, list(case_ids)):
            if case.kind == CASES:
                by_user[case.entry.extra.get("user", "")].append(case.entry_id)
        known = {grave.entry_id: grave for grave in await self.of(space, owner)}
        for user, ids in by_user.items():
            grave_id = skill_grave_id(space, owner, user, name)
            await self.add(space, owner, known.get(grave_id, Buried(grave_id, SKILLS, "", ())), ids)

    async def add(self, space: str, owner: str, grave: Buried, case_ids: Iterable[str]) -> Buried:
        """These cases lie there too; of very many, the newest ones."""
        ids = tuple(dict.fromkeys([*grave.turn_ids, *case_ids]))[-MAX_CASES:]
        grave = replace(grave, turn_ids=ids)
        await self.entries.apply(EntryChange(space, owner, "person", "a skill was deleted", graves=(grave,)))
        return grave

    async def is_empty(self, space: str, owner: str, grave: Buried) -> bool:
        """All of its cases are forgotten: nothing is left that another could be like."""
        return not await self.entries.some(space, owner, grave.turn_ids)
