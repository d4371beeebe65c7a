"""The files of skills: read, written without touching what a person changed, and never made again once deleted."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from recollect.domain.entries.entry import (
    CASES,
    SKILLS,
    Actor,
    Deletion,
    EntryChange,
    SeenSkill,
    skill_deletion_id,
)
from recollect.domain.extraction.skill import MAX_CASES, Skill
from recollect.domain.job import Unfinished
from recollect.domain.markdown.skill_file import parse_skill
from recollect.domain.markdown.skill_merge import in_persons_words, merge_skill, sealed, without_forgotten
from recollect.domain.paths import is_skill_path, owner_of_path, skill_folder, skill_path
from recollect.domain.strategy import skills_job
from recollect.domain.vault_file import FileStamp, KnownFile, VaultFile
from recollect.errors import Conflict, NotFound, StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SkillParts, SqlSkillFiles
from recollect.infra.vault import Vault
from recollect.service.coordination import OwnerLocks
from recollect.service.vault.reader import EditReports, Look
from recollect.service.vault.sync import FileSync, Rendered

SKILL_BYTES = 1_000_000


async def read_skill(files: SqlSkillFiles, path: str, found: VaultFile | None) -> Skill | None:
    """The skill in a file, None if it can't be read. If a person removed its list of cases, it keeps them."""
    skill = parse_skill(found.text).skill if found is not None and found.is_whole else None
    if found is None or skill is None or skill.cases:
        return skill
    written = await files.last_written(path, found.text)
    was = parse_skill(written).skill if written is not None else None
    if was is None:
        return skill
    return replace(skill, tools=skill.tools or was.tools, cases=was.cases, edited=was.edited, basis=was.basis)


@dataclass(frozen=True, slots=True)
class PlacedSkill:
    """A skill and its file."""

    path: str
    skill: Skill
    text: str


def without_copies(placed: Iterable[PlacedSkill]) -> dict[str, PlacedSkill]:
    """An agent's skills by their names: of several files with one name the one in the folder of that name, or the first.

    The others are copies that a person made.
    """
    found: dict[str, PlacedSkill] = {}
    for each in placed:
        if each.skill.name not in found or skill_folder(each.path) == each.skill.name:
            found[each.skill.name] = each
    return found


@dataclass(frozen=True, slots=True)
class SkillDeletions:
    """What is kept of deleted skills: the ids of their cases, no text. Cases similar to those make no new skill."""

    entries: SqlEntryStore

    async def of(self, space: str, owner: str) -> list[Deletion]:
        return [
            deletion for deletion in await self.entries.deletions(space, owner) if deletion.kind == SKILLS
        ]

    async def add_skill(self, space: str, owner: str, name: str, case_ids: Iterable[str]) -> None:
        """Record one deletion for each user that the cases came from; none for a skill without cases."""
        by_user: defaultdict[str, list[str]] = defaultdict(list)
        for case in await self.entries.some(space, owner, list(case_ids)):
            if case.kind == CASES:
                by_user[case.entry.extra.get("user", "")].append(case.entry_id)
        known = {deletion.entry_id: deletion for deletion in await self.of(space, owner)}
        for user, ids in by_user.items():
            deletion_id = skill_deletion_id(space, owner, user, name)
            await self.add(space, owner, known.get(deletion_id, Deletion(deletion_id, SKILLS, "", ())), ids)

    async def add(self, space: str, owner: str, deletion: Deletion, case_ids: Iterable[str]) -> Deletion:
        """Add cases to a deletion. It keeps the newest MAX_CASES."""
        ids = tuple(dict.fromkeys([*deletion.turn_ids, *case_ids]))[-MAX_CASES:]
        deletion = replace(deletion, turn_ids=ids)
        await self.entries.apply(
            EntryChange(space, owner, "person", "a skill was deleted", deletions=(deletion,))
        )
        return deletion

    async def is_empty(self, space: str, owner: str, deletion: Deletion) -> bool:
        """Whether all of its cases are forgotten: then no new case can be compared with them."""
        return not await self.entries.some(space, owner, deletion.turn_ids)


