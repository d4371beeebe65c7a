"""Hand edits: finds what people changed in the vault, and has it imported, restored or asked about."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from recollect.domain.job import ENTRIES, PEOPLE, TRANSCRIPT_EDITS
from recollect.domain.markdown.transcript import is_transcript
from recollect.domain.paths import is_markdown, is_note
from recollect.domain.vault_file import EMPTY, FileStamp, Listing, loss_in_words
from recollect.errors import Unavailable
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.vault import Vault, Watcher
from recollect.service.coordination import Clock
from recollect.service.vault.notes import NoteFollower
from recollect.service.vault.reader import EditReports, VaultReader
from recollect.service.vault.sync import FileSync

_MANY_JOBS = 10_000
_LONG_SWEEP_MS = 60_000
_log = logging.getLogger("recollect.edits")
Stamps = Mapping[str, FileStamp]


class VaultSweep:
    """Looks at what the watcher reports at once, and at the whole vault in every sweep. Reads only changed files.

    Transcripts are imported and restored by jobs, in the lane of their thread; our own writes are recognised by
    their digests. Many files that vanish at once are not a deletion: nothing is restored or deleted until they are
    back, or a person confirms the loss. A file that cannot be read counts as neither gone nor changed.
    """

    def __init__(
        self,
        notes: SqlNoteStore,
        vault: Vault,
        watcher: Watcher,
        reports: EditReports,
        *,
        clock: Clock,
        sweep_seconds: float = 60.0,
        settle_seconds: float = 0.7,
        on_notes_changed: Callable[[set[str]], None] = lambda owners: None,
        followers: Sequence[FileSync] = (),
        on_swept: Callable[[bool, Listing], Awaitable[None]] | None = None,
    ) -> None:
        self._note_store = notes
        self._reader = VaultReader(vault)
        self.notes = NoteFollower(notes, vault, self._reader, reports, on_notes_changed)
        self._vault = vault
        self._watcher = watcher
        self.reports = reports
        self._clock = clock
        self._sweep_seconds, self._settle_seconds = sweep_seconds, settle_seconds
        self._on_swept, self._followers = on_swept, followers
        self._stamps: dict[str, FileStamp] = {}
        """Of files that held what the journal knew when they were read; `_held` is what it knew at the last sweep."""
        self._held: Mapping[str, str] = {}
        self._loss: str | None = None
        self._failure: str | None = None
        self._blind: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sweep_now, self._sweeping = asyncio.Event(), asyncio.Lock()
        self._sweeping_since: int | None = None
        self.sweeps = 0

    async def start(self) -> None:
        self._sweep_now, self._sweeping = asyncio.Event(), asyncio.Lock()
        self._stamps, self._held = {}, {}
        self._loss = self._failure = self._blind = self._sweeping_since = None
        self._reader.reset()
        self._tasks = [
            asyncio.create_task(self._follow_watcher(), name="vault-watcher"),
            asyncio.create_task(self._sweep_regularly(), name="vault-sweep"),
        ]

    async def stop(self) -> None:
        self._watcher.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def problem(self) -> str | None:
        """What a person has to decide, or why hand edits are not seen; None if all is well. Names no file."""
        return self._loss or self._failure or self._stalled() or self._blind

    def _stalled(self) -> str | None:
        if self._sweeping_since is None or (passed := self._clock() - self._sweeping_since) < _LONG_SWEEP_MS:
            return None
        return (
            f"the vault has been looked through for {passed // 1000} s, and not to its end: hand edits may be seen "
            "late. Does the disk or share that it is on answer?"
        )

    def notes_problem(self) -> str | None:
        """What in the vault can't be read, so that search misses it; None if nothing. Names no file."""
        problems = [problem for problem in (self.notes.problem(), self._reader.problem()) if problem]
        return "; ".join(problems) or None

    async def accept_losses(self) -> None:
        """A person confirmed the loss: files that the journal holds are restored, records of other notes removed.

        Transcripts are restored by `verify --repair`.
        """
        if self._vault.is_there():
            listing = await self._reader.list_all()
            missing = [note for note in await self._note_store.known() if not listing.may_hold(note.path)]
            await self.notes.let_go(await self.notes.write_again(missing))
            for follower in self._followers:
                known = await follower.known()
                await follower.write_again(
                    [path for path in known if not listing.may_hold(path) and not is_transcript(path)]
                )
            await self.sweep()

    async def catch_up(self, jobs: JobEngine, seconds: float = 30.0) -> None:
        """Sweep, and wait until the edits that it found are imported."""
        await self.sweep()
        for job in await jobs.list_jobs(space=None, limit=_MANY_JOBS):
            if job.kind in (TRANSCRIPT_EDITS, PEOPLE, ENTRIES):
                await jobs.wait_for(job.job_id, seconds)

    async def look_at(self, paths: Iterable[str]) -> None:
        """Look at files or folders that may have changed; `""` is the vault itself."""
        if not self._vault.is_there():
            return
        if self._loss is not None or await self.notes.may_restore():
            self._sweep_now.set()
        files = await self.notes.without_copies(await self._files_below(paths))
        await self._look_at_files(files)
        if any(map(self._reader.failed, files)):
            self._sweep_now.set()  # Perhaps they can be read in a moment.
        await self._look_for_gone(files)

    async def _look_at_files(self, paths: Collection[str]) -> None:
        """Record changed notes, and hand other files to their followers."""
        notes, followed = await asyncio.to_thread(
            lambda: (
                [path for path in paths if is_note(path)],
                [[path for path in paths if follower.follows(path)] for follower in self._followers],
            )
        )
        self._stamps |= await self.notes.look_at(notes)
        for follower, files in zip(self._followers, followed, strict=True):
            self._stamps |= await follower.look_at(files, self._reader.look)

    async def _files_below(self, paths: Iterable[str]) -> list[str]:
        files: set[str] = set()
        for path in paths:
            if is_markdown(path):
                files.add(path)
            elif path == "":
                self._sweep_now.set()
            else:
                files |= await self._files_in(path)
        return sorted(files)

    async def _files_in(self, folder: str) -> set[str]:
        """The files below a folder; if none are left, the known ones."""
        listing = await self._reader.list_all(folder)
        if listing.unreadable or listing.not_followed:
            self._sweep_now.set()  # It counts what is not read.
        if listing.stamps or listing.may_hold(folder):
            return set(listing.stamps)
        return {path for path in await self._expected() if path.startswith(f"{folder}/")}

    async def _look_for_gone(self, paths: Collection[str]) -> None:
        """Start a sweep if a file is missing, emptied or can't be read: it counts what is missing before it acts."""
        for path in paths:
            followed = any(follower.follows(path) for follower in self._followers)
            if followed or is_note(path):
                found = await self._reader.look(path, 1)
                if found is None or (followed and found.digest == EMPTY):
                    self._sweep_now.set()
                    return

    async def sweep(self) -> None:
        """Look at the whole vault: read what changed since the last time, and count what is gone."""
        async with self._sweeping:
            self._sweeping_since = self._clock()
            try:
                await self._sweep()
            finally:
                self._sweeping_since = None

    async def _sweep(self) -> None:
        if not self._vault.is_there():
            return
        notes = await self._note_store.known()
        expected = await self._expected()
        listing, gone = await self._settled(expected)
        if gone:
            # What was forgotten meanwhile is gone for good reason.
            expected = await self._expected()
            gone &= expected.keys()
        if not self._vault.is_there():
            return
        known, lost = await asyncio.to_thread(
            lambda: (sum(map(is_transcript, expected)), sum(map(is_transcript, gone)))
        )
        self._judge(known, len(expected) - known, lost, len(gone) - lost)
        self._reader.swept(listing)
        self._remember(expected, listing.stamps)
        await self._look_at_changed(listing.stamps, gone if self._loss is not None else ())
        went_back = self.reports.goes_back()
        missing = [note for note in notes if not listing.may_hold(note.path)]
        if went_back:
            missing = [note for note in await self.notes.write_again(missing) if is_note(note.path)]
            for follower in self._followers:
                await follower.write_again([path for path in sorted(gone) if follower.follows(path)])
        elif self._loss is None:
            for follower in self._followers:
                await follower.let_go([path for path in sorted(gone) if follower.follows(path)])
        await self.notes.swept(missing if self._loss is None else ())
        if self._on_swept is not None:
            await self._on_swept(went_back, listing)
        self.sweeps += 1

    async def _expected(self) -> dict[str, str]:
        """The files that should be there, with their digests.

        Only its follower knows whether a file should be there: its record as a note outlives the file for a while.
        """
        notes = {note.path: note.digest for note in await self._note_store.known()}
        expected = {
            path: digest
            for path, digest in notes.items()
            if not any(follower.follows(path) for follower in self._followers)
        }
        for follower in self._followers:
            expected |= await follower.known()
        return expected

    async def _settled(self, expected: Mapping[str, str]) -> tuple[Listing, set[str]]:
        """List the files until no more vanish. Returns the existing files and the known ones that are missing."""
        before: set[str] = set()
        while True:
            listing = await self._reader.list_all()
            gone = await asyncio.to_thread(listing.gone, expected)
            if gone == before:
                return listing, gone
            before = gone
            await asyncio.sleep(self._settle_seconds)

    def _remember(self, expected: Mapping[str, str], stamps: Stamps) -> None:
        for path in list(self._stamps):
            if path not in stamps or expected.get(path) != self._held.get(path, expected.get(path)):
                del self._stamps[path]
        self._held = expected

    def _judge(self, parts: int, notes: int, gone_parts: int, gone_notes: int) -> None:
        before, self._loss = self._loss, loss_in_words(parts, notes, gone_parts, gone_notes)
        if self._loss is not None and self._loss != before:
            _log.error("%s", self._loss)
        elif self._loss is None and before is not None:
            _log.info("the files that had vanished from the vault are back")

    async def _look_at_changed(self, stamps: Stamps, gone: Collection[str]) -> None:
        seen = dict(self._stamps)
        changed = await asyncio.to_thread(
            lambda: [
                path
                for path, stamp in stamps.items()
                if path not in gone and (stamp != seen.get(path) or self._reader.failed(path))
            ]
        )
        await self._look_at_files(await self.notes.without_copies(changed))

    async def _follow_watcher(self) -> None:
        try:
            async for paths in self._watcher.changes():
                await self._look_at_safely(paths)
        except Exception:  # noqa: BLE001 - shown in health; the sweep goes on
            self._blind = (
                "the vault is watched no longer: hand edits are seen at the next sweep only. See the log"
            )
            _log.exception("the vault is watched no longer")

    async def _look_at_safely(self, paths: set[str]) -> None:
        try:
            await self.look_at(paths)
        except Exception as error:  # noqa: BLE001 - what is missed now, the sweep finds
            self._fail(error)
            self._sweep_now.set()

    async def _sweep_regularly(self) -> None:
        while True:
            self._sweep_now.clear()
            try:
                await self.sweep()
                self._failure = None
            except Exception as error:  # noqa: BLE001 - shown in health, and tried again
                self._fail(error)
            try:
                async with asyncio.timeout(self._sweep_seconds):
                    await self._sweep_now.wait()
            except TimeoutError:
                continue

    def _fail(self, error: Exception) -> None:
        foreseen = isinstance(error, Unavailable)
        reason = str(error) if foreseen else f"{type(error).__name__}: see the log"
        self._failure = f"hand edits cannot be looked for: {reason}"
        _log.error("%s", self._failure, exc_info=None if foreseen else error)
