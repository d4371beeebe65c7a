"""Verify forgetting: look everywhere for anything that names what a tombstone says is gone."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from recollect.domain.forgetting import Looked, StoredVersion, Tombstones
from recollect.domain.identity import key_within_user, turn_number
from recollect.domain.job import PURGE
from recollect.domain.markdown.transcript import transcript_place
from recollect.domain.model import NOTE_BYTES
from recollect.domain.paths import copied_path, is_note, linked_turn, owner_folder, owner_of_path
from recollect.domain.vault_file import Listing
from recollect.errors import IndexUnavailable
from recollect.infra.index.store import LanceIndex
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.forgotten_proof import SqlForgottenProof
from recollect.infra.vault import Vault
from recollect.service.coordination import Progress, no_progress
from recollect.service.vault.reader import without_copies

_WAIT_SECONDS = 30.0
_MANY_JOBS = 10_000
_anchors = re.compile(r"^## .* \^(t-[0-9]{1,18})\s*$", re.MULTILINE).findall
_sections = re.compile(r"^## .* \^(\S+)\s*$", re.MULTILINE).findall
_cases = re.compile(r"\bca-[0-9a-f]{12}\b").findall
_links = re.compile(r"\[\[([^\]\n]+#\^t-[0-9]{1,18})\]\]").findall


@dataclass(slots=True)
class ForgottenVerification:
    """What was looked at, and what was found. `ok` means: nothing of what was forgotten."""

    tombstones: int = 0
    looked_at: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def add(self, looked: Looked) -> None:
        self.looked_at[looked.what] = self.looked_at.get(looked.what, 0) + looked.number
        if looked.found:
            self.problems.append(f"{looked.what}: {looked.found} of {looked.number}")


@dataclass(frozen=True, slots=True)
class ForgottenVerifier:
    """Reads everything, changes nothing but that it folds the journal's log."""

    proof: SqlForgottenProof
    index: LanceIndex
    vault: Vault
    jobs: JobEngine
    home: Path

    async def verify(self, progress: Progress = no_progress) -> ForgottenVerification:
        result = ForgottenVerification()
        await self._wait_for_purges()
        tombstones = await self.proof.tombstones()
        result.tombstones = len(tombstones)
        steps = (self._journal, self._index, self._vault, self._free_space)
        for done, step in enumerate(steps, 1):
            await step(tombstones, result)
            progress(done, len(steps))
        result.notes += [
            f"{path} was made earlier and may hold what was forgotten since"
            for path in _earlier_copies(self.home)
        ]
        result.notes += [kept] if (kept := self.vault.keeps_copies()) is not None else []
        return result

    async def _wait_for_purges(self) -> None:
        """Until none is under way, those included that one queues for another; not for one that takes too long."""
        while waiting := await self._purges():
            for job_id in waiting:
                if not await self.jobs.wait_for(job_id, _WAIT_SECONDS):
                    return

    async def _purges(self) -> list[int]:
        found = await self.jobs.list_jobs(space=None, limit=_MANY_JOBS)
        return [job.job_id for job in found if job.kind == PURGE and job.state != "dead"]

    async def _journal(self, tombstones: Tombstones, result: ForgottenVerification) -> None:
        looked = [*await self.proof.unfinished(), *await self.proof.journal(tombstones)]
        for each in (*looked, await self.proof.kept_notes()):
            result.add(each)

    async def _index(self, tombstones: Tombstones, result: ForgottenVerification) -> None:
        try:
            versions = await self.index.all_versions()
        except IndexUnavailable as error:
            result.problems.append(f"index: {error.message}")
            return
        rows = sum(len(version.rows) for version in versions)
        wrong = sum(_forgotten_rows(version, tombstones) for version in versions)
        result.looked_at["versions of tables in the index"] = len(versions)
        result.add(Looked("rows in all of them", rows, wrong))

    async def _vault(self, tombstones: Tombstones, result: ForgottenVerification) -> None:
        sections = links = wrong_sections = wrong_links = skills = wrong_skills = 0
        gone_cases = await self.proof.gone_cases()
        files = await self.vault.list_files()
        _, copies = await without_copies(self.proof, files)
        for path in files:
            owner, found = owner_of_path(path), await self.vault.look(path)
            if owner is None or found is None:
                continue
            if "/threads/" in path:
                anchors = _anchors(found.text)
                sections += len(anchors)
                wrong_sections += _forgotten_sections(path, found.text, anchors, tombstones)
            elif "/notes/" not in path:
                turns = [linked_turn(owner, link) for link in _links(found.text)]
                links += len(turns)
                wrong_links += sum(turn is not None and tombstones.is_gone(*turn) for turn in turns)
            if "/agents/" in path and "/skills/" in path:
                skills += 1
                wrong_skills += not gone_cases.isdisjoint(_cases(found.text))
        result.add(Looked("sections of transcripts", sections, wrong_sections))
        result.add(Looked("links of memories to transcripts", links, wrong_links))
        result.add(Looked("files of skills", skills, wrong_skills))
        result.add(await self._notes())
        result.looked_at["conflict copies of sync tools"] = len(copies)
        for path in copies:
            if await self._holds_gone(path, tombstones):
                result.problems.append(
                    f"{path}: a conflict copy that holds what was deleted or forgotten; remove it"
                )

    async def _notes(self) -> Looked:
        """How many notes are byte for byte, or but for their line ends, one that their owner forgot."""
        number = wrong = 0
        for path in filter(is_note, Listing.of(await self.vault.stamps()).stamps):
            if (found := await self.vault.look(path, NOTE_BYTES)) is not None:
                number += 1
                wrong += await self.proof.is_deleted(path, *found.digests)
        return Looked("notes", number, wrong)

    async def _holds_gone(self, path: str, tombstones: Tombstones) -> bool:
        """Whether a conflict copy holds a turn or a memory that is no longer there, or a file that was deleted."""
        owner, found = owner_of_path(path), await self.vault.look(path)
        if found is None:
            return False
        if is_note(path):
            note = copied_path(path) or path
            return note in await self.proof.were_ours([note], gone=True)
        names = _sections(found.text)
        if "/threads/" in path:
            turns = [name for name in names if turn_number(name) is not None]
            return _forgotten_sections(path, found.text, turns, tombstones) > 0
        is_deleted = await self.proof.is_deleted(copied_path(path) or path, *found.digests)
        return is_deleted or (
            owner is not None and len(await self.proof.living(owner, names)) < len(set(names))
        )

    async def _free_space(self, tombstones: Tombstones, result: ForgottenVerification) -> None:
        for looked in await self.proof.free_space():
            result.add(looked)