@dataclass(frozen=True, slots=True)
class SkillShelf(FileSync):
    """One folder a skill, named like it unless a person chose another.

    What is in a file is the skill: it is recorded, never written over. Files that can't be read are left alone.
    """

    store: SqlSkillFiles
    vault: Vault
    reports: EditReports
    deletions: SkillDeletions
    forget_words: Callable[[str], Awaitable[None]]
    """Queues the job of a space that overwrites the journal's free pages."""
    fail_points: FailPoints
    locks: OwnerLocks = field(default_factory=OwnerLocks)
    """Held while a file is imported, written or removed."""
    on_changed: Callable[[set[str]], None] = lambda owners: None
    """Called with the folders of agents whose skills came or went."""
    limit = SKILL_BYTES

    async def paths(self, folder: str) -> list[str]:
        """Of an agent's or all agents' files of skills, those included that can't be read."""
        return [path for path in await self.vault.list_files(folder) if is_skill_path(path)]

    async def placed(self, folder: str) -> list[PlacedSkill]:
        """All skills of an agent, or of all agents, a person's copies among them, in the order of their paths."""
        found = [await self._placed(path) for path in await self.paths(folder)]
        return [each for each in found if each is not None]

    async def _placed(self, path: str) -> PlacedSkill | None:
        file = await self.vault.look(path, SKILL_BYTES)
        skill = await read_skill(self.store, path, file)
        return None if file is None or skill is None else PlacedSkill(path, skill, file.text)

    async def follow_moves(self, owner: str) -> None:
        """Record the new paths of files that a person moved."""
        async with self.locks.of(owner):
            for seen in await self.store.seen(f"{owner}/skills/"):
                await self.follow_move(owner, seen)

    async def follow_move(self, owner: str, seen: SeenSkill) -> bool:
        """Find a missing file by its cases, and record its new path; else False. The caller holds the lock."""
        if await self.vault.look(seen.path, 1) is not None:
            return False
        cases = set(await self.made_of(seen.path, seen.text))
        for placed in await self.placed(owner) if cases else []:
            is_written = await self.store.last_written(placed.path, placed.text) is not None
            if cases.issubset(placed.skill.cases) and not is_written:
                await self.store.move(seen.path, placed.path)
                await self.store.see(placed.path, placed.text)
                return True
        return False

    async def missing(self, owner: str) -> dict[str, Skill]:
        """The skills whose files are missing or can't be read, as they were last seen, by path.

        Raises StorageUnavailable where the whole vault is away.
        """
        self.vault.refuse_if_missing()
        known = await self.store.seen(f"{owner}/skills/")
        gone = [seen for seen in known if await self._placed(seen.path) is None]
        return {seen.path: skill for seen in gone if (skill := parse_skill(seen.text).skill) is not None}

    async def made_of(self, path: str, text: str) -> tuple[str, ...]:
        """The ids of the cases that a file names, or named when we last wrote it."""
        written = await self.store.last_written(path, text)
        found = [skill for each in (written, text) if each and (skill := parse_skill(each).skill)]
        return tuple(dict.fromkeys(case_id for skill in found for case_id in skill.cases))

    async def written_cases(self, path: str) -> tuple[str, ...]:
        """The ids of the cases that a file named when we last wrote it; none, where we never did."""
        found = await self.vault.look(path, SKILL_BYTES)
        written = await self.store.last_written(path, found.text if found is not None else None)
        skill = parse_skill(written).skill if written is not None else None
        return skill.cases if skill is not None else ()

    async def unreadable(self, owner: str) -> dict[str, str]:
        """The texts of files that can't be read as skills, by path."""
        found = {path: await self.vault.look(path, SKILL_BYTES) for path in await self.paths(owner)}
        return {
            path: file.text
            for path, file in found.items()
            if file is not None and await read_skill(self.store, path, file) is None
        }

    async def naming_forgotten(self, owner: str) -> dict[str, PlacedSkill | None]:
        """The files of all other agents that name a forgotten case; None for those that can't be read."""
        gone = await self.store.gone_cases()
        found: dict[str, PlacedSkill | None] = {}
        for seen in await self.store.seen() if gone else []:
            if seen.path.startswith(f"{owner}/") or gone.isdisjoint(await self.made_of(seen.path, seen.text)):
                continue
            found[seen.path] = await self._placed(seen.path)
        return found

    async def put_skill(
        self, owner: str, skill: Skill, instead_of: str | None = None, lost: Collection[str] = ()
    ) -> PlacedSkill:
        """Write the skill, keep what a person changed in its file, and return it as the file has it.

        `instead_of` is its file until now; it stays there unless its name changes. Raises Unfinished if that file is
        gone or no text. `lost` are its forgotten cases: what we wrote because of them goes from a person's sections too.
        """
        path = skill_path(owner, skill.name)
        source = instead_of or path
        async with self.locks.of(owner):
            found = await self._whole(source)
            if found is None and instead_of is not None:
                raise Unfinished
            was = parse_skill(found.text).skill if found is not None else None
            if found is not None and (was is None or was.name == skill.name):
                path = source
            ours = frozenset([found.digest] if found is not None and source == path else ())
            while True:
                text = found.text if found is not None else None
                made = await self._merged(source, path, text, skill, lost)
                file, is_other = await self.store.file_at(path), source != path or made != text
                if is_other and await self.put(file, made, ours, SkillParts(made)) is not None:
                    raise StorageUnavailable("the skill's file is being edited")
                later = await self._whole(source) if source != path else None
                if later is None or found is None or later.digest == found.digest:
                    break
                found, ours = later, (await self.store.file_at(path)).digests  # It was saved meanwhile.
            if source != path:
                await self._remove(source)
        return PlacedSkill(path, parse_skill(made).skill or skill, made)

    async def _whole(self, path: str) -> VaultFile | None:
        found = await self.vault.look(path, SKILL_BYTES)
        if found is not None and not found.is_whole:
            raise Unfinished
        return found

    async def _merged(
        self, source: str, path: str, text: str | None, skill: Skill, lost: Collection[str]
    ) -> str:
        """What the file at `path` is to hold: the skill, with what a person changed in the `text` of `source`."""
        merged = merge_skill(await self.store.last_written(source, text), text, skill, renamed=source != path)
        for title in merged.conflicts:
            self.reports.tell(
                path, f"{title} was changed by hand and stays so; the skill is improved elsewhere"
            )
        if text is not None and parse_skill(text).skill is not None:
            await self.store.see(source, text)
        made = merged.text
        if lost and text is not None:
            made = without_forgotten(made, skill, lost, await self._versions(source, text))
        return sealed(made)

    async def _versions(self, path: str, text: str) -> list[str]:
        """What the file says and said, as far as it is known."""
        written = await self.store.last_written(path, text)
        past = [each.text for each in await self.store.versions(path)]
        return [*past, *([written] if written is not None else []), text]

    async def rewrite(
        self, path: str, text: str, actor: Actor, cause: str, revision: int | None = None
    ) -> None:
        """Replace the file by a person's text. Raises Conflict if the file has another revision by now."""
        async with self.locks.of(owner_of_path(path) or ""):
            found = await self.vault.look(path, SKILL_BYTES)
            skill = await read_skill(self.store, path, found)
            if found is None or skill is None:
                raise NotFound("the skill's file was removed meanwhile")
            await self.store.see(path, found.text)
            (seen,) = await self.store.seen(path)
            if revision not in (None, seen.revision):
                raise Conflict(
                    f"the skill was changed meanwhile: it is at revision {seen.revision}, not {revision}; read it again",
                    field="revision",
                )
            last = await self.store.last_written(path, found.text)
            theirs = sealed(in_persons_words(last or found.text, skill, text, undo=actor == "undo"))
            if theirs == found.text:
                return
            parts = SkillParts(theirs, actor, cause)
            file = await self.store.file_at(path)
            if await self.put(file, theirs, frozenset([found.digest]), parts) is not None:
                raise Conflict("the skill's file is being edited; read it again")

    async def remove_file(self, path: str) -> None:
        """Remove the file and its conflict files."""
        async with self.locks.of(owner_of_path(path) or ""):
            await self._remove(path)
            for beside in await self.vault.list_files(path.rpartition("/")[0]):
                if ".conflict-" in beside.rpartition("/")[2]:
                    await self._take_away(beside)

    async def _remove(self, path: str) -> None:
        if (found := await self.vault.look(path, SKILL_BYTES)) is not None:
            await self.store.retire({path: found.digest})  # It may be a person's version.
        # First: a file that is known and not there counts as removed by a person.
        await self.store.removed(path)
        await self._take_away(path)

    async def _take_away(self, path: str) -> None:
        current = await self.vault.look(path, SKILL_BYTES)
        await self.vault.remove_file(path, frozenset([current.digest] if current is not None else ()))
        await self.removed(path)

    async def removed(self, path: str) -> None:
        # Its name may be words of a forgotten case.
        await self.vault.remove_empty_folder(path.rpartition("/")[0])
        self.changed(path)

    def follows(self, path: str) -> bool:
        return is_skill_path(path)

    async def render(self, file: KnownFile, found: VaultFile | None, *, is_old: bool) -> Rendered:
        seen = await self.store.seen(file.path)
        return Rendered(seen[0].text if seen else None)

    async def import_edits(
        self, path: str, file: KnownFile | None, found: VaultFile, *, confirmed: bool
    ) -> bool:
        """One that can't be read is left alone."""
        if found.is_whole and parse_skill(found.text).skill is not None:
            await self.store.see(path, found.text)
            self.changed(path)
        return True

    def announced(self, path: str) -> None:
        self.fail_points.reach("skill.announced")

    def changed(self, path: str) -> None:
        self.on_changed({owner_of_path(path) or ""})

    def _is_foreign(self, file: KnownFile | None, found: VaultFile) -> bool:
        """One that was announced is recorded as any other."""
        return file is None or found.digest != file.digest

    async def look_at(self, paths: Iterable[str], look: Look | None = None) -> dict[str, FileStamp]:
        """In turn with whoever makes and removes skills.

        One that names a forgotten case may hold its words: it is made again, whether it is known or not.
        """
        stamps: dict[str, FileStamp] = {}
        for path in paths:
            owner = owner_of_path(path) or ""
            async with self.locks.of(owner):
                stamps |= await FileSync.look_at(self, [path], look)
                gone = await self.store.gone_cases()
                for seen in await self.store.seen(path) if gone else ():
                    skill = parse_skill(seen.text).skill
                    if skill is not None and not gone.isdisjoint(skill.cases):
                        await self._make_again(owner, skill.cases)
        return stamps

    async def _make_again(self, owner: str, case_ids: Iterable[str]) -> None:
        """By the agents whose cases are left of it: the file may be a copy that a person gave to another."""
        entries, space = self.deletions.entries, await self.store.space_of(owner)
        if space is not None:
            left = [case for each in case_ids if (case := await entries.get(space, each)) is not None]
            agents = {case.owner for case in left} or {owner}
            await entries.queue(space, None, [skills_job(agent) for agent in sorted(agents)])

    async def see_edits(self, path: str, file: KnownFile | None, found: VaultFile) -> None:
        """At once. The caller holds the lock."""
        with suppress(Unfinished):  # The next sweep settles it.
            await self.settle(path)

    async def write_again(self, paths: Iterable[str]) -> None:
        for path in paths:
            owner = owner_of_path(path) or ""
            async with self.locks.of(owner):
                for seen in await self.store.seen(path):
                    if await self.vault.look(path, 1) is None and not await self.follow_move(owner, seen):
                        with suppress(Unfinished):  # A person put it there in that moment.
                            await self._write(await self.store.file_at(path), None)
                            self.reports.file_restored(path)

    async def remove_contents(self, path: str) -> None:
        """That skill is not made again, unless it is elsewhere."""
        owner = owner_of_path(path)
        assert owner is not None
        space = await self.store.space_of(owner)
        async with self.locks.of(owner):
            known = await self.store.seen(path)
            if (
                not known
                or await self.vault.look(path, 1) is not None
                or await self.follow_move(owner, known[0])
            ):
                return
            text = known[0].text
            cases = await self.made_of(path, text)
            others = await self.placed(owner)
            if space is not None and not any(set(cases) <= set(other.skill.cases) for other in others):
                was = parse_skill(text).skill
                name = was.name if was is not None else skill_folder(path)
                await self.deletions.add_skill(space, owner, name, cases)
                self.reports.tell(path, "was removed by hand: that skill is not made again")
            await self.store.removed(path)
            self.changed(path)
        if space is not None:
            await self.forget_words(space)
