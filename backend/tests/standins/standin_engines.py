"""Stand-ins for the engines that serve models: each answers as the real one does, in a process of its own.

`python -m tests.standins.standin_engines --kind vllm --port 0` prints `{"port": n}` as soon as connections are taken.
It has the routes by which its engine is recognised, streams as it does, refuses unknown fields where it does,
and tells how much of a prompt it had seen before (in words), as an engine with a prefix cache does.
`POST /control` says how the calls that follow are answered, `GET /control/requests` what was asked.

| mode | a chat gets |
| --- | --- |
| answer | `You said:` and the last message |
| status | the given status, body and headers |
| stall | half of the answer, then nothing until the client goes |
| silent | nothing at all until the client goes |
| early_end | half of the answer |
| rubbish | half of the answer, then what is no JSON |
| wrong_shape | half of the answer, then JSON of another shape |
| error | half of the answer, then an error in its place |
| endless | a line that does not end |
| page | a page of HTML |
| whole | the answer as one JSON object, though a stream was asked for |
| die | half of the answer; the process exits |
"""

import argparse
import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from recollect.domain.llm import ChatCall, Delta, Sent, StreamEvent
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.configured import Backend
from recollect.infra.backends.server import Endpoint, Patience
from tests.forking import Forked
from tests.processes import Process, StandInModel
from tests.standins.engine_behaviour import ENGINES, Engine, Exchange, Refusal

CLOUDS = ("openai", "anthropic", "openrouter")
HALVED = {"stall", "early_end", "rubbish", "wrong_shape", "error", "die"}
ENDLESS_PIECE = b"x" * 65_536


