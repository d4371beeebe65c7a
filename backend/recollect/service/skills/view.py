"""Skills as people see them: list, read, change, delete and restore."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.domain.access import Caller
from recollect.domain.context_lines import OfferedSkill
from recollect.domain.entries.edit import EntryEdit, Version, restored, versions
from recollect.domain.entries.entry import SKILLS, EntryVersion, KnownEntry, PastSkill, entry_id
from recollect.domain.extraction.skill import Skill
from recollect.domain.markdown.skill_file import parse_skill, refused_by_agents
from recollect.domain.model import Entry, Thread
from recollect.domain.paths import agent_folder, file_name, skill_folder
from recollect.errors import InvalidInput, NotFound
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.entries import Deletion, EntryFilter, ShownEntry
from recollect.service.skills.files import PlacedSkill, SkillShelf, without_copies
from recollect.service.sources import EntryView, Reason


@dataclass(frozen=True, slots=True)
class ShownSkill:
    """A skill, its file, and whose it is."""

    skill: Skill
    agent: str
    """The agent's folder below `agents`."""
    path: str
    text: str
    cases: tuple[KnownEntry, ...] = ()
    """Those of its cases that there are, the newest ones last."""
    revision: int = 1
    """Counts the changes of its file."""
    is_copy: bool = False
    """Whether it is a person's copy of a skill that is in another file."""

    def owner(self, space: str) -> str:
        return f"{_agents(space)}/{self.agent}"

    @property
    def _origin(self) -> str:
        return f"{skill_folder(self.path)}/{self.skill.name}" if self.is_copy else self.skill.name

    def as_entry(self, space: str) -> KnownEntry:
        """It happened when its newest case did, and came from whatever its cases came from."""
        skill, owner = self.skill, self.owner(space)
        told = {
            "description": skill.description,
            "tools": ", ".join(skill.tools),
            "cases": " ".join(skill.cases),
            "edited": "yes" if skill.edited else "",
        }
        entry = Entry(
            entry_id=entry_id(SKILLS, space, owner, self._origin, SKILLS, 0),
            title=skill.name,
            text=self.text,
            when=max((case.entry.when for case in self.cases), default=0),
            by=f"skill, {skill.by}" if skill.by else "skill",
            extra={name: value for name, value in told.items() if value},
        )
        sources = dict.fromkeys(source for case in self.cases for source in case.sources)
        return KnownEntry(
            space,
            owner,
            SKILLS,
            entry,
            tuple(sources),
            strategy="skill",
            path=self.path,
            revision=self.revision,
        )


