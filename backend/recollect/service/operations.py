"""Health, jobs, backups, and the state of the model servers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recollect.domain.access import Caller
from recollect.domain.job import WRITES_FILES, Job, JobState
from recollect.domain.llm import BackendFacts
from recollect.domain.markdown.front_matter import write_time
from recollect.errors import Conflict, ModelUnavailable, NotFound, Refused, StorageUnavailable, Unavailable
from recollect.infra.archive import pack, unpack
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.configured import AnyBackend, Backend, Backends
from recollect.infra.backends.local_model import LocalModel
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.connector import Connector
from recollect.infra.ledger import LEDGER, Ledger
from recollect.infra.vault import Vault
from recollect.service.coordination import Progress, no_progress
from recollect.service.models.background import BackgroundModel
from recollect.service.models.llama_slots import LlamaSlots
from recollect.settings import TOML_NAME, VAULT, Settings

_LATE_MS = 60_000


@dataclass(slots=True)
class Health:
    """`degraded` says what does not work and what to do about it. It names no user and no thread: anybody may ask."""

    ready: bool = True
    degraded: list[str] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)
    oldest_job_wait_ms: int = 0


_CONNECT = (
    "connect one under Settings on the web page, start one on this machine (Ollama, LM Studio, llama.cpp), or set"
    " RECOLLECT_LLM__BASE_URL"
)
_UNASKED_SECONDS = 1.0


async def missing_parts(backends: Backends, small_model: LocalModel, settings: Settings) -> list[str]:
    """What is not set up, what it would add, and how to get it: known before anything has failed."""
    hints = []
    if not await backends.has_chat_model():
        if small_model.is_set_up():
            hint = f"Chats are answered by the bundled model, a demonstration whose answers are not remembered: {_CONNECT}."
        else:
            hint = f"There is no model to chat with: {_CONNECT}. For a demonstration run 'recollect setup'."
        if not await backends.has_model():
            hint += " Without a model only episodes are made of conversations; with one facts, plans and a profile, too."
        hints.append(hint)
    if settings.embedding.kind == "onnx" and not await asyncio.to_thread(settings.model_folder.is_dir):
        hints.append(
            f"Search goes by words alone, because there is no embedding model in {settings.model_folder}."
            " Unset RECOLLECT_EMBEDDING__FOLDER and restart the server: then the model in the package is used."
        )
    return hints


async def ask_unasked(backends: Sequence[AnyBackend]) -> None:
    """Ask configured servers that never answered yet, for a moment: then each tells its own problem."""
    unasked = [each for each in backends if isinstance(each, HttpBackend) and each.last_activity is None]
    if unasked:
        asking = asyncio.gather(*(_facts(each) for each in unasked))
        await asyncio.wait([asking], timeout=_UNASKED_SECONDS)


async def check_health(
    journal_problem: Callable[[], str | None],
    vault: Vault,
    jobs: JobEngine,
    *others: Callable[[], str | None],
) -> Health:
    """Ready means: a message that comes in now can be taken. `others` tell in words what else does not work."""
    health = Health()
    if (problem := journal_problem()) is not None:
        health.ready = False
        health.degraded.append(problem)
    if (problem := vault.problem()) is not None:
        oldest = await _oldest_file(jobs)
        health.degraded.append(
            f"{problem}; messages are kept in the journal and written when it is back{oldest}"
        )
    health.degraded += [problem for other in others if (problem := other()) is not None]
    try:
        await _look_at_jobs(health, jobs)
    except Unavailable as error:
        health.ready = False
        health.degraded.append(error.message)
    return health


async def _oldest_file(jobs: JobEngine) -> str:
    """How long the oldest file waits to be written, in words."""
    try:
        waited = await jobs.oldest_age_ms(WRITES_FILES)
    except Unavailable:
        return ""  # The journal, whose problem is told apart.
    return f" (the oldest waits for {waited // 1000} s)" if waited >= 1000 else ""


async def _look_at_jobs(health: Health, jobs: JobEngine) -> None:
    health.jobs = await jobs.counts()
    health.oldest_job_wait_ms = await jobs.oldest_wait_ms()
    if dead := health.jobs.get("dead"):
        dead_jobs = "1 job is dead" if dead == 1 else f"{dead} jobs are dead"
        health.degraded.append(f"{dead_jobs}: see 'recollect jobs', then 'recollect jobs retry'")
    if troubled := await jobs.in_trouble():
        waiting = "1 job waits" if troubled == 1 else f"{troubled} jobs wait"
        health.degraded.append(f"{waiting} after an error or for a quota: see 'recollect jobs'")
    if health.oldest_job_wait_ms > _LATE_MS:
        health.degraded.append(f"the oldest job has waited for {health.oldest_job_wait_ms // 1000} s")


async def list_jobs(
    jobs: JobEngine, caller: Caller, state: JobState | None, limit: int, after: int
) -> list[Job]:
    """The jobs of the caller's space, oldest first; with a user's key, those of the user's threads.

    The command line on this machine sees those of every space.
    """
    return await jobs.list_jobs(
        space=None if caller.local_operator else caller.space,
        user_id=caller.user_id,
        state=state,
        limit=limit,
        after=after,
    )


async def retry_job(jobs: JobEngine, model: BackgroundModel, caller: Caller, job_id: int) -> Job:
    """Queue a dead job again. The person who asks for it need not wait for a backend's rest."""
    job = await jobs.get(job_id)
    if job is None or not _may_see(caller, job):
        raise NotFound(f"there is no job {job_id}")
    if job.state != "dead":
        doing = "runs now" if job.state == "running" else f"waits to run at {write_time(job.run_at)}"
        raise Conflict(f"job {job_id} {doing}; only dead jobs can be retried")
    model.rests.clear()
    return await jobs.retry(job_id)


