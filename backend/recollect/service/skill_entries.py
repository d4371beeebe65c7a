"""Every verb on skills as entries: a person changes, deletes and restores them like any other."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from recollect.errors import InvalidInput
from recollect.memory.access import Caller
from recollect.memory.entry_edit import EntryEdit
from recollect.memory.entry_versions import Version, restored, versions
from recollect.memory.extraction.skill_file import parse_skill
from recollect.memory.known_entry import EntryVersion, KnownEntry
from recollect.memory.skill_record import PastSkill
from recollect.service.entries import DeletedEntry, Deletion, ShownEntry
from recollect.service.entry_view import EntryView
from recollect.service.skill_graves import SkillGraves
from recollect.service.skill_shelf import SkillShelf
from recollect.service.skill_view import ShownSkill, SkillView
from recollect.service.why import Reason, why


@dataclass(frozen=True, slots=True)
class SkillEntries:
    """For the skills that a caller may see (`SkillView`). Raises NotFound for all others.

    A skill is its file: its text is all of that.
    """

    view: SkillView
    shelf: SkillShelf
    graves: SkillGraves
    forget_words: Callable[[str], Awaitable[None]]
    """Has the journal's free pages of a space's overwritten."""

    async def get_entry(self, caller: Caller, entry_id: str, user_id: str | None = None) -> ShownEntry:
        return await self.view.get_entry(caller, entry_id, user_id)

    async def edit_entry(
        self, caller: Caller, entry_id: str, user_id: str | None, edit: EntryEdit
    ) -> ShownEntry:
        """What a person changes in its sections is theirs for ever; which cases it has is not for them to say.

        Raises InvalidInput where the text is no skill, or another's; Conflict where it has another revision.
        """
        shown = await self.view.get_skill(caller, entry_id, user_id)
        text = _persons_text(shown, edit)
        await self.shelf.rewrite(shown.path, text, "person", edit.in_words, edit.revision)
        return await self.get_entry(caller, entry_id, user_id)

    async def what_goes(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Deletion:
        """Nothing is made of a skill."""
        shown = await self.view.get_skill(caller, entry_id, user_id)
        return Deletion(shown.as_entry(caller.space), (), ())

    async def delete_entry(self, caller: Caller, entry_id: str, user_id: str | None = None) -> DeletedEntry:
        """Forget a skill for good: neither its cases nor new ones like them make it again. Of a copy, no more than that."""
        shown = await self.view.get_skill(caller, entry_id, user_id)
        cases = await self.shelf.made_of(shown.path, shown.text)
        if not shown.is_copy:
            await self.graves.bury(caller.space, shown.owner(caller.space), shown.skill.name, cases)
        await self.shelf.remove_file(shown.path)
        await self.forget_words(caller.space)
        return DeletedEntry(shown.as_entry(caller.space), (), ())

    async def history(
        self, caller: Caller, entry_id: str, user_id: str | None = None
    ) -> tuple[KnownEntry, list[Version]]:
        """Every version that is kept, oldest first, the one in force last."""
        shown = await self.view.get_skill(caller, entry_id, user_id)
        known = shown.as_entry(caller.space)
        return known, versions(known, await self._past(caller, shown))

    async def undo(
        self, caller: Caller, entry_id: str, user_id: str | None = None, revision: int | None = None
    ) -> ShownEntry:
        """Take back the last change, or all since a revision. That is a change too, and can be undone.

        Raises Conflict where there is nothing to undo, InvalidInput for a revision that it never had.
        """
        shown = await self.view.get_skill(caller, entry_id, user_id)
        known = shown.as_entry(caller.space)
        target = restored(known, await self._past(caller, shown), revision)[0].entry.text
        cause = "the last change undone" if revision is None else f"undone back to revision {revision}"
        await self.shelf.rewrite(shown.path, target, "undo", cause)
        return await self.get_entry(caller, entry_id, user_id)

    async def why(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Reason:
        """The chain from the skill by its cases to the words they came from."""
        shown = await self.view.get_skill(caller, entry_id, user_id)
        view = EntryView(self.view.entries, self.view.threads, self.view.transcripts, caller, user_id)
        return await why(view, self.view.transcripts, shown.as_entry(caller.space))

    async def _past(self, caller: Caller, shown: ShownSkill) -> list[EntryVersion]:
        return [_version(caller.space, shown, each) for each in await self.shelf.files.versions(shown.path)]


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
    return edit.text
