"""Chats with a home in this process, whose prompts are looked at."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from recollect.app import App, open_app
from recollect.settings import Settings
from tests.fakes import FakeClock
from tests.http_client import Json, client_of
from tests.processes import StandInModel
from tests.standins.standin_engines import StandInEngine


class Talk:
    """A home in this process with a clock that the test moves, and a client."""

    def __init__(self, app: App, client: httpx2.AsyncClient, clock: FakeClock) -> None:
        self.app, self.client, self.clock = app, client, clock

    async def say(self, text: str, thread: str = "t", **fields: Any) -> Json:
        body = {"user_id": "ann", "content": text, **fields}
        answer = await self.client.post(f"/api/v1/threads/{thread}/messages", json=body)
        found: Json = answer.raise_for_status().json()
        return found

    async def sent(self, answer: Json) -> Json:
        path = f"/api/v1/threads/{answer['thread_id']}/turns/{answer['assistant_turn']['turn_id']}/prompt"
        found: Json = (await self.client.get(path)).raise_for_status().json()
        return found

    async def prompts(self, *texts: str, thread: str = "t", **fields: Any) -> list[Json]:
        return [await self.sent(await self.say(text, thread, **fields)) for text in texts]

    async def settled(self) -> None:
        await self.app.search.indexer.settled()


@asynccontextmanager
async def talking(home: Path, model: StandInModel | StandInEngine, **settings: Any) -> AsyncIterator[Talk]:
    given: Json = {
        "llm": {"base_url": model.base_url},
        "embedding": {"kind": "none"},
        "memorize": {"pause_seconds": 60, "boundary_every": 100},
        **settings,
    }
    given["chat"] = {"recall_seconds": 30, **given.get("chat", {})}  # However busy the machine is.
    clock = FakeClock()
    async with open_app(Settings(home=home, **given), clock=clock) as app, client_of(app) as client:
        yield Talk(app, client, clock)