class StandInServer:
    """One engine, its controls, and what it was asked."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.control: dict[str, Any] = {}
        self.requests: list[dict[str, Any]] = []
        self.dropped = 0
        self.changed = asyncio.Condition()

    def app(self) -> Starlette:
        routes = [
            Route("/control", self.set_control, methods=["POST"]),
            Route("/control/requests", self.get_requests),
            Route(self.engine.chat_route, self.chat, methods=["POST"]),
            Route("/{path:path}", self.question, methods=["GET", "POST"]),
        ]
        return Starlette(routes=routes)

    async def set_control(self, request: Request) -> Response:
        self.control = await request.json()
        return JSONResponse(self.control)

    async def get_requests(self, request: Request) -> Response:
        """With `dropped`, once so many clients went away before their answer's end, or fifty seconds passed."""
        if wanted := int(request.query_params.get("dropped", 0)):
            async with self.changed, asyncio.timeout(50):
                await self.changed.wait_for(lambda: self.dropped >= wanted)
        return JSONResponse({"requests": self.requests, "dropped": self.dropped})

    async def question(self, request: Request) -> Response:
        """A route beside the chat: known to the engine, or answered as it answers unknown ones."""
        body = await request.json() if request.method == "POST" else None
        self._record(request, body)
        if status := self.control.get("question_status"):
            return JSONResponse({"error": {"message": self.control.get("message", "no")}}, status)
        answer = self.engine.answer_question(request.url.path, body)
        if answer is None:
            return self.engine.unknown_route(request.method, request.url.path)
        return JSONResponse(answer)

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self._record(request, body)
        control = self._next_control()
        mode = control.get("mode", "answer")
        if mode == "status":
            return _told(control)
        if mode == "silent":
            await self._until_gone(request)
            return Response(status_code=499)
        if mode == "page":
            return Response("<html>Bad gateway</html>", media_type="text/html")
        try:
            exchange = self.engine.take(body, control)
        except Refusal as refusal:
            return JSONResponse(refusal.body, refusal.status)
        if mode == "whole":
            return JSONResponse(self.engine.whole(exchange))
        stream = self._stream(request, exchange, mode)
        return StreamingResponse(stream, media_type=self.engine.media_type)

    async def _stream(self, request: Request, exchange: Exchange, mode: str) -> AsyncIterator[bytes]:
        """The answer, or the half of it that the mode allows and what comes after."""
        ended = False
        try:
            events = list(self.engine.events(exchange))
            for event in events[: len(events) // 2] if mode in HALVED else events:
                if mode != "endless":
                    yield event
            if mode == "die":
                os._exit(1)
            if mode == "stall":
                await asyncio.Event().wait()  # Until the client goes, which cancels it.
            while mode == "endless":
                yield ENDLESS_PIECE
                await asyncio.sleep(0)  # Or nobody could notice that the client has gone.
            if mode in ("rubbish", "wrong_shape", "error"):
                yield self.engine.frame(_intruder(mode))
            ended = True
        finally:
            if not ended:
                self.dropped += 1
                async with self.changed:
                    self.changed.notify_all()

    def _record(self, request: Request, body: Any) -> None:
        self.requests.append(
            {
                "path": request.url.path,
                "method": request.method,
                "body": body,
                "headers": dict(request.headers.items()),
            }
        )

    def _next_control(self) -> dict[str, Any]:
        chosen = self.control
        if (times := chosen.get("times")) is not None:
            self.control = {**chosen, "times": times - 1} if times > 1 else {}
        return chosen

    async def _until_gone(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue
        self.dropped += 1
        async with self.changed:
            self.changed.notify_all()


def _told(control: dict[str, Any]) -> Response:
    text = control.get("body", {"error": {"message": control.get("message", "told to fail")}})
    content = text if isinstance(text, str) else json.dumps(text)
    return Response(content, control["status"], headers=control.get("headers"))


def _intruder(mode: str) -> bytes:
    if mode == "rubbish":
        return b"\xff\xfe{not json"
    if mode == "wrong_shape":
        return b'{"choices": "none", "message": 7, "type": "content_block_delta", "index": 99, "delta": 1}'
    return b'{"type": "error", "error": {"message": "the graphics card went away"}}'


class StandInEngine(StandInModel):
    """A stand-in engine in a process of its own, for as long as the `with` block runs.

    `control` sets how the calls that follow are answered: `answer`, `reasoning`, `tool_call`, `times`, …
    """

    def __init__(self, kind: str, *, arguments: tuple[str, ...] = (), port: int = 0) -> None:
        self.kind = kind
        self._arguments = ["--kind", kind, "--port", str(port), *arguments]

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    def _started(self, port: int) -> Process:
        return Forked("tests.standins.standin_engines", *self._arguments)

    def requests(self) -> list[dict[str, Any]]:
        """What was asked so far."""
        requests: list[dict[str, Any]] = self._told()["requests"]
        return requests

    def dropped(self, *, at_least: int = 0) -> int:
        """How many clients went before their answer's end; waits until it is at least so many."""
        return int(self._told(dropped=at_least)["dropped"])

    def _told(self, **parameters: int) -> Any:
        return self._client.get("/control/requests", params=parameters).raise_for_status().json()

    def chats(self) -> list[dict[str, Any]]:
        """The bodies of the chats alone."""
        route = ENGINES[self.kind].chat_route
        return [request["body"] for request in self.requests() if request["path"] == route]


class Engines:
    """Stand-ins, each started when it is first asked for, and backends that call them."""

    def __init__(self, running: Callable[[str], StandInEngine]) -> None:
        self._running = running
        self._opened: list[HttpBackend] = []

    def __call__(self, kind: str) -> StandInEngine:
        return self._running(kind)

    def backend(self, kind: str, **settings: Any) -> HttpBackend:
        """One for that stand-in: recognised by asking it, unless it stands for a cloud."""
        cloud = {"kind": kind, "local": False} if kind in CLOUDS else {}
        return self.backend_at(self(kind).base_url, **{**cloud, **settings})

    def backend_at(
        self, address: str, *, name: str = "gpu", clocks: dict[str, Any] | None = None, **settings: Any
    ) -> HttpBackend:
        endpoint = Endpoint(name=name, base_url=address, **{"patience": Patience(question=10), **settings})
        self._opened.append(HttpBackend(endpoint, **(clocks or {})))
        return self._opened[-1]

    async def sent(self, kind: str, call: ChatCall, **settings: Any) -> dict[str, Any]:
        """The body that arrived, which must be the last one that was reported as sent."""
        events = await events_of(self.backend(kind, **settings), call)
        body = self(kind).chats()[-1]
        assert [event.payload for event in events if isinstance(event, Sent)][-1] == body
        return body

    async def aclose(self) -> None:
        for backend in self._opened:
            await backend.aclose()


async def events_of(backend: Backend, call: ChatCall) -> list[StreamEvent]:
    async with aclosing(backend.stream(call)) as events:
        return [event async for event in events]


def text_of(events: list[StreamEvent], choice: int = 0) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta) and event.choice == choice)


@pytest.fixture(scope="module")
def running_engines() -> Iterator[Callable[[str], StandInEngine]]:
    running: dict[str, StandInEngine] = {}
    with ExitStack() as stack:

        def of(kind: str) -> StandInEngine:
            if kind not in running:
                running[kind] = stack.enter_context(StandInEngine(kind))
            return running[kind]

        yield of


@pytest.fixture
async def engines(running_engines: Callable[[str], StandInEngine]) -> AsyncIterator[Engines]:
    """Each stand-in is its polite self again for every test."""
    polite: set[str] = set()

    def of(kind: str) -> StandInEngine:
        engine = running_engines(kind)
        if kind not in polite:
            engine.control("answer")
            polite.add(kind)
        return engine

    engines = Engines(of)
    yield engines
    await engines.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for an engine that serves models.")
    parser.add_argument("--kind", choices=sorted(ENGINES), required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--models", default="", help="comma-separated names in place of the engine's own")
    parser.add_argument("--template", default="", help="the chat template that /props tells (llama.cpp)")
    arguments = parser.parse_args()
    engine = ENGINES[arguments.kind](
        models=[name for name in arguments.models.split(",") if name], template=arguments.template
    )
    with socket.create_server(("127.0.0.1", arguments.port)) as listening:
        print(json.dumps({"port": listening.getsockname()[1]}), flush=True)  # noqa: T201
        app = StandInServer(engine).app()
        config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
