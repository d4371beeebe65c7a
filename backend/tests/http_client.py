"""Speaking Recollect's HTTP API in tests: to a home in this process, or to a server."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from recollect.app import App, open_app
from recollect.domain.entries.entry import EntryChange, KnownEntry
from recollect.entrypoints.http.server import create_server
from recollect.service.coordination import Clock, now_ms
from recollect.settings import Settings
from tests import deployment
from tests.processes import wait_until

ADDRESS = "http://127.0.0.1"
START = 1_770_000_000_000
_DAY_MS = 86_400_000
"""The time of the first message that a test sends, in UTC milliseconds."""

QUICK = {"RECOLLECT_MEMORIZE__PAUSE_SECONDS": "0.2", "RECOLLECT_TRANSCRIPT_DELAY_MS": "50"}
"""For servers whose jobs a test waits for."""

Json = dict[str, Any]

COMPLETIONS = "/v1/chat/completions"


class Home:
    """An opened app and a client that talks to its HTTP door, without a socket between them."""

    def __init__(self, app: App, client: httpx2.AsyncClient) -> None:
        self.app = app
        self.client = client

    async def coverage(self) -> Json:
        answer: Json = (await self.client.get("/api/v1/coverage")).raise_for_status().json()
        return answer

    async def add(self, session: str, *texts: str, **fields: Any) -> list[Json]:
        """Add messages by the user; returns their receipts."""
        body = {"session_id": session, "messages": [message(text) for text in texts], **fields}
        answer = (await self.client.post("/api/v1/memory/add", json=body)).raise_for_status().json()
        receipts: list[Json] = answer["receipts"]
        return receipts

    async def put(self, *entries: KnownEntry) -> None:
        """Memories as extraction writes them."""
        for each in entries:
            change = EntryChange(each.space, each.owner, "extraction", "written", (each,))
            await self.app.entry_store.apply(change)

    async def pages(self, path: str, name: str, mark: str = "after", **query: Any) -> list[list[Json]]:
        """What a list holds under `name`, page by page until there is no next."""
        found: list[list[Json]] = []
        while True:
            page = (await self.client.get(f"/api/v1/{path}", params=query)).raise_for_status().json()
            found.append(page[name])
            if "next" not in page:
                return found
            query[mark] = page["next"]

    async def make_key(self, user: str | None = None, space: str = "default") -> dict[str, str]:
        """The headers of a new key; from the first one on, every request needs one."""
        body = {"space": space, "user_id": user}
        made = await self.client.post("/api/v1/keys", json=body, headers=bearer(self.app.lock.token))
        return bearer(made.raise_for_status().json()["secret"])

    async def operate(self, method: str, path: str, **body: Any) -> httpx2.Response:
        """A request of the command line on this machine."""
        headers = bearer(self.app.lock.token)
        return await self.client.request(method, f"/api/v1/{path}", json=body or None, headers=headers)

    async def new_key(self, **body: Any) -> Json:
        """A new key with its secret."""
        made: Json = (await self.operate("POST", "keys", space="default", **body)).raise_for_status().json()
        return made

    @asynccontextmanager
    async def keyed(
        self, user: str | None = None, space: str = "default"
    ) -> AsyncIterator[httpx2.AsyncClient]:
        """A client with a key of its own."""
        async with client_of(self.app, **await self.make_key(user, space)) as client:
            yield client

    async def drain(self) -> None:
        """Until every job that is due soon, and every job it queues, has run, at once. However slow: as long as any ends."""
        async with self.app.jobs.paused():
            pass
        while waiting := [
            job
            for job in await self.app.jobs.list_jobs(space=None, limit=10_000)
            if job.state != "dead" and job.run_at < self.app.clock() + _DAY_MS
        ]:
            finished = self.app.jobs.finished
            await self.app.jobs.hasten([job.job_id for job in waiting])
            for job in waiting:
                is_done = await self.app.jobs.wait_for(job.job_id, 30)
                assert is_done or self.app.jobs.finished > finished, (
                    f"job {job.job_id} ({job.kind}) still waits: {job.error}"
                )
        await self.app.index_notes.write_due()


@asynccontextmanager
async def opened(home: Path, **settings: Any) -> AsyncIterator[Home]:
    """A home in this process, with a `clock` of its own where one is given; its jobs don't wait for pauses."""
    clock: Clock = settings.pop("clock", now_ms)
    given: Json = {
        "memorize": {"pause_seconds": 0.05},
        "transcript_delay_ms": 0,
        "embedding": {"kind": "none"},  # Tests of something else don't wait for a model.
        "llm": {"discover": False},
        **deployment.HOMES.settings(home),
        **settings,
    }
    given["chat"] = {"recall_seconds": 30, **given.get("chat", {})}  # However busy the machine is.
    app = open_app(Settings(home=home, **given), clock=clock)
    async with app, client_of(app) as client:
        yield Home(app, client)


