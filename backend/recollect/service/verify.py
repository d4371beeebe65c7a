"""Verify: every accepted message is where it should be, and the vault says what the journal says."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from recollect.domain.identity import text_digest
from recollect.domain.markdown.entry_document import read_document
from recollect.domain.markdown.transcript import is_rendered
from recollect.domain.model import Coverage, Thread, TranscriptPart
from recollect.domain.paths import ENTRY_FILE_BYTES, is_entry_path, transcript_path
from recollect.domain.vault_file import KnownFile, StoredPart, TranscriptState
from recollect.errors import StorageUnavailable
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.vault import Vault
from recollect.service.coordination import Progress, no_progress
from recollect.service.vault.reader import without_copies
from recollect.service.vault.transcripts import Transcriber, part_of

_LOOKS = 3
"""A file that is being written is read again before it is reported."""


@dataclass(slots=True)
class Verification:
    """What was found. `ok` means that nothing is missing and nothing differs."""

    coverage: dict[str, Coverage] = field(default_factory=dict)
    threads: int = 0
    parts: int = 0
    pending: int = 0
    """Turns the journal holds and the vault does not yet."""
    pending_files: int = 0
    """Files that lack a memcell or a change of the thread."""
    repaired: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems and all(
            coverage.missing == 0 and coverage.doubled == 0 for coverage in self.coverage.values()
        )


async def _no_index() -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Verifier:
    """Reads everything and changes nothing, unless asked to restore files that are missing from the vault."""

    threads: SqlThreadStore
    store: SqlTranscriptStore
    counts: SqlCoverage
    vault: Vault
    transcriber: Transcriber
    index_problems: Callable[[], Awaitable[list[str]]] = _no_index
    """Returns where entries and index differ from the journal and the vault."""

    async def verify(self, *, repair: bool = False, progress: Progress = no_progress) -> Verification:
        result = Verification()
        result.problems += await self.counts.inconsistencies()
        if not self.vault.is_there():
            result.problems.append("the vault is missing")
        expected: set[str] = set()
        files = await self.vault.list_files()
        for space in await self.counts.spaces():
            coverage = await self.counts.coverage(space=space)
            result.coverage[space] = coverage
            result.problems += [
                f"missing: {turn} of thread {thread.thread_id!r} of {thread.user_id!r}"
                for thread, turn in coverage.missing_turns
            ]
            for thread in await self.threads.list_threads(space=space):
                expected |= await self._check_thread(thread, result, repair=repair)
                progress(len(expected), max(len(files), len(expected)))
        result.problems += await self.index_problems()
        listed, copies = await without_copies(self.store, files)
        result.notes += [_note(path) for path in listed if path not in expected and _is_ours(path)]
        result.notes += [
            f"{path}: a conflict copy of a sync tool, which is not read; read it, then remove it"
            for path in copies
        ]
        result.notes += [
            f"{path}: an old copy came here since the start, and the current version is kept"
            for path in dict.fromkeys(self.transcriber.reports.old_copies)
        ]
        return result

    async def _check_thread(self, thread: Thread, result: Verification, *, repair: bool) -> set[str]:
        """Compare every part with the journal; returns the paths that belong to the thread."""
        result.threads += 1
        if thread.incognito:
            return set()
        paths: set[str] = set()
        parts = await self.store.parts(thread.ref)
        result.problems += await self._gaps(thread, parts)
        for number in [part.part for part in parts]:
            path = transcript_path(*thread.ref, number)
            paths.add(path)
            result.parts += 1
            problem = await self._check_part(thread, number, path)
            if problem and repair and await self._repair(thread, number, path):
                result.repaired += 1
                problem = None
            if problem:
                result.problems.append(problem)
        if (state := await self.store.state(thread.ref)) is not None:
            result.pending_files += len(state.stale_parts) + (state.last_part is None)
        written = max((part.last_position for part in parts if part.digest), default=0)
        result.pending += len(await self.store.turns(thread.ref, written + 1))
        return paths

    async def _gaps(self, thread: Thread, parts: list[StoredPart]) -> list[str]:
        """Report parts out of order, or with turns missing in between. A gap of forgotten turns is fine."""
        problems = []
        number, first = 1, 1
        for part in parts:
            left_out = part.first_position > first and await self.store.turns(
                thread.ref, first, part.first_position - 1, limit=1
            )
            if part.part != number or part.first_position < first or left_out:
                problems.append(
                    f"journal: part {part.part} of thread {thread.thread_id!r} does not follow the one before it"
                )
            number, first = part.part + 1, part.last_position + 1
        return problems

    async def _check_part(self, thread: Thread, number: int, path: str) -> str | None:
        problem = None
        for _ in range(_LOOKS):
            state = await self.store.state(thread.ref)
            part = await self.store.part(thread.ref, number)
            if state is None or part is None:
                return None
            try:
                text = await self.vault.read(path)
            except StorageUnavailable as error:
                return f"{path} cannot be read: {error.message}"
            wanted = await self._wanted(state, part)
            is_as_wanted = text is not None and is_rendered(text, wanted)
            if is_as_wanted or (_is_unfinished(part, state) and _is_as_we_left_it(part, text)):
                return None
            problem = f"{path} is missing" if text is None else f"{path} differs from the journal"
        return problem

    async def _wanted(self, state: TranscriptState, part: StoredPart) -> TranscriptPart:
        where = state.thread.ref, part.first_position, part.last_position
        turns, cells = await self.store.turns(*where), await self.store.cells(*where)
        return part_of(state.thread, part.part, turns, cells)

    async def _repair(self, thread: Thread, number: int, path: str) -> bool:
        """Restore a part whose file is gone. One that a person changed is left as it is."""
        try:
            if await self.vault.read(path) is not None:
                return False
        except StorageUnavailable:
            return False
        await self.store.forget_part(thread.ref, number)
        state = await self.store.state(thread.ref)
        part = await self.store.part(thread.ref, number)
        if state is None or part is None:
            return False
        await self.transcriber.rewrite(state, part)
        return True


def _is_unfinished(part: StoredPart, state: TranscriptState) -> bool:
    """Whether the part is still to be written."""
    return part.digest is None or part.announced is not None or part in state.stale_parts


def _is_as_we_left_it(part: StoredPart, text: str | None) -> bool:
    if text is None:
        return part.digest is None
    return text_digest(text) in part.digests


def _is_ours(path: str) -> bool:
    return "/threads/" in path


def _note(path: str) -> str:
    if ".conflict-" in path:
        return f"{path}: a version changed by hand, kept beside ours; read it, then remove it"
    return f"{path}: belongs to no thread of the journal"


async def entry_problems(store: SqlEntryFileStore, vault: Vault) -> list[str]:
    """What of the entries differs between journal and vault. What waits to be written is no problem."""
    files = {file.path for file in await store.files()}
    looked = [await _problem(store, vault, path) for path in sorted(files)]
    listed, _ = await without_copies(store, await vault.list_files())
    there = set(filter(is_entry_path, listed))
    strange = [f"{path} was not imported" for path in sorted(there - files)]
    return [problem for problem in looked if problem is not None] + strange


async def _problem(store: SqlEntryFileStore, vault: Vault, path: str) -> str | None:
    problem = None
    for _ in range(_LOOKS):
        file = await store.file(path)
        if file is None or not file.is_written:
            return None
        problem = await _difference(store, vault, file)
        if problem is None:
            return None
    return problem


async def _difference(store: SqlEntryFileStore, vault: Vault, file: KnownFile) -> str | None:
    path = file.path
    found = await vault.look(path, ENTRY_FILE_BYTES)
    if found is None:
        return f"{path} is missing"
    if found.digest not in file.digests:
        return f"{path} differs from the journal"
    here = await store.entries_in(path)
    entries = [each.known.entry for each in here]
    document = await asyncio.to_thread(read_document, path, found.text, known=entries)
    for each in here:
        name = each.known.entry_id
        if name not in document.written:
            return f"{path} does not hold {name}"
        if name not in document.damaged and document.written[name].entry != each.known.entry:
            return f"{path} holds another {name} than the journal"
    return None
