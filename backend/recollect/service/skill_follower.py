"""Follows the files of skills: a person's changes are seen, and a skill whose file they remove is not made again."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from recollect.memory.extraction.skill_file import parse_skill
from recollect.memory.identity import text_digest
from recollect.memory.skill_paths import is_skill_path, skill_folder
from recollect.memory.skill_record import SeenSkill
from recollect.memory.vault_file import FileStamp
from recollect.memory.vault_paths import owner_of_path
from recollect.service.ports import EntryFileStore
from recollect.service.skill_graves import SkillGraves
from recollect.service.skill_shelf import SKILL_BYTES, SkillShelf


@dataclass(frozen=True, slots=True)
class SkillFollower:
    """Whether files that are gone were removed by a person is for those to judge who see all of the vault."""

    shelf: SkillShelf
    graves: SkillGraves
    entry_files: EntryFileStore
    """Knows the spaces of folders."""
    forget_words: Callable[[str], Awaitable[None]]
    """Has the journal's free pages of a space's overwritten."""

    def follows(self, path: str) -> bool:
        return is_skill_path(path)

    async def known(self) -> dict[str, str]:
        """The files that should stand in the vault, and the digests of what they held last."""
        return {seen.path: text_digest(seen.text) for seen in await self.shelf.files.seen()}

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        """Remember them as they are, unless they can't be read. Returns the stamps of those that were looked at."""
        stamps: dict[str, FileStamp] = {}
        for path in paths:
            # A file that is being removed must not be taken for one that is there.
            async with self.shelf.locks.of(owner_of_path(path) or ""):
                found = await self.shelf.vault.look(path, SKILL_BYTES)
                if found is None or not found.is_whole:
                    continue
                if parse_skill(found.text).skill is not None:
                    await self.shelf.files.see(path, found.text)
            if found.stamp is not None:
                stamps[path] = found.stamp
        return stamps

    async def let_go(self, paths: Iterable[str]) -> None:
        """A person removed these, or gave them another name."""
        for path in paths:
            for seen in await self.shelf.files.seen(path):
                await self._let_go(seen)

    async def write_anew(self, paths: Iterable[str]) -> None:
        """These are gone, and not because anybody wanted it: they are put back as they were."""
        for path in paths:
            for seen in await self.shelf.files.seen(path):
                await self.shelf.vault.write_unless_foreign(path, seen.text, frozenset())
                self.shelf.reports.file_restored(path)

    async def _let_go(self, seen: SeenSkill) -> None:
        owner = owner_of_path(seen.path)
        assert owner is not None
        async with self.shelf.locks.of(owner):
            if await self.shelf.vault.look(seen.path, 1) is not None:
                return
            if await self.shelf.follow_move(owner, seen):
                return
            cases = await self.shelf.made_of(seen.path, seen.text)
            others = await self.shelf.placed(owner)
            space = await self.entry_files.space_of(owner)
            if space is not None and not any(set(cases) <= set(other.skill.cases) for other in others):
                was = parse_skill(seen.text).skill
                name = was.name if was is not None else skill_folder(seen.path)
                await self.graves.bury(space, owner, name, cases)
                self.shelf.reports.tell(seen.path, "was removed by hand: that skill is not made again")
            await self.shelf.files.forget(seen.path)
        if space is not None:
            await self.forget_words(space)
