"""A journal and a vault with files of entries, and a person at the vault."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from recollect.domain.entries.entry import FACTS, EntryChange, KnownEntry, Source
from recollect.domain.job import ENTRIES, Job, Unfinished
from recollect.domain.markdown.entry_file import render_entries
from recollect.domain.model import Append, Entry, NewTurn
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.jobs import SqlJobStore
from recollect.service.vault.entry_edits import EntryTaker
from recollect.service.vault.entry_files import EntryFiles
from recollect.service.vault.reader import EditReports
from recollect.service.verify import entry_problems
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault, new_vault

ANN = "default/users/ann"
TODAY, TOMORROW = f"{ANN}/facts/2026-05-08.md", f"{ANN}/facts/2026-05-09.md"
DAY = 86_400_000
SETTLED = 2000


def fact(number: int, text: str | None = None, when: int | None = None) -> KnownEntry:
    said = text or f"Ann likes number {number}."
    time = START + number if when is None else when
    entry = Entry(
        f"fa-{number}", said, said, time, ("threads/t1/0001#^t-1",), "facts, rules", {"cell": "c-1"}
    )
    return KnownEntry("default", ANN, FACTS, entry, (Source("ann", "t1", "t-1"),), "c-1", "facts")


def rendered(*entries: Entry) -> str:
    return render_entries(FACTS, "users/ann", entries)


class Died(Exception):
    """Stands for the process going away."""


class House:
    """A journal and a vault with their jobs, and a person at the vault."""

    def __init__(self, journal: Journal, vault: PersonsVault) -> None:
        self.journal, self.vault, self.clock = journal, vault, journal.clock
        self.entries = journal.entries
        self.store = SqlEntryFileStore(journal.database, clock=journal.clock)
        self.reports = EditReports()
        self.changed: list[set[str]] = []
        self.notes = journal.notes
        taker = EntryTaker(self.store, self.entries, vault, self.reports, self.clock)
        self.files = EntryFiles(self.store, vault, self.reports, taker, self.notes, self.changed.append)

    async def put(self, *known: KnownEntry, work: bool = True) -> None:
        await self.entries.apply(EntryChange("default", ANN, "extraction", "read", known))
        if work:
            await self.work()

    async def remove(self, *names: str) -> None:
        await self.entries.apply(EntryChange("default", ANN, "extraction", "gone", remove=names))
        await self.work()

    async def work(self, milliseconds: int = 0) -> None:
        """So much later, all that is due is done."""
        self.clock.advance(milliseconds)
        store = SqlJobStore(self.journal.database)
        while True:
            claimed, _ = await store.claim(self.clock(), self.clock() + 1, [([ENTRIES], 1)])
            if not claimed:
                return
            for job in claimed:
                try:
                    await self.files.handle(job)
                except Unfinished:
                    await store.put_back(job, self.clock(), attempts=0, error=None)
                except BaseException:
                    await store.put_back(job, self.clock(), attempts=1, error="died")
                    raise
                else:
                    await store.complete(job)

    async def die_at(self, target: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Work until a step at which the process goes away."""

        async def die(*_: object, **__: object) -> None:
            raise Died

        with monkeypatch.context() as patched:
            patched.setattr(target, name, die)
            with suppress(Died):
                await self.work()

    async def waiting(self) -> list[Job]:
        return [job for job in await self.journal.jobs.list_jobs(space=None) if job.kind == ENTRIES]

    async def save(self, path: str, text: str, *, wait: int = 0) -> None:
        """A person saves a file, the watcher tells, and the jobs that follow run."""
        self.vault.files[path] = text
        await self.files.look_at([path])
        await self.work()
        if wait:
            await self.work(wait)

    async def edit(self, path: str, old: str, new: str, *, wait: int = 0) -> None:
        text = self.read(path)
        assert old in text
        await self.save(path, text.replace(old, new), wait=wait)

    def read(self, path: str) -> str:
        return self.vault.files[path]

    async def texts(self) -> list[str]:
        return [known.entry.text for known in await self.entries.list_entries("default", ANN)]

    async def got(self, name: str) -> KnownEntry:
        known = await self.entries.get("default", name)
        assert known is not None
        return known

    async def is_sound(self) -> bool:
        assert await entry_problems(self.store, self.vault) == []
        return True


@asynccontextmanager
async def entry_house(folder: Path) -> AsyncIterator[House]:
    async with Journal(folder / "journal.db") as journal:
        await journal.threads.append(Append("default", "t1", [NewTurn("user", "Hi.", START, "ann")], "ann"))
        yield House(journal, await new_vault(folder / "vault"))
