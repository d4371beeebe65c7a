"""The files of skills: as they stand in the vault, and changed without touching what a person wrote into them."""

from dataclasses import dataclass

from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.memory.extraction.skill import Skill
from recollect.memory.extraction.skill_file import parse_skill
from recollect.memory.extraction.skill_merge import merge_skill
from recollect.memory.identity import text_digest
from recollect.service.ports import SkillFileStore, Vault
from recollect.service.take_in import EditReports

_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class SkillShelf:
    """One folder a skill, named like it. Files that can't be read are left alone."""

    vault: Vault
    files: SkillFileStore
    reports: EditReports
    fail_points: FailPoints

    async def skills(self, owner: str) -> dict[str, Skill]:
        """An agent's, by their names."""
        found: dict[str, Skill] = {}
        for path in await self.vault.list_files(f"{owner}/skills"):
            file = await self.vault.look(path, _MOST_BYTES)
            skill = parse_skill(file.text).skill if file is not None and file.is_whole else None
            if skill is not None and path == _path(owner, skill.name):
                found[skill.name] = skill
        return found

    async def put(self, owner: str, skill: Skill, instead_of: str | None = None) -> Skill:
        """Write it, with all that a person changed in its file, and return it as it stands there.

        `instead_of` is the name that it had until now.
        """
        path = _path(owner, skill.name)
        source = path if instead_of is None else _path(owner, instead_of)
        standing = await self.vault.look(source, _MOST_BYTES)
        text = standing.text if standing is not None else None
        merged = merge_skill(await self.files.last_written(source, text), text, skill, renamed=source != path)
        for title in merged.conflicts:
            self.reports.tell(
                path, f"{title} was changed by hand and stays so; the skill is improved elsewhere"
            )
        if source != path or merged.text != text:
            await self._write(path, merged.text)
        if source != path and instead_of is not None:
            await self.remove(owner, instead_of)
        return parse_skill(merged.text).skill or skill

    async def remove(self, owner: str, name: str) -> None:
        path = _path(owner, name)
        current = await self.vault.look(path, _MOST_BYTES)
        await self.vault.remove_file(path, frozenset([current.digest] if current is not None else ()))
        await self.files.forget(path)

    async def _write(self, path: str, text: str) -> None:
        current = await self.vault.look(path, _MOST_BYTES)
        await self.files.announce(path, text)
        self.fail_points.reach("skill.announced")
        ours = frozenset([text_digest(text), *([current.digest] if current is not None else [])])
        if await self.vault.write_unless_foreign(path, text, ours) is not None:
            raise StorageUnavailable("the skill's file is being edited")
        await self.files.record(path, text)


def _path(owner: str, name: str) -> str:
    return f"{owner}/skills/{name}/SKILL.md"
