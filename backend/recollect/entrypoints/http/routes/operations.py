"""Coverage, jobs, health, metrics, statistics; keys, verify and backup for the operator on this machine."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from recollect import __version__
from recollect.app import App
from recollect.domain.access import Caller
from recollect.domain.job import WRITES_FILES
from recollect.entrypoints.http import answers
from recollect.entrypoints.http import people_schemas as schemas
from recollect.entrypoints.http.deps import (
    Calling,
    Home,
    PathId,
    UserQuery,
    asked_on_this_machine,
    is_operator,
    note,
)
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.errors import body_of, documented
from recollect.entrypoints.http.requests import Id, KeyBody, RotateBody, UpgradeBody, VerifyBody
from recollect.errors import Conflict, RecollectError, Refused
from recollect.service.access import keys
from recollect.service.coordination import Progress
from recollect.service.models.choice import default_model, may_connect
from recollect.service.operations import (
    ask_unasked,
    backup,
    check_health,
    list_jobs,
    look_at_backends,
    missing_parts,
    retry_job,
)
from recollect.service.recall.verify import index_problem, meaning_problem
from recollect.service.threads import get_coverage

router = APIRouter(tags=["operations"], route_class=BodyRoute)
LARGEST_ID = 2**62


@router.get("/api/v1/coverage", responses=documented(404, 409))
async def coverage(
    request: Request,
    home: Home,
    caller: Calling,
    session_id: Annotated[Id | None, Query()] = None,
    user_id: UserQuery = None,
) -> answers.CoverageAnswer:
    """Where every accepted message is: of one session, or of all that the caller may see."""
    note(request, thread=session_id)
    return answers.CoverageAnswer.of(
        await get_coverage(home.THREADS, home.coverage, caller, session_id, user_id)
    )


@router.get("/api/v1/jobs", responses=documented(), response_model_exclude_unset=True)
async def get_jobs(
    home: Home,
    caller: Calling,
    state: Annotated[Literal["queued", "running", "dead"] | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
) -> answers.JobsAnswer:
    """Jobs that are not done, oldest first."""
    found = await list_jobs(home.jobs, caller, state, limit + 1, after)
    page = [answers.JobAnswer.of(job) for job in found[:limit]]
    return answers.JobsAnswer(jobs=page, **answers.next_page(found, limit, lambda job: job.job_id))


@router.post("/api/v1/jobs/{job_id}/retry", responses=documented(404, 409))
async def retry(
    home: Home, caller: Calling, job_id: Annotated[int, Path(ge=0, le=LARGEST_ID)]
) -> answers.JobAnswer:
    """Queue a dead job again."""
    return answers.JobAnswer.of(await retry_job(home.jobs, home.talking.background, caller, job_id))


@router.get("/health/live")
async def live() -> answers.LiveAnswer:
    """The process is there and answers."""
    return answers.LiveAnswer(version=__version__)


@router.get("/health", responses={503: {"model": answers.HealthAnswer, "description": "Not ready."}})
async def health(home: Home, request: Request) -> JSONResponse:
    """Ready to take messages? And what is degraded?"""
    is_told_places = is_operator(request)
    indexer, backends = home.search.indexer, home.talking.backends
    await ask_unasked(backends.all())
    checked = await check_health(
        home.database.connector.problem,
        home.vault,
        home.jobs,
        home.vault_sweep.problem,
        home.vault_sweep.notes_problem,
        home.vault_sweep.reports.problem,
        home.watcher.problem,
        home.entry_files.problem,
        home.prompt_texts.problem,
        home.people_files.problem,
        lambda: home.tuning.problem,
        lambda: index_problem(indexer),
        lambda: home.search.reindexer.problem or meaning_problem(indexer),
        lambda: (
            home.index.last_problem and f"the index cannot be compacted and grows: {home.index.last_problem}"
        ),
        home.audit.problem,
        *(backend.problem for backend in backends.all()),
    )
    status = "unavailable" if not checked.ready else "degraded" if checked.degraded else "ok"
    answer = answers.HealthAnswer(
        status=status,
        version=__version__,
        degraded=checked.degraded,
        jobs=checked.jobs,
        oldest_job_wait_ms=checked.oldest_job_wait_ms,
        backends=[
            answers.BackendHealth(name=each.name, problem=each.problem(), label=each.label)
            for each in backends.all()
        ],
        hints=await missing_parts(backends, home.small_model, home.settings),
        embedding_model=home.search.model,
        journal=home.database.connector.engine if is_told_places else None,
        files=home.vault.place if is_told_places else None,
    )
    return JSONResponse(answer.model_dump(), 200 if checked.ready else 503)


@router.get(
    "/metrics", response_class=Response, responses={**documented(), 200: {"content": {"text/plain": {}}}}
)
async def metrics(home: Home, caller: Calling) -> Response:
    """Figures of the whole server, in Prometheus' form. For the operator: a key of the whole space, with `admin`."""
    if caller.user_id is not None:
        raise Refused("metrics are about everybody: use a key that belongs to no single user")
    counts = await home.jobs.counts()
    for state in ("queued", "running", "dead"):
        home.metrics.jobs.labels(state).set(counts.get(state, 0))
    home.metrics.jobs_finished.set(home.jobs.finished)
    home.metrics.jobs_failed.set(home.jobs.failed)
    home.metrics.oldest_job.set(await home.jobs.oldest_wait_ms() / 1000)
    home.metrics.commits.set(home.database.connector.groups)
    home.metrics.writes.set(home.database.connector.operations)
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
    metrics.index_memory.set(search.corpus_cache.bytes_used)
    metrics.index_damaged.set(search.corpus_cache.damaged)
    metrics.compaction_failures.set(home.index.compaction_failures)
    metrics.embedded.set(search.indexer.meaning.embedded)
    reports = home.vault_sweep.reports
    for outcome, number in (
        ("revised", reports.revisions),
        ("restored", reports.restored),
        ("unreadable", reports.unreadable),
    ):
        metrics.transcript_edits.labels(outcome).set(number)