def _forgotten_rows(version: StoredVersion, tombstones: Tombstones) -> int:
    forgotten = tombstones.of_owner(version.owner)
    wrong = 0
    for row_id, sources in version.rows:
        key, _, name = row_id.partition(":")
        came_from = (source.rpartition("#") for source in sources)
        wrong += (turn_number(name) or 0) in forgotten.get(key, ()) or any(
            tombstones.is_gone(folder, turn_id) for folder, _, turn_id in came_from
        )
    return wrong


def _forgotten_sections(path: str, text: str, anchors: list[str], tombstones: Tombstones) -> int:
    """How many of these sections were forgotten. If the front matter can't be read, the folder names the thread."""
    place = transcript_place(text)
    if place is None:
        folder = path.rpartition("/")[0]
        return sum(tombstones.is_gone(folder, name) for name in anchors)
    thread, _ = place
    forgotten = tombstones.of_owner(owner_folder(thread.space, thread.user_id))
    numbers = forgotten.get(key_within_user(thread.space, thread.thread_id), frozenset())
    return sum((turn_number(name) or 0) in numbers for name in anchors)


def _earlier_copies(home: Path) -> list[str]:
    """Journals that were set aside, half-made ones, and backups: they hold what was there when they were made."""
    names = "journal.damaged-*.db", "*.migrated-*", "*.rebuilding", "*.migrating", "backups/*"
    kept = [path for name in names for path in home.glob(name)]
    return sorted(path.relative_to(home).as_posix() for path in kept)
