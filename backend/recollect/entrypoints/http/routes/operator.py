"""For the command line on the server's own machine: keys, verify, backup. Nobody else is let in."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from recollect.entrypoints.http.answers import KeyAnswer, KeysAnswer, NewKeyAnswer
from recollect.entrypoints.http.bodies import KeyBody, VerifyBody
from recollect.entrypoints.http.dependencies import Calling, Home, PathId
from recollect.entrypoints.http.errors import documented, error_body
from recollect.errors import RecollectError, Refused
from recollect.memory.access import Caller
from recollect.memory.job import WRITES_FILES
from recollect.service import keys
from recollect.service.backup import backup
from recollect.service.ports import Progress
from recollect.service.verify import Verification

router = APIRouter(prefix="/api/v1", tags=["operator"])
LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/x-ndjson": {}}, "description": "Progress lines, then the result."}
}


@router.post("/keys", status_code=201, responses=documented())
async def create_key(home: Home, caller: Calling, body: KeyBody) -> NewKeyAnswer:
    """Make a key. Its secret is in this answer and nowhere else."""
    key, secret = await keys.create_key(
        home.keys, home.clock, caller, space=body.space, user_id=body.user_id, name=body.name
    )
    return NewKeyAnswer(**KeyAnswer.of(key).model_dump(), secret=secret)


@router.get("/keys", responses=documented())
async def list_keys(home: Home, caller: Calling) -> KeysAnswer:
    return KeysAnswer(keys=[KeyAnswer.of(key) for key in await keys.list_keys(home.keys, caller)])


@router.delete("/keys/{key_id}", responses=documented(404))
async def revoke_key(home: Home, caller: Calling, key_id: PathId) -> KeyAnswer:
    return KeyAnswer.of(await keys.revoke_key(home.keys, home.clock, caller, key_id))


@router.post("/verify", response_class=StreamingResponse, responses={**documented(), **LINES})
async def verify(home: Home, caller: Calling, body: VerifyBody) -> StreamingResponse:
    """Check every message and every transcript. Lines of JSON: progress, at last the result or an error."""
    _operators_only(caller)

    async def work(progress: Progress) -> dict[str, Any]:
        if body.forgotten:
            proof = await home.forgotten_verifier.verify(progress)
            return {"ok": proof.ok, **asdict(proof)}
        await home.hand_edits.catch_up(home.jobs)
        if not body.repair:
            return verification_json(await home.verifier.verify(progress=progress))
        await home.vault.make_anew()
        async with home.jobs.paused(WRITES_FILES):
            repaired = await home.verifier.verify(repair=True, progress=progress)
        await home.hand_edits.accept_losses()
        return verification_json(repaired)

    return StreamingResponse(_lines(work), media_type="application/x-ndjson")


@router.post("/backup", response_class=StreamingResponse, responses={**documented(), **LINES})
async def make_backup(home: Home, caller: Calling) -> StreamingResponse:
    """Write a backup into the home's folder `backups`. Lines of JSON: progress, at last the path."""
    _operators_only(caller)
    target = home.settings.home / "backups" / f"recollect-{home.clock()}.tar.gz"

    async def work(progress: Progress) -> dict[str, Any]:
        target.parent.mkdir(exist_ok=True)
        count = await backup(
            caller, home.jobs, home.copier, home.vault, home.archiver, target, home.files_to_back_up, progress
        )
        return {"path": str(target), "files": count}

    return StreamingResponse(_lines(work), media_type="application/x-ndjson")


@router.post("/reindex", response_class=StreamingResponse, responses={**documented(409), **LINES})
async def reindex(home: Home, caller: Calling) -> StreamingResponse:
    """Make the index anew beside the live one, prove it, and swap. Lines of JSON: progress, at last the result."""
    _operators_only(caller)

    async def work(progress: Progress) -> dict[str, Any]:
        return asdict(await home.search.reindexer.reindex(progress))

    return StreamingResponse(_lines(work), media_type="application/x-ndjson")


def verification_json(result: Verification) -> dict[str, Any]:
    return {"ok": result.ok, **asdict(result)}


def _operators_only(caller: Caller) -> None:
    if not caller.local_operator:
        raise Refused("this is for the 'recollect' command on the machine that runs the server")


async def _lines(work: Callable[[Progress], Awaitable[dict[str, Any]]]) -> AsyncIterator[str]:
    """Run `work` and tell how far it is, at most ten times a second."""
    loop = asyncio.get_running_loop()
    latest: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        loop.call_soon_threadsafe(latest.append, (done, total))

    task = asyncio.ensure_future(work(progress))
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=0.1)
            if latest:
                done, total = latest[-1]
                latest.clear()
                yield json.dumps({"done": done, "total": total}) + "\n"
        yield json.dumps({"result": task.result()}) + "\n"
    except RecollectError as error:
        yield json.dumps(error_body(error.code, error.message, field=error.field)) + "\n"
    finally:
        task.cancel()