operator_router = APIRouter(prefix="/api/v1", tags=["operator"], route_class=BodyRoute)
_MOST_SILENT = 100
"""Tenths of a second: proxies break off what is silent for longer."""
LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-ndjson": {}}, "description": "Progress lines, then the result."}
}


@operator_router.post("/keys", status_code=201, responses=documented())
async def create_key(home: Home, caller: Calling, body: KeyBody, request: Request) -> answers.NewKeyAnswer:
    """Make a key. Its secret is in this answer and nowhere else."""
    key, secret = await keys.create_key(home.keys, home.clock, caller, **dict(body))
    await home.bring_ledger_up()
    note(request, key=key.key_id, space=key.space, user=key.user_id)
    return answers.NewKeyAnswer.made(key, secret)


@operator_router.post("/keys/open", responses=documented(409))
async def open_server(home: Home, caller: Calling) -> answers.KeysAnswer:
    """Let requests without a key in again, on loopback. 409: a key is in force."""
    await keys.open_server(home.keys, home.clock, caller)
    return await list_keys(home, caller)


@operator_router.post("/keys/{key_id}/rotate", status_code=201, responses=documented(404, 409))
async def rotate_key(
    home: Home, caller: Calling, key_id: PathId, body: RotateBody, request: Request
) -> answers.NewKeyAnswer:
    """Make a new secret for the same space, user and scopes. The old key ends after the overlap. 409: it has ended."""
    key, secret = await keys.rotate_key(home.keys, home.clock, caller, key_id, body.overlap_seconds * 1000)
    note(request, new_key=key.key_id, space=key.space, user=key.user_id)
    return answers.NewKeyAnswer.made(key, secret)