@dataclass(frozen=True, slots=True)
class SkillEntries:
    """The skills of a space. A user has those that were made of their own cases alone, the operator all.

    A skill is its file: its text is all of that. Every verb raises NotFound for a skill that the caller may not see.
    """

    entries: SqlEntryStore
    threads: SqlThreadStore
    transcripts: SqlTranscriptStore
    shelf: SkillShelf

    async def list_skills(
        self, caller: Caller, user_id: str | None = None, folder: str | None = None
    ) -> list[ShownSkill]:
        """By agent and name; `folder` is one agent's. A file that can't be read as a skill is left out."""
        view = self._view(caller, user_id)
        shown: list[ShownSkill] = []
        folder = folder or _agents(caller.space)
        placed: defaultdict[str, list[PlacedSkill]] = defaultdict(list)
        for each in await self.shelf.placed(folder):
            placed[each.path.split("/")[2]].append(each)
        own = {each.path for skills in placed.values() for each in without_copies(skills).values()}
        revisions = {seen.path: seen.revision for seen in await self.shelf.store.seen(f"{folder}/")}
        for agent, each in ((agent, each) for agent, skills in placed.items() for each in skills):
            cases = [await self.entries.get(caller.space, case_id) for case_id in each.skill.cases]
            if await _may_see(view, cases):
                there = tuple(case for case in cases if case is not None)
                revision, is_copy = revisions.get(each.path, 1), each.path not in own
                shown.append(ShownSkill(each.skill, agent, each.path, each.text, there, revision, is_copy))
        return shown

    async def offered(self, thread: Thread) -> list[OfferedSkill]:
        """The skills of a thread's agent that its user may see, the newest first; with tags, those that share one."""
        caller = Caller(space=thread.space, user_id=thread.user_id)
        shown = await self.list_skills(caller, folder=agent_folder(thread.space, thread.agent_id))
        newest = sorted(shown, key=lambda each: -max(case.entry.when for case in each.cases))
        return [
            OfferedSkill(each.skill.name, each.skill.description, (each.path, *each.skill.cases))
            for each in newest
            if not each.is_copy and await self._shares_tag(each, thread)
        ]

    async def _shares_tag(self, shown: ShownSkill, thread: Thread) -> bool:
        sources = {source.thread_in(thread.space) for case in shown.cases for source in case.sources}
        found = [await self.threads.find(each) for each in sources] if thread.tags else []
        return not thread.tags or any(each and not set(each.tags).isdisjoint(thread.tags) for each in found)

    async def list_entries(
        self, caller: Caller, wanted: EntryFilter, limit: int, after: str | None = None
    ) -> list[ShownEntry]:
        """The same skills as entries: the newest first; `after` is the one that the last page ended with."""
        found = await self._entries(caller, wanted.user_id)
        if after is not None:
            found = found[_place(found, after, field="after") + 1 :]
        agent = None if wanted.agent_id is None else agent_folder(caller.space, wanted.agent_id)
        chosen = [
            known
            for known in found
            if agent in (None, known.owner)
            and (wanted.since is None or known.entry.when >= wanted.since)
            and (wanted.until is None or known.entry.when < wanted.until)
        ]
        return await self._shown(caller, wanted.user_id, chosen[:limit])

    async def get_entry(self, caller: Caller, entry_id: str, user_id: str | None = None) -> ShownEntry:
        found = await self._entries(caller, user_id)
        (shown,) = await self._shown(caller, user_id, [found[_place(found, entry_id)]])
        return shown

    async def get_skill(self, caller: Caller, entry_id: str, user_id: str | None = None) -> ShownSkill:
        for shown in await self.list_skills(caller, user_id):
            if shown.as_entry(caller.space).entry_id == entry_id:
                return shown
        raise _not_found(entry_id)

    async def _entries(self, caller: Caller, user_id: str | None) -> list[KnownEntry]:
        found = [shown.as_entry(caller.space) for shown in await self.list_skills(caller, user_id)]
        return sorted(found, key=lambda known: (-known.entry.when, known.entry_id))

    async def _shown(
        self, caller: Caller, user_id: str | None, found: Sequence[KnownEntry]
    ) -> list[ShownEntry]:
        view = self._view(caller, user_id)
        quotes = await view.quotes(found)
        return [
            ShownEntry(known, quoted, await view.linked(known))
            for known, quoted in zip(found, quotes, strict=True)
        ]

    async def edit_entry(
        self, caller: Caller, entry_id: str, user_id: str | None, edit: EntryEdit
    ) -> ShownEntry:
        """Sections that a person changes stay theirs for good; its list of cases can't be changed.

        Raises InvalidInput where the text is no skill, or another's; Conflict where it has another revision.
        """
        shown = await self.get_skill(caller, entry_id, user_id)
        text = _persons_text(shown, edit)
        await self.shelf.rewrite(shown.path, text, "person", edit.in_words, edit.revision)
        return await self.get_entry(caller, entry_id, user_id)

    async def what_goes(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Deletion:
        """Nothing is made of a skill."""
        shown = await self.get_skill(caller, entry_id, user_id)
        return Deletion(shown.as_entry(caller.space), (), ())

    async def delete_entry(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Deletion:
        """Forget a skill for good: neither its cases nor new ones like them make it again. Of a copy, no more than that."""
        shown = await self.get_skill(caller, entry_id, user_id)
        cases = await self.shelf.made_of(shown.path, shown.text)
        if not shown.is_copy:
            await self.shelf.deletions.add_skill(
                caller.space, shown.owner(caller.space), shown.skill.name, cases
            )
        await self.shelf.remove_file(shown.path)
        await self.shelf.forget_words(caller.space)
        return Deletion(shown.as_entry(caller.space), (), ())

    async def history(
        self, caller: Caller, entry_id: str, user_id: str | None = None
    ) -> tuple[KnownEntry, list[Version]]:
        """Every version that is kept, oldest first, the one in force last."""
        shown = await self.get_skill(caller, entry_id, user_id)
        known = shown.as_entry(caller.space)
        return known, versions(known, await self._past(caller, shown))

    async def undo(
        self, caller: Caller, entry_id: str, user_id: str | None = None, revision: int | None = None
    ) -> ShownEntry:
        """Take back the last change, or all since a revision. That is a change too, and can be undone.

        Raises Conflict where there is nothing to undo, InvalidInput for a revision that it never had.
        """
        shown = await self.get_skill(caller, entry_id, user_id)
        known = shown.as_entry(caller.space)
        past = await self._past(caller, shown)
        target = restored(known, past, revision, now=known.entry.when)[0].entry.text
        cause = "the last change undone" if revision is None else f"undone back to revision {revision}"
        await self.shelf.rewrite(shown.path, target, "undo", cause)
        return await self.get_entry(caller, entry_id, user_id)

    async def why(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Reason:
        """The chain from the skill by its cases to the words they came from."""
        shown = await self.get_skill(caller, entry_id, user_id)
        return await self._view(caller, user_id).why(shown.as_entry(caller.space))

    async def _past(self, caller: Caller, shown: ShownSkill) -> list[EntryVersion]:
        return [_version(caller.space, shown, each) for each in await self.shelf.store.versions(shown.path)]

    def _view(self, caller: Caller, user_id: str | None) -> EntryView:
        return EntryView(self.entries, self.threads, self.transcripts, caller, user_id)


def _agents(space: str) -> str:
    """The folder of a space's agents."""
    return f"{file_name(space)}/agents"


def _place(found: Sequence[KnownEntry], entry_id: str, *, field: str | None = None) -> int:
    for place, known in enumerate(found):
        if known.entry_id == entry_id:
            return place
    raise _not_found(entry_id, field=field)


def _not_found(entry_id: str, *, field: str | None = None) -> NotFound:
    return NotFound(
        f"there is no skill {entry_id!r}; one that was deleted is forgotten and can't be brought back",
        field=field,
    )


async def _may_see(view: EntryView, cases: Sequence[KnownEntry | None]) -> bool:
    if view.acting is None:
        return True
    return bool(cases) and all([case is not None and await view.may_see(case) for case in cases])


def _version(space: str, shown: ShownSkill, past: PastSkill) -> EntryVersion:
    then = replace(shown, skill=parse_skill(past.text).skill or shown.skill, text=past.text)
    return EntryVersion(past.revision, then.as_entry(space).entry, past.actor, past.cause, past.at)


def _persons_text(shown: ShownSkill, edit: EntryEdit) -> str:
    if edit.pinned is not None:
        raise InvalidInput(
            "pinned: a skill can't be pinned; agents read it whenever its description fits", field="pinned"
        )
    for name in ("title", "when"):
        if getattr(edit, name) is not None:
            raise InvalidInput(
                f"{name}: a skill is changed by its text alone, which is all of its file", field=name
            )
    if edit.text is None:
        return shown.text
    parsed = parse_skill(edit.text)
    if parsed.skill is None:
        wrong = "; ".join(f"line {problem.line}: {problem.message}" for problem in parsed.problems)
        raise InvalidInput(
            f"text: must be the whole file of the skill, front matter included: {wrong}", field="text"
        )
    if parsed.skill.name != shown.skill.name:
        raise InvalidInput(f"text: the name in its front matter must stay {shown.skill.name!r}", field="text")
    if not parsed.skill.description:
        raise InvalidInput("text: the front matter must have a description", field="text")
    refused = refused_by_agents(edit.text)
    if refused is not None and refused != refused_by_agents(shown.text):
        raise InvalidInput(f"text: agents can't read this front matter: {refused}", field="text")
    return edit.text
