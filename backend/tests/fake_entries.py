"""Entries in memory, behind both of their ports, and the answers of models."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.domain.entries.edit import is_made_of
from recollect.domain.entries.entry import (
    AFTER_A_PERSON,
    PROFILE,
    SKILLS,
    Buried,
    EntryChange,
    EntryFileState,
    EntryJob,
    EntryReceipt,
    EntryVersion,
    FiledEntry,
    KeptAnswer,
    KnownEntry,
    Wording,
)
from recollect.domain.entries.entry import text_key as key_of
from recollect.domain.entries.links import origin_ids
from recollect.domain.entries.matters import matter_key as key_of_matter
from recollect.domain.identity import thread_key, turn_number
from recollect.domain.job import ENTRIES, Job, entries_lane
from recollect.domain.markdown.entry_file import render_entry
from recollect.domain.model import Thread
from recollect.domain.paths import PART_BYTES, day_of_path, entry_day, entry_path, file_name, is_entry_path
from recollect.domain.strategy import HELD, own_lane
from recollect.errors import Conflict, NotFound
from recollect.service.ports import EntryFileStore, EntryStore, ModelAnswers
from tests.fakes import FakeJournal

Key = tuple[str, str]
"""Space and id."""


@dataclass
class _Rows:
    """All that a change may change."""

    entries: dict[Key, KnownEntry] = field(default_factory=dict)
    digests: dict[Key, tuple[str | None, str | None]] = field(default_factory=dict)
    """Of the section in its file, and of the one that is being written."""
    past: dict[Key, list[EntryVersion]] = field(default_factory=dict)
    buried: dict[Key, tuple[str, Buried]] = field(default_factory=dict)
    files: dict[str, EntryFileState] = field(default_factory=dict)
    leaving: set[tuple[str, str]] = field(default_factory=set)
    receipts: dict[tuple[str, str, str], EntryReceipt] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def copy(self) -> "_Rows":
        past = {key: list(versions) for key, versions in self.past.items()}
        return _Rows(
            dict(self.entries), dict(self.digests), past, dict(self.buried), dict(self.files),
            set(self.leaving), dict(self.receipts), dict(self.counts),
        )  # fmt: skip


class FakeEntryStore:
    """What the journal knows of entries and of their files. A receipt wants its thread in the journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal
        self._rows = _Rows()

    @property
    def receipts(self) -> list[EntryReceipt]:
        return list(self._rows.receipts.values())

    async def get(self, space: str, entry_id: str) -> KnownEntry | None:
        return self._rows.entries.get((space, entry_id))

    async def some(self, space: str, owner: str, entry_ids: Sequence[str]) -> list[KnownEntry]:
        found = [self._rows.entries.get((space, entry_id)) for entry_id in dict.fromkeys(entry_ids)]
        return [known for known in found if known is not None and known.owner == owner]

    async def list_entries(
        self,
        space: str,
        owner: str | None = None,
        *,
        kinds: Sequence[str] = (),
        since: int | None = None,
        until: int | None = None,
        holding: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[KnownEntry]:
        found = [
            known
            for known in self._rows.entries.values()
            if known.space == space
            and owner in (None, known.owner)
            and (not kinds or known.kind in kinds)
            and (since is None or known.entry.when >= since)
            and (until is None or known.entry.when < until)
            and (known.holds or not holding)
        ]
        found.sort(key=_newest_first)
        if after is not None:
            last = self._rows.entries.get((space, after))
            found = (
                [] if last is None else [each for each in found if _newest_first(each) > _newest_first(last)]
            )
        return found[:limit]

    async def of_cell(self, space: str, owner: str, cell: str, strategy: str) -> list[KnownEntry]:
        return self._oldest_first(
            space, owner, lambda known: bool(cell) and (known.cell, known.strategy) == (cell, strategy)
        )

    async def of_subject(
        self,
        space: str,
        owner: str,
        kind: str,
        subject: str,
        attribute: str,
        newest: int | None = None,
        *,
        holding: bool = False,
    ) -> list[KnownEntry]:
        def about(known: KnownEntry) -> tuple[str, str]:
            return _compared(known.entry.extra.get("subject", "")), _compared(
                known.entry.extra.get("attribute", "")
            )

        wanted = _compared(subject), _compared(attribute)
        found = self._oldest_first(
            space,
            owner,
            lambda known: known.kind == kind and about(known) == wanted and (known.holds or not holding),
        )
        return _last(found, newest)

    async def wordings(
        self, space: str, owner: str, kind: str, subject: str, attribute: str, newest: int
    ) -> list[Wording]:
        found = await self.of_subject(space, owner, kind, subject, attribute, newest)
        return [Wording(each.entry_id, each.entry.text, each.entry.extra.get("value", "")) for each in found]

    async def of_matter(
        self, space: str, owner: str, matter_key: str, newest: int | None = None
    ) -> list[KnownEntry]:
        found = self._oldest_first(space, owner, lambda known: key_of_matter(known) == matter_key != "")
        return _last(found, newest)

    async def of_person(self, space: str, owner: str, kind: str) -> list[KnownEntry]:
        return self._oldest_first(
            space, owner, lambda known: known.kind == kind and (known.is_pinned or known.is_edited)
        )

    async def with_text(self, space: str, owner: str, kind: str, text_key: str) -> list[KnownEntry]:
        return self._oldest_first(
            space, owner, lambda known: known.kind == kind and key_of(known.entry.text) == text_key
        )

    async def citing(self, space: str, thread_id: str, turn_ids: Sequence[str] | None) -> list[KnownEntry]:
        return [
            known
            for known in self._rows.entries.values()
            if known.space == space
            and any(
                source.thread_id == thread_id and (turn_ids is None or source.turn_id in turn_ids)
                for source in known.sources
            )
        ]

    async def buried(self, space: str, owner: str, cell: str | None = None) -> list[Buried]:
        return [
            grave
            for (where, _), (whose, grave) in sorted(self._rows.buried.items())
            if (where, whose) == (space, owner) and cell in (None, grave.cell)
        ]

    async def bury(self, space: str, owner: str, graves: Sequence[Buried]) -> None:
        for grave in graves:
            self._rows.buried[space, grave.entry_id] = (owner, grave)

    async def history(self, space: str, entry_id: str) -> list[EntryVersion]:
        return list(self._rows.past.get((space, entry_id), ()))

    async def apply(self, change: EntryChange) -> None:
        self._apply(change, {})

    async def forget_owner(self, space: str, owner: str) -> None:
        for path in [path for path, file in self._rows.files.items() if file.owner == owner]:
            self._forget_file(path)
            self._journal.jobs.drop(entries_lane(path), [ENTRIES])
        for key in [key for key, known in self._rows.entries.items() if known.owner == owner]:
            self._drop(key)
        self._rows.buried = {key: told for key, told in self._rows.buried.items() if told[0] != owner}

    async def file(self, path: str) -> EntryFileState | None:
        return self._rows.files.get(path)

    async def files(self) -> list[EntryFileState]:
        return [self._rows.files[path] for path in sorted(self._rows.files)]

    async def entries_in(self, path: str) -> list[FiledEntry]:
        here = [known for known in self._rows.entries.values() if known.path == path]
        here.sort(key=lambda known: (known.entry.when, known.entry_id))
        return [FiledEntry(known, self._digests(known)) for known in here]

    async def leaving(self, path: str) -> frozenset[str]:
        return frozenset(entry_id for where, entry_id in self._rows.leaving if where == path)

    async def announce(self, path: str, writing: str, filing: Mapping[str, str]) -> None:
        self._update_file(path, writing=writing)
        for key in self._keys_in(path):
            if key[1] in filing:
                self._rows.digests[key] = self._rows.digests[key][0], filing[key[1]]

    async def record(self, path: str, revision: int, digest: str, gone: Collection[str]) -> None:
        self._update_file(path, written=revision, digest=digest, writing=None)
        for key in self._keys_in(path):
            filed, filing = self._rows.digests[key]
            self._rows.digests[key] = filing or filed, None
        self._rows.leaving -= {(path, entry_id) for entry_id in gone}

    async def removed(self, path: str) -> bool:
        if self._keys_in(path):
            self._unwrite(path)
            return False
        self._forget_file(path)
        return True

    async def take_in(
        self,
        path: str,
        digest: str,
        change: EntryChange,
        filed: Mapping[str, str],
        *,
        settled_at: int | None = None,
        delay_ms: int = 0,
    ) -> None:
        before = self._rows.files.get(path)
        self._apply(change, {path: delay_ms})
        file = self._rows.files.get(path) or EntryFileState(path, change.space, change.owner, 1, 1)
        file = self._rows.files[path] = replace(file, digest=digest, writing=None)
        for key in self._keys_in(path):
            if key[1] in filed:
                self._rows.digests[key] = filed[key[1]], None
        if settled_at is not None and settled_at == (0 if before is None else before.revision):
            self._rows.files[path] = replace(file, written=file.revision)
            self._rows.leaving = {each for each in self._rows.leaving if each[0] != path}
            self._journal.jobs.drop(entries_lane(path), [ENTRIES])
        elif not file.is_written:
            await self.queue(path, delay_ms=delay_ms)

    async def write_anew(self, path: str) -> None:
        self._unwrite(path)
        await self.queue(path)

    async def queue(self, path: str, *, delay_ms: int = 0, **about: str) -> None:
        file = self._rows.files.get(path)
        space = path.partition("/")[0] if file is None else file.space
        dedupe = ":".join(f"{name}={value}" for name, value in about.items())
        due = self._journal.clock() + delay_ms
        self._journal.jobs.queue(
            ENTRIES, entries_lane(path), space, None, due, {"path": path, **about}, dedupe
        )

    async def space_of(self, owner: str) -> str | None:
        folder = owner.partition("/")[0]
        if file_name(folder) == folder:
            return folder
        spaces = {file.space for file in self._rows.files.values()} | {
            thread.space for thread in await self._threads()
        }
        return next((space for space in sorted(spaces) if file_name(space) == folder), None)

    async def thread_of(self, space: str, thread_folder: str) -> str | None:
        user, name = thread_folder.split("/")[2], thread_folder.rpartition("/")[2]
        for thread in await self._threads():
            if (thread.space, file_name(thread.user_id), file_name(thread.thread_id)) == (space, user, name):
                return thread.thread_id
        return None

    async def is_forgotten(self, space: str, thread_folder: str, turn_id: str) -> bool:
        user, name = thread_folder.split("/")[2], thread_folder.rpartition("/")[2]
        key = thread_key(space, await self.thread_of(space, thread_folder) or name)
        return any(
            (whose[0], file_name(whose[1]), whose[2]) == (space, user, key)
            and turn_number(turn_id) in buried.values()
            for whose, buried in self._journal.tombstones.items()
        )

    async def _threads(self) -> list[Thread]:
        spaces = await self._journal.coverage.spaces()
        return [
            thread for space in spaces for thread in await self._journal.threads.list_threads(space=space)
        ]

    def _apply(self, change: EntryChange, delays: Mapping[str, int]) -> None:
        before, self._rows = self._rows, self._rows.copy()
        touched: dict[str, int] = {}
        try:
            for known in change.put:
                self._put(change, known, touched, delays)
            for known in change.marked:
                follows = replace(change, actor="consolidation", cause=AFTER_A_PERSON)
                self._put(follows, known, touched, delays)
            for entry_id in change.remove:
                self._remove(change, entry_id, touched)
            if change.actor == "person":
                for line in self._lines_without_facts(change):
                    self._remove(replace(change, bury=False), line, touched)
                self._forget_words_of(change)
            for grave in change.graves:
                self._rows.buried[change.space, grave.entry_id] = (change.owner, grave)
            if (receipt := change.receipt) is not None:
                self._journal.existing(change.space, receipt.thread_id)
                self._rows.receipts[receipt.thread_id, receipt.cell, receipt.strategy] = receipt
        except Exception:
            self._rows = before
            raise
        self._queue(change, touched, delays)

    def _put(
        self, change: EntryChange, known: KnownEntry, touched: dict[str, int], delays: Mapping[str, int]
    ) -> None:
        if (known.space, known.owner) != (change.space, change.owner):
            raise ValueError(f"{known.entry_id} is of another owner than the change")
        key = (known.space, known.entry_id)
        before = self._rows.entries.get(key)
        if before is not None and before.owner != known.owner:
            raise Conflict(f"the id {known.entry_id} is taken")
        if before is not None and replace(known, path=known.path or before.path, revision=0) == replace(
            before, revision=0
        ):
            return
        is_derived = before is None and known.kind == PROFILE and change.actor == "consolidation"
        origins = [(known.space, origin) for origin in origin_ids(known.entry)]
        if is_derived and any(origin not in self._rows.entries for origin in origins):
            raise Conflict(f"what {known.entry_id} is made of was removed meanwhile")
        if (0 if before is None else before.revision) != known.revision:
            raise Conflict(f"{known.entry_id} was changed meanwhile")
        if before is None:
            path = self._new_place(known)
            if change.actor in ("person", "undo"):
                self._rows.buried.pop(key, None)
        else:
            stays = before.path in delays and known.path == before.path
            path = before.path if stays else self._kept_place(before, known)
            version = EntryVersion(
                before.revision, before.entry, change.actor, change.cause, self._journal.clock()
            )
            self._rows.past.setdefault(key, []).append(version)
        if before is None or path != before.path:
            self._rows.digests[key] = None, None
        self._rows.entries[key] = replace(known, path=path, revision=known.revision + 1)
        self._rows.leaving.discard((path, known.entry_id))
        if before is not None and path != before.path:
            self._leave(before, touched)
        self._touch(path, known, touched)

    def _remove(self, change: EntryChange, entry_id: str, touched: dict[str, int]) -> None:
        key = (change.space, entry_id)
        known = self._rows.entries.get(key)
        if known is None or known.owner != change.owner:
            return
        self._drop(key)
        if change.bury:
            turns = tuple(source.turn_id for source in known.sources)
            self._rows.buried[key] = known.owner, Buried(entry_id, known.kind, known.cell, turns)
        self._leave(known, touched)

    def _lines_without_facts(self, change: EntryChange) -> list[str]:
        return [
            known.entry_id
            for (space, _), known in self._rows.entries.items()
            if (space, known.owner, known.kind) == (change.space, change.owner, PROFILE)
            and not known.is_edited
            and (made_of := origin_ids(known.entry))
            and set(made_of) <= set(change.remove)
        ]

    def _forget_words_of(self, change: EntryChange) -> None:
        for key, past in self._rows.past.items():
            if key[0] == change.space and self._rows.entries[key].owner == change.owner:
                self._rows.past[key] = [
                    replace(each, entry=None) if is_made_of(each, change.remove) else each for each in past
                ]

    def _leave(self, known: KnownEntry, touched: dict[str, int]) -> None:
        if is_entry_path(known.path):
            self._rows.leaving.add((known.path, known.entry_id))
        self._touch(known.path, known, touched)

    def _touch(self, path: str, known: KnownEntry, touched: dict[str, int]) -> None:
        if not is_entry_path(path) or path in touched:
            return
        touched[path] = 1
        file = self._rows.files.get(path)
        self._rows.files[path] = (
            EntryFileState(path, known.space, known.owner, 1)
            if file is None
            else replace(file, revision=file.revision + 1)
        )

    def _queue(self, change: EntryChange, touched: Mapping[str, int], delays: Mapping[str, int]) -> None:
        thread_id = None if change.receipt is None else change.receipt.thread_id
        now, jobs = self._journal.clock(), self._journal.jobs
        for job in change.extra_jobs:
            is_turn = self._is_its_turn(job)
            run_at = now + job.delay_ms if is_turn else HELD
            if is_turn and "strategy" in job.payload:
                lane = own_lane(job.payload["strategy"], job.payload["owner"])
                self._reschedule(lane, job.kind, run_at, lambda waiting: waiting.run_at == HELD)
            if is_turn and job.restart:
                self._reschedule(job.lane, job.kind, run_at, lambda waiting: waiting.run_at < HELD)
            jobs.queue(job.kind, job.lane, change.space, thread_id, run_at, job.payload, job.dedupe)
        for path in sorted(touched):
            due = now + delays.get(path, 0)
            jobs.queue(ENTRIES, entries_lane(path), change.space, None, due, {"path": path})

    def _reschedule(self, lane: str, kind: str, run_at: int, wanted: Callable[[Job], bool]) -> None:
        waiting = self._journal.jobs._jobs
        for number, job in waiting.items():
            if (job.lane, job.kind, job.state) == (lane, kind, "queued") and wanted(job):
                waiting[number] = replace(job, run_at=run_at)

    def _is_its_turn(self, job: EntryJob) -> bool:
        key = job.lane, str(job.payload.get("strategy"))
        events = self._rows.counts.get(key, 0) + 1
        self._rows.counts[key] = 0 if events >= job.every else events
        return events >= job.every

    def _new_place(self, known: KnownEntry) -> str:
        if known.path or known.kind == SKILLS:
            return known.path
        when, part = known.entry.when, 1
        path = entry_path(known.owner, known.kind, when)
        if known.kind == PROFILE:
            return path
        while (following := entry_path(known.owner, known.kind, when, part + 1)) in self._rows.files:
            path, part = following, part + 1
        size = sum(
            len(render_entry(self._rows.entries[key].entry).encode()) + 1 for key in self._keys_in(path)
        )
        return following if size >= PART_BYTES else path

    def _kept_place(self, before: KnownEntry, after: KnownEntry) -> str:
        if after.path not in ("", before.path):
            return after.path
        day = day_of_path(before.path)
        if day != entry_day(before.entry.when) or day == entry_day(after.entry.when):
            return before.path
        return self._new_place(replace(after, path=""))

    def _oldest_first(self, space: str, owner: str, wanted: Callable[[KnownEntry], bool]) -> list[KnownEntry]:
        found = [
            known
            for known in self._rows.entries.values()
            if (known.space, known.owner) == (space, owner) and wanted(known)
        ]
        return sorted(found, key=lambda known: (known.entry.when, known.entry_id))

    def _keys_in(self, path: str) -> list[Key]:
        return [key for key, known in self._rows.entries.items() if known.path == path]

    def _digests(self, known: KnownEntry) -> frozenset[str]:
        told = self._rows.digests[known.space, known.entry_id]
        return frozenset(digest for digest in told if digest is not None)

    def _drop(self, key: Key) -> None:
        del self._rows.entries[key]
        del self._rows.digests[key]
        self._rows.past.pop(key, None)

    def _update_file(self, path: str, **changes: Any) -> None:
        if (file := self._rows.files.get(path)) is not None:
            self._rows.files[path] = replace(file, **changes)

    def _unwrite(self, path: str) -> None:
        self._update_file(path, written=0, digest=None, writing=None)
        for key in self._keys_in(path):
            self._rows.digests[key] = None, None

    def _forget_file(self, path: str) -> None:
        self._rows.files.pop(path, None)
        self._rows.leaving = {each for each in self._rows.leaving if each[0] != path}


class FakeModelAnswers:
    """Answers of threads that are in the journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._journal = journal
        self._kept: dict[tuple[str, str, str, str], tuple[str, KeptAnswer]] = {}

    async def answer(self, space: str, cell: str, name: str, digest: str) -> KeptAnswer | None:
        kept = self._kept.get((space, cell, name, digest))
        return None if kept is None else kept[1]

    async def keep(
        self, space: str, thread_id: str, cell: str, name: str, digest: str, answer: KeptAnswer
    ) -> None:
        try:
            self._journal.existing(space, thread_id)
        except NotFound:
            return
        self._kept.setdefault((space, cell, name, digest), (thread_id, answer))

    async def forget_cells(self, space: str, cells: Iterable[str]) -> None:
        gone = {(space, cell) for cell in cells}
        self._kept = {key: kept for key, kept in self._kept.items() if key[:2] not in gone}

    async def forget_thread(self, space: str, thread_id: str) -> None:
        self._kept = {
            key: kept for key, kept in self._kept.items() if (key[0], kept[0]) != (space, thread_id)
        }


def _newest_first(known: KnownEntry) -> tuple[int, str]:
    return -known.entry.when, known.entry_id


def _last(found: list[KnownEntry], newest: int | None) -> list[KnownEntry]:
    return found if newest is None else found[max(0, len(found) - newest) :]


def _compared(word: str) -> str:
    return word.strip().casefold()


def _the_fakes_have_their_ports(entries: FakeEntryStore, answers: FakeModelAnswers) -> None:
    """Read by mypy alone."""
    _1: EntryStore = entries
    _2: EntryFileStore = entries
    _3: ModelAnswers = answers