@operator_router.get("/keys", responses=documented())
async def list_keys(home: Home, caller: Calling) -> answers.KeysAnswer:
    found = [answers.KeyAnswer.of(key) for key in await keys.list_keys(home.keys, caller)]
    return answers.KeysAnswer(keys=found, closed=home.keys.closed_at is not None)


@operator_router.delete("/keys/{key_id}", responses=documented(404))
async def revoke_key(
    home: Home, caller: Calling, key_id: PathId, request: Request
) -> answers.RevokedKeyAnswer:
    """Revoke a key, at once and for good. After the last one the server stays closed, on loopback too."""
    key, left = await keys.revoke_key(home.keys, home.clock, caller, key_id)
    note(request, space=key.space, user=key.user_id)
    return answers.RevokedKeyAnswer(**answers.KeyAnswer.of(key).model_dump(), keys_left=left)


@operator_router.post("/verify", response_class=StreamingResponse, responses={**documented(), **LINES})
async def verify(home: Home, caller: Calling, body: VerifyBody) -> StreamingResponse:
    """Check every message and every transcript. Lines of JSON: progress, at last the result or an error."""
    _operators_only(caller)

    async def work(progress: Progress) -> dict[str, Any]:
        if body.forgotten:
            proof = await home.forgotten_verifier.verify(progress)
            return {"ok": proof.ok, **asdict(proof)}
        await home.vault_sweep.catch_up(home.jobs)
        if body.repair:
            await home.vault.recreate()
            async with home.jobs.paused(WRITES_FILES):
                found = await home.verifier.verify(repair=True, progress=progress)
            await home.vault_sweep.accept_losses()
        else:
            found = await home.verifier.verify(progress=progress)
        return {"ok": found.ok, **asdict(found)}

    return StreamingResponse(lines(work), media_type="application/x-ndjson")


@operator_router.post("/backup", response_class=StreamingResponse, responses={**documented(409), **LINES})
async def make_backup(home: Home, caller: Calling, request: Request) -> StreamingResponse:
    """Write a backup into the home's folder `backups`. Lines of JSON: progress, at last the path.

    409: another of several servers leads.
    """
    _operators_only(caller)
    asked_on_this_machine(request)
    target = home.settings.home / "backups" / f"recollect-{home.clock()}.tar.gz"

    async def work(progress: Progress) -> dict[str, Any]:
        target.parent.mkdir(exist_ok=True)
        stores = home.database.connector, home.vault, home.ledger_outbox.ledger
        count = await backup(caller, home.jobs, home.settings, *stores, target, progress)
        return {"path": str(target), "files": count}

    return StreamingResponse(lines(work), media_type="application/x-ndjson")


@operator_router.post("/reindex", response_class=StreamingResponse, responses={**documented(409), **LINES})
async def reindex(home: Home, caller: Calling) -> StreamingResponse:
    """Rebuild the index beside the live one, prove it, and swap. Lines of JSON: progress, at last the result."""
    _operators_only(caller)

    async def work(progress: Progress) -> dict[str, Any]:
        return asdict(await home.search.reindexer.reindex(progress))

    return StreamingResponse(lines(work), media_type="application/x-ndjson")


@operator_router.post("/upgrade", response_class=StreamingResponse, responses={**documented(409), **LINES})
async def upgrade(home: Home, caller: Calling, body: UpgradeBody) -> StreamingResponse:
    """Write old files of the vault in the form of today, or put them back. Lines of JSON: progress, then the result.

    409: the server is one of several.
    """
    _operators_only(caller)
    if home.settings.member_url is not None:
        raise Conflict(
            "this server is one of several, and keeps nothing in its home, where the files of before would be:"
            " stop all of them, and run this with RECOLLECT_MEMBER_URL unset, in a home that stays"
        )

    async def work(progress: Progress) -> dict[str, Any]:
        home.vault.refuse_if_missing()
        await home.vault_sweep.catch_up(home.jobs)
        async with home.jobs.paused(WRITES_FILES):
            upgrader = home.upgrader
            return asdict(await (upgrader.undo if body.undo else upgrader.upgrade)(progress))

    return StreamingResponse(lines(work), media_type="application/x-ndjson")