@asynccontextmanager
async def client_of(app: App, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=create_server(app))
    async with httpx2.AsyncClient(
        transport=transport, base_url=ADDRESS, headers=headers, timeout=60
    ) as client:
        yield client


async def longest_pause(request: Coroutine[Any, Any, httpx2.Response]) -> tuple[httpx2.Response, float]:
    """The answer, and the longest that one step on the event loop took meanwhile, in seconds of processor time."""
    longest, run = 0.0, asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        nonlocal longest
        began = time.thread_time()
        run(handle)
        longest = max(longest, time.thread_time() - began)

    gc.collect()
    gc.disable()  # What other tests left would be counted.
    setattr(asyncio.Handle, "_run", measured)  # noqa: B010 - mypy knows no such assignment
    try:
        # In a task of its own: what the request does before it first waits counts too.
        answer = await asyncio.create_task(request)
        return answer, longest
    finally:
        setattr(asyncio.Handle, "_run", run)  # noqa: B010
        gc.enable()


async def add_one(client: httpx2.AsyncClient, session: str, text: str, **fields: Any) -> httpx2.Response:
    body = {"session_id": session, "messages": [message(text, **fields)]}
    return await client.post("/api/v1/memory/add", json=body)


def completion(text: str, **fields: Any) -> Json:
    """A request at OpenAI's door."""
    return {"model": "recollect", "messages": [{"role": "user", "content": text}], **fields}


def message(text: str, number: int = 0, **fields: Any) -> Json:
    """A message by the user, `number` seconds after the first."""
    return {
        "sender_id": "ann",
        "role": "user",
        "timestamp": START + 1000 * number,
        "content": text,
        **fields,
    }


def error_of(answer: httpx2.Response) -> Json:
    """The error in its envelope, which holds nothing else."""
    body = answer.json()
    assert set(body) == {"error"}
    error: Json = body["error"]
    assert set(error) <= {"code", "message", "field", "id"}
    return error


def thread_path(thread_id: str, *more: str) -> str:
    return "/".join(["/api/v1/threads", quote(thread_id, safe=""), *more])


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def add(client: httpx2.Client, session: str, messages: Sequence[Json], **fields: Any) -> list[Json]:
    """Add messages to a server's thread; returns a receipt per message."""
    body = {"session_id": session, "messages": list(messages), **fields}
    answer = client.post("/api/v1/memory/add", json=body).raise_for_status().json()
    receipts: list[Json] = answer["receipts"]
    return receipts


def coverage(client: httpx2.Client, **query: str) -> Json:
    answer: Json = client.get("/api/v1/coverage", params=query).raise_for_status().json()
    return answer


def turns(client: httpx2.Client, thread_id: str) -> list[Json]:
    """Every turn of a thread, oldest first."""
    answer = client.get(thread_path(thread_id, "turns"), params={"max_turns": 10**9}).raise_for_status()
    found: list[Json] = answer.json()["turns"]
    return found


def contents(client: httpx2.Client, thread_id: str) -> list[str]:
    return [turn["content"] for turn in turns(client, thread_id)]


def jobs(client: httpx2.Client, **query: str) -> list[Json]:
    answer = client.get("/api/v1/jobs", params={"limit": "1000", **query}).raise_for_status()
    found: list[Json] = answer.json()["jobs"]
    return found


def drained(client: httpx2.Client, seconds: float = 60) -> None:
    """Wait until no job waits or runs; a dead one is an error."""

    def nothing_left() -> bool:
        left = jobs(client)
        assert not [job for job in left if job["state"] == "dead"], left
        return not left

    wait_until(nothing_left, "all jobs done", seconds=seconds, every=0.05)
