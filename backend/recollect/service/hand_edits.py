"""Hand edits: sees what people do to the files of the vault, and has it taken in, restored or asked about."""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from recollect.errors import Unavailable
from recollect.memory.job import PEOPLE, TAKE_IN
from recollect.memory.transcript import is_transcript, transcript_place
from recollect.memory.transcript_state import KnownPart
from recollect.memory.vault_file import FileStamp
from recollect.memory.vault_loss import loss_in_words
from recollect.memory.vault_paths import is_markdown, is_note, transcript_path
from recollect.service.file_follower import FileFollower
from recollect.service.notes import NoteFollower
from recollect.service.ports import Clock, JobRunner, NoteStore, TranscriptStore, Vault, VaultWatcher
from recollect.service.take_in import EditReports

_MANY_JOBS = 10_000
_EMPTY = hashlib.sha256(b"").hexdigest()
_log = logging.getLogger("recollect.edits")


class HandEdits:
    """What the watcher sees is looked at now, the whole vault at every sweep. Reads a file only when it changed.

    Transcripts are taken in and restored by jobs, in turn with all else that is done to a thread's files; our own
    writes are told by their content. Files that vanish in numbers are no deletion: nothing is restored or let go
    until they are back, or a person says so.
    """

    def __init__(
        self,
        store: TranscriptStore,
        notes: NoteStore,
        vault: Vault,
        watcher: VaultWatcher,
        reports: EditReports,
        *,
        clock: Clock,
        sweep_seconds: float = 60.0,
        settle_seconds: float = 0.7,
        on_notes_changed: Callable[[set[str]], None] = lambda owners: None,
        on_due: Callable[[int], None] = lambda due: None,
        followers: Sequence[FileFollower] = (),
    ) -> None:
        self._store = store
        self._note_store = notes
        self._notes = NoteFollower(notes, vault, reports, on_notes_changed)
        self._vault = vault
        self._watcher = watcher
        self.reports = reports
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._settle_seconds = settle_seconds
        self._on_due = on_due
        self._followers = followers
        self._stamps: dict[str, FileStamp] = {}
        """Of the files that held, when they were read, what is known of them."""
        self._places: dict[str, KnownPart] = {}
        """Which part of which thread each file is; its digests may be old."""
        self._loss: str | None = None
        self._failure: str | None = None
        self._blind: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sweep_now = asyncio.Event()
        self._sweeping = asyncio.Lock()
        self.sweeps = 0

    async def start(self) -> None:
        self._sweep_now, self._sweeping = asyncio.Event(), asyncio.Lock()
        self._stamps, self._places = {}, {}
        self._loss = self._failure = self._blind = None
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
        """What is asked of the person, or keeps hand edits from being seen. Names no file."""
        return self._loss or self._failure or self._blind

    def notes_problem(self) -> str | None:
        """What of the notes is not read, and so not found. Names no file."""
        return self._notes.problem()

    async def accept_losses(self) -> None:
        """The person says that what is gone is gone: notes are let go, and what the journal holds is written anew.

        Transcripts are for `verify --repair`.
        """
        if self._vault.is_there():
            stamps = await self._vault.stamps()
            known = await self._note_store.known()
            await self._notes.let_go(note for note in known if note.path not in stamps)
            for follower in self._followers:
                await follower.write_anew([path for path in await follower.known() if path not in stamps])
            await self.sweep()

    async def catch_up(self, jobs: JobRunner, seconds: float = 30.0) -> None:
        """Sweep, and wait until what it found is taken in."""
        await self.sweep()
        for job in await jobs.list_jobs(space=None, limit=_MANY_JOBS):
            if job.kind in (TAKE_IN, PEOPLE):
                await jobs.wait_for(job.job_id, seconds)

    async def look_at(self, paths: Iterable[str]) -> None:
        """Something happened to these files or folders; `""` is the vault itself."""
        if not self._vault.is_there():
            return
        if self._loss is not None:
            self._sweep_now.set()
        others: list[str] = []
        for path in await self._files_below(paths):
            if is_transcript(path):
                await self._look_at_transcript(path)
            else:
                others.append(path)
        await self._look_at_others(others)
        await self._look_for_gone(others)

    async def _look_at_others(self, paths: Collection[str]) -> None:
        """At notes, and at what others follow."""
        self._stamps |= await self._notes.look_at(path for path in paths if is_note(path))
        for follower in self._followers:
            self._stamps |= await follower.look_at([path for path in paths if follower.follows(path)])

    async def _files_below(self, paths: Iterable[str]) -> list[str]:
        files: set[str] = set()
        for path in paths:
            if is_markdown(path):
                files.add(path)
            elif path == "":
                self._sweep_now.set()
            elif below := await self._vault.stamps(path):
                files |= below.keys()
            else:
                files |= {known for known in self._places if known.startswith(f"{path}/")}
                files |= await self._known_others(path)
        return sorted(files)

    async def _known_others(self, folder: str) -> set[str]:
        if "/threads/" in f"{folder}/":
            return set()
        known = [note.path for note in await self._note_store.known()]
        return {path for path in (*known, *await self._followed()) if path.startswith(f"{folder}/")}

    async def _followed(self) -> dict[str, str]:
        followed: dict[str, str] = {}
        for follower in self._followers:
            followed |= await follower.known()
        return followed

    async def _look_for_gone(self, paths: Collection[str]) -> None:
        """They are let go by the sweep, too, once it has counted them."""
        for path in paths:
            if self._is_followed(path) and await self._vault.look(path, 1) is None:
                self._sweep_now.set()
                return

    def _is_followed(self, path: str) -> bool:
        return is_note(path) or any(follower.follows(path) for follower in self._followers)

    async def _look_at_transcript(self, path: str) -> None:
        found = await self._vault.look(path)
        place = self._places.get(path)
        if place is None and found is not None:
            place = self._learn_place(path, found.text)
        if found is not None and self._vault.is_own(path, found.digest):
            return
        if place is None:
            # So new that its place was not learned before a person came, or nobody's: the sweep tells.
            self._sweep_now.set()
            return
        parts = await self._store.parts(place.space, place.thread_id)
        part = next((part for part in parts if part.part == place.part), None)
        if part is None or part.digest is None:
            self._places.pop(path, None)  # It was forgotten, or has yet to be written.
        elif found is None or found.digest == _EMPTY:
            # One of many, perhaps: the sweep counts them before any is written anew.
            self._sweep_now.set()
        elif found.digest not in {part.digest, *(part.writing or "").split()}:
            await self._queue(place)

    def _learn_place(self, path: str, text: str) -> KnownPart | None:
        if (said := transcript_place(text)) is None:
            return None
        thread, part = said
        if transcript_path(thread.space, thread.user_id, thread.thread_id, part) != path:
            return None
        self._places[path] = KnownPart(thread.space, thread.user_id, thread.thread_id, part, frozenset())
        return self._places[path]

    async def _queue(self, part: KnownPart, *, gone: bool = False) -> None:
        now = self._clock()
        await self._store.queue_take_in(part.space, part.thread_id, part.part, now, gone=gone)
        self._on_due(now)

    async def sweep(self) -> None:
        """Look at the whole vault: read what changed since the last time, and count what is gone."""
        async with self._sweeping:
            if not self._vault.is_there():
                return
            parts = await self._known_parts()
            notes = {note.path: note for note in await self._note_store.known()}
            followed = await self._followed()
            others = {path: note.digest for path, note in notes.items()} | followed
            stamps, gone = await self._settled(parts, others)
            if gone:
                # What was forgotten meanwhile is gone for good reason.
                parts = await self._known_parts()
                gone &= parts.keys() | others.keys()
            if not self._vault.is_there():
                return
            gone_parts = gone & parts.keys()
            self._judge(len(parts), len(others), len(gone_parts), len(gone) - len(gone_parts))
            self._remember(parts, stamps)
            await self._look_at_changed(parts, stamps, gone_parts if self._loss is None else gone)
            if self._loss is None:
                for path in sorted(gone_parts):
                    await self._queue(parts[path], gone=True)
                await self._notes.let_go(note for path, note in notes.items() if path not in stamps)
                for follower in self._followers:
                    await follower.let_go(
                        [path for path in followed if path not in stamps and follower.follows(path)]
                    )
            self.sweeps += 1

    async def _known_parts(self) -> dict[str, KnownPart]:
        known = await self._store.known_parts()
        return await asyncio.to_thread(
            lambda: {
                transcript_path(part.space, part.user_id, part.thread_id, part.part): part for part in known
            }
        )

    async def _settled(
        self, parts: Mapping[str, KnownPart], others: Mapping[str, str]
    ) -> tuple[dict[str, FileStamp], set[str]]:
        """The files there are, and the known ones that are gone, once no more of them go."""
        before: set[str] = set()
        while True:
            stamps = await self._vault.stamps()
            gone = await asyncio.to_thread(_gone, parts, others, stamps)
            if gone == before:
                return stamps, gone
            before = gone
            await asyncio.sleep(self._settle_seconds)

    def _remember(self, parts: Mapping[str, KnownPart], stamps: Mapping[str, FileStamp]) -> None:
        self._places.update(parts)
        for path in self._places.keys() - parts.keys() - stamps.keys():
            del self._places[path]
        for path in self._stamps.keys() - stamps.keys():
            del self._stamps[path]

    def _judge(self, parts: int, notes: int, gone_parts: int, gone_notes: int) -> None:
        before, self._loss = self._loss, loss_in_words(parts, notes, gone_parts, gone_notes)
        if self._loss is not None and self._loss != before:
            _log.error("%s", self._loss)
        elif self._loss is None and before is not None:
            _log.info("the files that had vanished from the vault are back")

    async def _look_at_changed(
        self, parts: Mapping[str, KnownPart], stamps: Mapping[str, FileStamp], gone: Collection[str]
    ) -> None:
        seen = dict(self._stamps)
        changed = await asyncio.to_thread(
            lambda: [path for path, stamp in stamps.items() if stamp != seen.get(path) and path not in gone]
        )
        for path in changed:
            if path in parts:
                await self._compare(path, parts[path])
        await self._look_at_others(changed)

    async def _compare(self, path: str, part: KnownPart) -> None:
        found = await self._vault.look(path)
        if found is None:
            return
        if found.digest not in part.digests and not self._vault.is_own(path, found.digest):
            await self._queue(part)
        elif found.stamp is not None:
            self._stamps[path] = found.stamp

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
        reason = error.message if isinstance(error, Unavailable) else f"{type(error).__name__}: see the log"
        self._failure = f"hand edits cannot be looked for: {reason}"
        _log.error("hand edits cannot be looked for", exc_info=error)


def _gone(
    parts: Mapping[str, KnownPart], others: Mapping[str, str], stamps: Mapping[str, FileStamp]
) -> set[str]:
    """The known files that are gone, or cut to nothing. Of `others`, the digests say what they held."""
    gone = {path for path in (*parts, *others) if path not in stamps}
    empty = {path for path, stamp in stamps.items() if stamp.size == 0}
    gone |= {path for path in empty if path in parts}
    return gone | {path for path in empty if path in others and others[path] != _EMPTY}
