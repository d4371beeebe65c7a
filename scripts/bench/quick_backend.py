"""A model's server that answers at once, and a proxy that does nothing but pass on: what a gateway is measured with.

`python quick_backend.py` prints its port; `python quick_backend.py http://…` is the proxy in front of that address.
"""

import json
import socket
import sys
from collections.abc import AsyncIterator

import httpx2
import uvicorn
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

WORDS = ("Fine", ", ", "and", " you", "?")


def backend() -> FastAPI:
    app = FastAPI()

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [{"id": "quick", "object": "model"}]}

    @app.post("/v1/chat/completions", response_model=None)
    async def complete(request: Request) -> Response:
        try:
            await request.json()
        except ClientDisconnect:
            return Response(status_code=499)  # A background call that made way for a chat.
        return StreamingResponse(_answer(), media_type="text/event-stream")

    return app


async def _answer() -> AsyncIterator[str]:
    for word in WORDS:
        yield _event({"delta": {"content": word}, "finish_reason": None})
    yield _event({"delta": {}, "finish_reason": "stop"})
    yield "data: [DONE]\n\n"


def _event(choice: dict[str, object]) -> str:
    chunk = {
        "id": "1",
        "object": "chat.completion.chunk",
        "model": "quick",
        "choices": [{"index": 0, **choice}],
    }
    return f"data: {json.dumps(chunk)}\n\n"


def proxy(address: str) -> FastAPI:
    app = FastAPI()
    limits = httpx2.Limits(
        max_connections=None, keepalive_expiry=4
    )  # The backend hangs up after five seconds.
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


def main() -> None:
    app = proxy(sys.argv[1]) if len(sys.argv) > 1 else backend()
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        print(listening.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")).run(
            sockets=[listening]
        )


if __name__ == "__main__":
    main()
