"""Small servers, each in a process of its own: `python small_servers.py KIND [ARGUMENT]` prints its port.

| kind | what it is |
| --- | --- |
| add DATABASE | the limit for `memory/add`: a bare route that inserts the same row with the same pragmas |
| model | a model's server that answers at once; asked for memories, that there are none |
| proxy ADDRESS | the limit for a gateway: passes on to that model's server, and does nothing else |
| embedder | an OpenAI-compatible `/v1/embeddings` that costs next to nothing |
"""

import base64
import json
import socket
import sqlite3
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpx2
import texts
import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "busy_timeout = 5000",
    "foreign_keys = ON",
    "secure_delete = ON",
    f"journal_size_limit = {64 * 1024 * 1024}",
    "wal_autocheckpoint = 4000",
    "cache_size = -16000",
)
WORDS = ("Fine", ", ", "and", " you", "?")
NO_MEMORIES = '{"asks": [], "episode": null, "facts": [], "foresight": [], "case": null}'


class Message(BaseModel):
    sender_id: str
    role: str
    timestamp: int
    content: str


class Add(BaseModel):
    session_id: str
    messages: list[Message]


def bare_add(path: str) -> FastAPI:
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    for pragma in PRAGMAS:
        database.execute(f"PRAGMA {pragma}")
    database.execute("CREATE TABLE IF NOT EXISTS m (id TEXT PRIMARY KEY, s TEXT, r TEXT, t INT, c TEXT)")
    app = FastAPI()

    @app.post("/add", status_code=202)
    async def add(body: Add) -> dict[str, int]:
        database.execute("BEGIN")
        for message in body.messages:
            database.execute(
                "INSERT INTO m VALUES (?, ?, ?, ?, ?)",
                (uuid.uuid4().hex, body.session_id, message.role, message.timestamp, message.content),
            )
        database.execute("COMMIT")
        return {"ok": len(body.messages)}

    return app


def model() -> FastAPI:
    app = FastAPI()

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [{"id": "quick", "object": "model"}]}

    @app.post("/v1/chat/completions", response_model=None)
    async def complete(request: Request) -> Response:
        try:
            asked = await request.json()
        except ClientDisconnect:
            return Response(status_code=499)  # A background call that made way for a chat.
        words = (NO_MEMORIES,) if "response_format" in asked else WORDS
        return StreamingResponse(_answer(words), media_type="text/event-stream")

    return app


async def _answer(words: Iterable[str]) -> AsyncIterator[str]:
    for word in words:
        yield _event({"delta": {"content": word}, "finish_reason": None})
    yield _event({"delta": {}, "finish_reason": "stop"})
    yield "data: [DONE]\n\n"


def _event(choice: dict[str, object]) -> str:
    choices = [{"index": 0, **choice}]
    chunk = {"id": "1", "object": "chat.completion.chunk", "model": "quick", "choices": choices}
    return f"data: {json.dumps(chunk)}\n\n"


def proxy(address: str) -> FastAPI:
    app = FastAPI()
    # The backend hangs up after five seconds.
    limits = httpx2.Limits(max_connections=None, keepalive_expiry=4)
    client = httpx2.AsyncClient(base_url=address, timeout=60, trust_env=False, limits=limits)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> StreamingResponse:
        asked = client.build_request("POST", "/v1/chat/completions", json=await request.json())
        answer = await client.send(asked, stream=True)

        async def passed_on() -> AsyncIterator[bytes]:
            async for chunk in answer.aiter_raw():
                yield chunk
            await answer.aclose()

        return StreamingResponse(passed_on(), media_type="text/event-stream")

    return app


def embedder() -> FastAPI:
    app = FastAPI()

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [{"id": "standin", "object": "model"}]}

    @app.post("/v1/embeddings", response_model=None)
    async def embed(body: dict[str, Any]) -> Response:
        some = [body["input"]] if isinstance(body["input"], str) else body["input"]
        packed = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": number,
                "embedding": base64.b64encode(vector.tobytes()).decode() if packed else vector.tolist(),
            }
            for number, vector in enumerate(texts.vectors(some))
        ]
        told = {"object": "list", "model": "standin", "data": data, "usage": {"prompt_tokens": 0}}
        return Response(json.dumps(told), media_type="application/json")

    return app


KINDS: dict[str, Callable[..., FastAPI]] = {
    "add": bare_add,
    "model": model,
    "proxy": proxy,
    "embedder": embedder,
}

if __name__ == "__main__":
    app = KINDS[sys.argv[1]](*sys.argv[2:])
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])
