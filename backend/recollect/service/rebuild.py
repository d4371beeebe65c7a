"""Rebuild: bring the journal back from the vault alone."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

from recollect.failpoints import FailPoints
from recollect.memory.identity import text_digest, turn_number
from recollect.memory.model import Memcell, Thread, Turn
from recollect.memory.tombstones import TombstoneFile, parse_tombstones
from recollect.memory.transcript import ParsedPart, parse_part
from recollect.memory.transcript_state import StoredPart
from recollect.memory.vault_paths import thread_folder
from recollect.service.ports import Progress, Vault, no_progress


class JournalBuilder(Protocol):
    """Takes in whole threads, where `append` takes in single turns."""

    async def add_thread(
        self, thread: Thread, turns: list[Turn], cells: list[Memcell], parts: list[StoredPart]
    ) -> None: ...
    async def add_tombstones(self, file: TombstoneFile) -> None: ...


@dataclass(slots=True)
class RebuildReport:
    """What came back, and what could not."""

    threads: int = 0
    turns: int = 0
    memcells: int = 0
    forgotten: int = 0
    problems: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Kinds of things that live in the journal alone."""


async def rebuild(
    vault: Vault,
    builder: JournalBuilder,
    fail_points: FailPoints,
    progress: Progress = no_progress,
) -> RebuildReport:
    """Read every transcript and tombstone of the vault into an empty journal."""
    report = RebuildReport()
    folders: dict[str, list[str]] = {}
    tombstones = []
    for path in await vault.list_files():
        if _is_transcript(path):
            folders.setdefault(str(PurePosixPath(path).parent), []).append(path)
        elif "/forgotten/" in path:
            tombstones.append(path)
    for path in tombstones:
        await _read_tombstones(vault, path, builder, report)
    for done, (folder, paths) in enumerate(folders.items(), 1):
        await _read_thread(vault, folder, sorted(paths), builder, report)
        progress(done, len(folders))
    fail_points.reach("rebuild.imported")
    return report


def _is_transcript(path: str) -> bool:
    parts = PurePosixPath(path)
    return len(parts.parts) == 6 and parts.parts[3] == "threads" and parts.stem.isdigit()


async def _read_tombstones(vault: Vault, path: str, builder: JournalBuilder, report: RebuildReport) -> None:
    file, problems = parse_tombstones(await vault.read(path) or "")
    report.problems += [f"{path}: {problem}" for problem in problems]
    if file is not None:
        report.forgotten += len(file.messages)
        await builder.add_tombstones(file)


async def _read_thread(
    vault: Vault, folder: str, paths: list[str], builder: JournalBuilder, report: RebuildReport
) -> None:
    gathered = _Gathered(folder)
    for path in paths:
        text = await vault.read(path) or ""
        gathered.take(path, parse_part(text), text_digest(text))
    report.problems += gathered.problems
    if gathered.thread is None:
        report.problems.append(
            f"{folder}: no part has readable front matter; the thread could not be brought back"
        )
        return
    await builder.add_thread(gathered.thread, gathered.turns, gathered.cells, gathered.parts)
    report.threads += 1
    report.turns += len(gathered.turns)
    report.memcells += len(gathered.cells)


@dataclass(slots=True)
class _Gathered:
    """One thread, as its parts are read one after another."""

    folder: str
    thread: Thread | None = None
    turns: list[Turn] = field(default_factory=list)
    cells: list[Memcell] = field(default_factory=list)
    parts: list[StoredPart] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def take(self, path: str, parsed: ParsedPart, digest: str) -> None:
        self.problems += [f"{path}:{problem.line}: {problem.message}" for problem in parsed.problems]
        if self.thread is None or parsed.part == 1:
            self.thread = parsed.thread or self.thread
        if self.thread is not None and self._misplaced(self.thread):
            self.problems.append(f"{path}: its front matter names a thread that lies elsewhere")
        numbers = []
        for turn in parsed.turns:
            number = turn_number(turn.turn_id)
            if number is None or turn.turn_id in self._seen:
                self.problems.append(
                    f"{path}: turn {turn.turn_id} is there twice or has no number; the first is kept"
                )
                continue
            self._seen.add(turn.turn_id)
            self.turns.append(turn)
            numbers.append(number)
        self.cells += parsed.memcells
        first = self.parts[-1].last_position + 1 if self.parts else 1
        last = max(numbers, default=first - 1)
        self.parts.append(StoredPart(int(PurePosixPath(path).stem), first, last, 1, digest))

    def _misplaced(self, thread: Thread) -> bool:
        return thread_folder(thread.space, thread.user_id, thread.thread_id) != self.folder