def _may_see(caller: Caller, job: Job) -> bool:
    mine = job.space == caller.space and caller.user_id in (None, job.user_id)
    return caller.local_operator or mine


JOURNAL_NAME = "journal.db"


async def backup(
    caller: Caller,
    jobs: JobEngine,
    settings: Settings,
    journal: Connector,
    vault: Vault,
    ledger: Ledger,
    target: Path,
    progress: Progress = no_progress,
) -> int:
    """Copy journal and vault into `target` while the server runs; returns how many files it holds.

    No file is written meanwhile, so the vault is what the journal says it is; messages are still accepted.
    """
    if not caller.local_operator:
        raise Refused("backups are made with 'recollect backup' on the machine that runs the server")
    if not vault.is_there():
        raise StorageUnavailable(
            "the vault is missing, and a backup without it would be none; bring it back first"
        )
    copy = target.with_name(target.name + ".journal")
    try:
        async with jobs.paused(WRITES_FILES):
            await journal.copy_to(copy)
            packed = {JOURNAL_NAME: copy.read_bytes, **await files_to_back_up(settings.home, vault, ledger)}
            await asyncio.to_thread(pack, target, packed, progress)
    finally:
        copy.unlink(missing_ok=True)
    return await asyncio.to_thread(unpack, target, None, no_progress)


async def files_to_back_up(home: Path, vault: Vault, ledger: Ledger) -> dict[str, Callable[[], bytes]]:
    """What reads everything that a backup holds besides the journal, by its place in the home."""
    files = {f"{VAULT}/{path}": read for path, read in (await vault.sources()).items()}
    if (lines := await ledger.content()) is not None:
        files[LEDGER] = lambda: lines
    if (settings := home / TOML_NAME).is_file():
        files[TOML_NAME] = settings.read_bytes
    return files


_PATIENCE_SECONDS = 3.0
"""A server that takes longer is shown without its facts; it is asked on."""


@dataclass(frozen=True, slots=True)
class BackendView:
    """A backend; `facts` is None where it doesn't answer, `pinned` counts the slots that hold a thread."""

    backend: Backend
    facts: BackendFacts | None
    pinned: int
    problem: str | None


async def look_at_backends(backends: Sequence[Backend], slots: LlamaSlots) -> list[BackendView]:
    """All of them, asked at the same time. One that doesn't answer keeps nobody waiting for long."""
    return await asyncio.gather(*(_look(backend, slots) for backend in backends))


async def _look(backend: Backend, slots: LlamaSlots) -> BackendView:
    facts, slow = None, None
    asking = asyncio.ensure_future(_facts(backend))
    try:
        facts = await asyncio.wait_for(asyncio.shield(asking), _PATIENCE_SECONDS)
    except TimeoutError:
        slow = "it has not answered yet"
    return BackendView(backend, facts, slots.pinned(backend), backend.problem() or slow)


async def _facts(backend: Backend) -> BackendFacts | None:
    try:
        return await backend.facts()
    except ModelUnavailable:
        return None  # Its `problem` says why.
