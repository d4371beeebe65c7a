"""A journal, a vault and the sweep that keeps them together, with a person at the vault."""

from collections.abc import Awaitable, Callable

from recollect.domain.job import TRANSCRIBE, TRANSCRIPT_EDITS, Job
from recollect.domain.model import Append, NewTurn, ThreadRef, Turn
from recollect.failpoints import FailPoints
from recollect.infra.job_engine import Handler
from recollect.infra.vault import Vault
from recollect.service.forget.purge import ThreadPurger
from recollect.service.vault.reader import EditReports
from recollect.service.vault.sweep import VaultSweep
from recollect.service.vault.sync import FileSync
from recollect.service.vault.transcripts import Transcriber
from recollect.service.verify import Verifier
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault, ToldWatcher

ANN = "default/users/ann"
NOTE = f"{ANN}/notes/porto.md"


async def nothing(*_: object) -> None:
    """In a home without an index and images."""


def purging(
    journal: Journal, vault: Vault, forget_index: Callable[[ThreadRef], Awaitable[None]] = nothing
) -> Handler:
    """For a home in which a thread's files are all that has to follow the journal: other steps do nothing."""
    purger = ThreadPurger(journal.transcripts, vault, FailPoints(), forget_index, nothing)

    async def handle(job: Job) -> None:
        if "step" not in job.payload:
            await purger.handle(job)

    return handle


def part_of(thread: str, part: int = 1) -> str:
    return f"default/users/me/threads/{thread}/{part:04d}.md"


class House:
    """A journal and a vault with their jobs, a watcher that tells what it is told, and a person at the vault."""

    def __init__(self, journal: Journal, vault: PersonsVault, *followers: FileSync) -> None:
        self.journal, self.vault = journal, vault
        self.notes = journal.notes
        self.watcher = ToldWatcher()
        self.reports = EditReports()
        self.revised: list[ThreadRef] = []
        self.noted: list[set[str]] = []
        self.transcriber = Transcriber(
            self.journal.transcripts,
            self.vault,
            FailPoints(),
            self.revised.append,
            self.reports,
        )
        self.edits = self.editing(*followers)
        self.journal.jobs.handlers = {
            TRANSCRIBE: self.transcriber.handle,
            TRANSCRIPT_EDITS: self.transcriber.handle_edits,
        }

    def editing(self, *followers: FileSync) -> VaultSweep:
        return VaultSweep(
            self.notes,
            self.vault,
            self.watcher,
            self.reports,
            clock=self.journal.clock,
            settle_seconds=0,
            on_notes_changed=self.noted.append,
            followers=(self.transcriber, *followers),
        )

    async def talk(self, *threads: str) -> None:
        for thread in threads:
            turns = [NewTurn("user", f"{thread} says {number}", START, "ann") for number in range(3)]
            await self.journal.threads.append(Append("default", thread, turns))
        await self.work()
        await self.edits.sweep()

    async def work(self) -> int:
        return await self.journal.jobs.run_due()

    async def see(self, *paths: str) -> None:
        """The watcher tells of these paths, and the jobs that follow run."""
        await self.edits.look_at(paths)
        await self.work()

    async def sweep(self) -> None:
        await self.edits.sweep()
        await self.work()

    async def looks_asked_for(self) -> list[Job]:
        return [job for job in await self.journal.jobs.list_jobs(space=None) if job.kind == TRANSCRIPT_EDITS]

    async def turns(self, thread: str = "t1") -> list[Turn]:
        return await self.journal.history(thread)

    async def is_sound(self) -> bool:
        verifier = Verifier(
            self.journal.threads,
            self.journal.transcripts,
            self.journal.coverage,
            self.vault,
            self.transcriber,
        )
        return (await verifier.verify()).ok

    def edit(self, path: str, old: str, new: str) -> str:
        assert old in self.vault.files[path]
        self.vault.files[path] = self.vault.files[path].replace(old, new, 1)
        return self.vault.files[path]

    @property
    def conflicts(self) -> list[str]:
        return [text for path, text in self.vault.files.items() if "conflict" in path]
