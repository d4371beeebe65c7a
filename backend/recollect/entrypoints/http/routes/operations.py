"""Operations: coverage, jobs, health, metrics."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from recollect import __version__
from recollect.app import App
from recollect.entrypoints.http.answers import (
    BackendHealth,
    CoverageAnswer,
    HealthAnswer,
    JobAnswer,
    JobsAnswer,
    LiveAnswer,
)
from recollect.entrypoints.http.bodies import Id
from recollect.entrypoints.http.dependencies import Calling, Home, UserQuery, note
from recollect.entrypoints.http.errors import documented
from recollect.errors import Refused
from recollect.service.coverage import get_coverage
from recollect.service.health import check_health
from recollect.service.index_health import compaction_problem, index_problem, meaning_problem
from recollect.service.jobs import list_jobs, retry_job
from recollect.wiring.backends import AnyBackend

router = APIRouter(tags=["operations"])
LARGEST_ID = 2**62


@router.get("/api/v1/coverage", responses=documented(404))
async def coverage(
    request: Request,
    home: Home,
    caller: Calling,
    session_id: Annotated[Id | None, Query()] = None,
    user_id: UserQuery = None,
) -> CoverageAnswer:
    """Where every accepted message is: of one session, or of all that the caller may see."""
    note(request, thread=session_id)
    return CoverageAnswer.of(await get_coverage(home.coverage, home.THREADS, caller, session_id, user_id))


@router.get("/api/v1/jobs", responses=documented(), response_model_exclude_unset=True)
async def get_jobs(
    home: Home,
    caller: Calling,
    state: Annotated[Literal["queued", "running", "dead"] | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
) -> JobsAnswer:
    """Jobs that are not done, oldest first."""
    found = await list_jobs(home.jobs, caller, state, limit + 1, after)
    page = [JobAnswer.of(job) for job in found[:limit]]
    return JobsAnswer(jobs=page, next=page[-1].job_id) if len(found) > limit else JobsAnswer(jobs=page)


@router.post("/api/v1/jobs/{job_id}/retry", responses=documented(404))
async def retry(home: Home, caller: Calling, job_id: Annotated[int, Path(ge=0, le=LARGEST_ID)]) -> JobAnswer:
    """Queue a dead job again."""
    return JobAnswer.of(await retry_job(home.jobs, home.THREADS, caller, job_id))


@router.get("/health/live")
async def live() -> LiveAnswer:
    """The process is there and answers."""
    return LiveAnswer(version=__version__)


@router.get("/health", responses={503: {"model": HealthAnswer, "description": "Not ready."}})
async def health(home: Home) -> JSONResponse:
    """Ready to take messages? And what is degraded?"""
    indexer = home.search.indexer
    checked = await check_health(
        home.database.problem,
        home.vault,
        home.jobs,
        home.hand_edits.problem,
        home.hand_edits.notes_problem,
        home.watcher.problem,
        home.entry_files.problem,
        lambda: home.tuning.problem,
        lambda: index_problem(indexer),
        lambda: meaning_problem(indexer),
        lambda: compaction_problem(home.index.last_problem),
        *(backend.problem for backend in home.talking.backends.all()),
    )
    status = "unavailable" if not checked.ready else "degraded" if checked.degraded else "ok"
    answer = HealthAnswer(
        status=status,
        version=__version__,
        degraded=checked.degraded,
        jobs=checked.jobs,
        oldest_job_wait_ms=checked.oldest_job_wait_ms,
        backends=[_backend(backend) for backend in home.talking.backends.all()],
    )
    return JSONResponse(answer.model_dump(), 200 if checked.ready else 503)


def _backend(backend: AnyBackend) -> BackendHealth:
    last = backend.last_activity
    return BackendHealth(
        name=backend.name,
        last_activity=None if last is None else int(last.timestamp() * 1000),
        problem=backend.problem(),
        label=backend.label,
    )


@router.get(
    "/metrics", response_class=Response, responses={**documented(), 200: {"content": {"text/plain": {}}}}
)
async def metrics(home: Home, caller: Calling) -> Response:
    """Figures of the whole server, in Prometheus' form; not for a key that belongs to one user."""
    if caller.user_id is not None:
        raise Refused("metrics are about everybody: use a key that belongs to no single user")
    counts = await home.jobs.counts()
    for state in ("queued", "running", "dead"):
        home.metrics.jobs.labels(state).set(counts.get(state, 0))
    home.metrics.jobs_finished.set(home.jobs.finished)
    home.metrics.jobs_failed.set(home.jobs.failed)
    home.metrics.oldest_job.set(await home.jobs.oldest_wait_ms() / 1000)
    home.metrics.commits.set(home.database.groups)
    home.metrics.writes.set(home.database.operations)
    home.metrics.conflicts.set(home.vault.conflicts)
    await _observe_search(home)
    _observe_gate(home)
    text = await asyncio.to_thread(home.metrics.render)
    return Response(text, media_type="text/plain; version=0.0.4")


def _observe_gate(home: App) -> None:
    state, metrics = home.talking.gate.state(), home.metrics
    for what, number in (("chats", state.chats), ("running", state.running), ("waiting", state.waiting)):
        metrics.gate.labels(what).set(number)
    metrics.gate_oldest_wait.set(state.oldest_wait_seconds)
    metrics.gate_preempted.set(state.preempted)


async def _observe_search(home: App) -> None:
    search, metrics = home.search, home.metrics
    for stage, number in zip(("words", "meaning"), search.indexer.waiting, strict=True):
        metrics.index_waiting.labels(stage).set(number)
    files, size = await home.index.size()
    metrics.index_files.set(files)
    metrics.index_bytes.set(size)
    metrics.index_memory.set(search.corpora.bytes_used)
    metrics.index_damaged.set(search.corpora.damaged)
    metrics.compaction_failures.set(home.index.compaction_failures)
    metrics.embedded.set(search.embedded_texts)
    reports = home.hand_edits.reports
    for outcome, number in (
        ("revised", reports.revisions),
        ("restored", reports.restored),
        ("unreadable", reports.unreadable),
    ):
        metrics.hand_edits.labels(outcome).set(number)