def _operators_only(caller: Caller) -> None:
    if not caller.local_operator:
        raise Refused("this is for the 'recollect' command on the machine that runs the server")


async def lines(work: Callable[[Progress], Awaitable[dict[str, Any]]]) -> AsyncIterator[str]:
    """Run `work` and tell how far it is, at most ten times a second, and now and then that it goes on."""
    loop = asyncio.get_running_loop()
    latest: list[tuple[int, int]] = []
    done = total = silent = 0

    def progress(done: int, total: int) -> None:
        loop.call_soon_threadsafe(latest.append, (done, total))

    task = asyncio.ensure_future(work(progress))
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=0.1)
            silent += 1
            if latest or silent > _MOST_SILENT:
                done, total = latest[-1] if latest else (done, total)
                latest.clear()
                silent = 0
                yield json.dumps({"done": done, "total": total}) + "\n"
        yield json.dumps({"result": task.result()}) + "\n"
    except RecollectError as error:
        yield json.dumps(body_of(error)) + "\n"
    finally:
        task.cancel()


@router.get("/api/v1/backends", responses=documented())
async def get_backends(home: Home, caller: Calling) -> schemas.BackendsAnswer:
    """The models' servers: what each is, what it offers, and what is wrong with it."""
    backends = home.talking.backends.all()
    found = await look_at_backends(backends, home.talking.slots)
    active = [None if caller.user_id is not None else backend.last_activity for backend in backends]
    return schemas.BackendsAnswer(
        backends=[schemas.BackendAnswer.of(view, last) for view, last in zip(found, active, strict=True)]
    )


@router.get("/api/v1/cache", responses=documented(404))
async def get_cache(
    home: Home, caller: Calling, user_id: UserQuery = None, limit: Annotated[int, Query(ge=1, le=1000)] = 200
) -> schemas.CacheAnswer:
    """How much of their prompts the backends' caches held, answer by answer."""
    found = await home.chats.prompt_costs(caller.space, caller.acting_for(user_id), limit)
    return schemas.CacheAnswer(answers=[schemas.CachedPrompt.of(cost) for cost in found])


@router.get("/api/v1/index", responses=documented())
async def get_index(home: Home, caller: Calling) -> schemas.IndexAnswer:
    """The size of the index, and what waits for it; not for a key that belongs to one user."""
    if caller.user_id is not None:
        raise Refused("the index is everybody's: use a key that belongs to no single user")
    files, size = await home.index.size()
    words, meaning = home.search.indexer.waiting
    reembedded = home.search.reindexer.progress
    return schemas.IndexAnswer(
        files=files,
        bytes=size,
        memory_bytes=home.search.corpus_cache.bytes_used,
        waiting_words=words,
        waiting_meaning=meaning,
        model=home.search.model,
        index_model=home.search.indexer.live.model,
        rebuilding=None
        if reembedded is None
        else schemas.RebuildingAnswer(embedded=reembedded[0], texts=reembedded[1]),
    )


@router.get("/api/v1/model", responses=documented())
async def get_model(home: Home, caller: Calling) -> schemas.DefaultModelAnswer:
    """Where the default model comes from, and whether this caller may connect another one."""
    found = await default_model(home.talking.backends, home.small_model, home.settings)
    return schemas.DefaultModelAnswer.told(found, may_connect=may_connect(caller))


@router.put("/api/v1/model", responses=documented(409))
async def put_model(home: Home, caller: Calling, body: schemas.ModelBody) -> schemas.ConnectedAnswer:
    """Try a model, write it into `recollect.toml`, and use it from now on. 422 names the field that is wrong."""
    key = None if body.api_key is None else body.api_key.get_secret_value()
    return schemas.ConnectedAnswer.of(await home.connect_model(caller, body.base_url, key, body.model))
