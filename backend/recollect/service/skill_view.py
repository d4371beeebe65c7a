"""Skills as people see them: the files that agents read, each for those whose cases it was made of."""

from dataclasses import dataclass

from recollect.memory.access import Caller
from recollect.memory.extraction.skill import Skill
from recollect.memory.extraction.skill_file import parse_skill
from recollect.memory.file_names import file_name
from recollect.service.entry_view import EntryView
from recollect.service.ports import EntryStore, ThreadStore, TranscriptStore, Vault

_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ShownSkill:
    """A skill, its file, and whose it is."""

    skill: Skill
    agent: str
    """The agent's folder below `agents`."""
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class SkillView:
    """The skills of a space. A user has those that were made of their own cases alone, the operator all."""

    entries: EntryStore
    threads: ThreadStore
    transcripts: TranscriptStore
    vault: Vault

    async def list_skills(self, caller: Caller, user_id: str | None = None) -> list[ShownSkill]:
        """By agent and name. A file that can't be read as a skill is left out."""
        view = EntryView(self.entries, self.threads, self.transcripts, caller, user_id)
        shown = []
        for path in sorted(await self.vault.list_files(f"{file_name(caller.space)}/agents")):
            parts = path.split("/")
            if len(parts) != 6 or parts[3] != "skills" or parts[5] != "SKILL.md":
                continue
            found = await self.vault.look(path, _MOST_BYTES)
            skill = parse_skill(found.text).skill if found is not None and found.is_whole else None
            if found is not None and skill is not None and await self._may_see(view, caller.space, skill):
                shown.append(ShownSkill(skill, parts[2], path, found.text))
        return shown

    async def _may_see(self, view: EntryView, space: str, skill: Skill) -> bool:
        if view.acting is None:
            return True
        cases = [await self.entries.get(space, case_id) for case_id in skill.cases]
        return bool(cases) and all([case is not None and await view.may_see(case) for case in cases])
