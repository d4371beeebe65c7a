"""A stand-in for a model's server: OpenAI's protocol over HTTP, always streaming, in a process of its own.

`python -m tests.standins.standin_model --port 0` prints `{"port": n}` as soon as connections are taken.
`POST /control` says how the calls that follow are answered, `GET /control/calls` what was asked.

| mode | a call gets |
| --- | --- |
| answer | the given answer, or a boundary after every 4th message |
| rude | the same, with prose and a fence around it |
| truncated | the first half of it |
| wrong_schema | JSON of another shape |
| error | status 500, or the `status` of the control |
| refuse_schema | status 400 where it has a response_format, else the answer |
| silent | nothing, until the client goes |
| die | half a stream; the process exits |

A call that asks for no boundaries is a chat. By default it gets `I see: ` and every one of ENTITIES (and of the
control's own `entities`) that stands in any message it was given, in the order of first appearance: a chat that
lost its history can't name them. `chunk_delay_seconds` passes between two pieces. Besides the modes above:

| mode | a chat gets |
| --- | --- |
| stall | half a stream, then nothing until the client goes |
| early_end | half a stream, and no end |
| rubbish | half a stream, then what is no JSON |
| rate_limit | status 429, with `retry_after` in its header |
| tool_call | a call of the tool `weather` |
| reasoning | a thought, then the answer |

A call that asks what a memcell or a case holds, or what cases teach, is answered by `tests.standins.standin_memory`, from its messages alone, in
all of the modes above, and besides:

| mode | such a call gets |
| --- | --- |
| invent | the same, and names, numbers and messages that nobody said |

With `only` the control is about the calls for `memory`, `skills`, `profile`, `boundaries`, `rewriting`, `titles`,
`summaries`, `chat` or `embeddings` alone; with a `rate`, about that share of them, by chance (`seed`). All others are answered
politely, and not counted by `times`. `gullible` takes what assistants say for facts. A `parrot` chats by repeating
all that it was reminded of. A `table` has the answers of an excellent model about memcells: see
`tests.standins.table_answers`; which known facts a prompt should have listed and did not is `missing` in the log.
`script` has the answers to chats whose last message holds one of its keys. With
`caches` a prompt's usage tells how much of it began an earlier prompt.

Every completion is in the log of `GET /control/calls`: the order numbers of its start and its end (counted
together, so that overlaps show; one whose client has hung up is over before the next begins, though the server may
only notice later), whether it was `given_up` by its client before the server saw it, what it asks for, its last user
message, its session_id, the entities that its messages name, and whether it was `disturbed`: slowed down, or answered otherwise than politely.

Embeddings are made of a text's words alone. `error`, `silent` and a delay work as above, and besides:

| mode | a call for embeddings gets |
| --- | --- |
| wrong_dimensions | vectors that are longer by one number |
| not_finite | a NaN in the first vector |
| no_json | a page of HTML |
| refuse_text | status 400 where a text holds "unspeakable" |
"""

import argparse
import asyncio
import json
import math
import os
import random
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import asdict, dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.fakes import DIMENSIONS, word_vectors
from tests.standins.standin_answers import (
    MODEL,
    Asking,
    Control,
    asking_of,
    cached_words,
    completion,
    deltas_of,
    event,
    finish_reason,
    logged,
    usage_of,
)

COMPLETIONS = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"


@dataclass
class Calls:
    """What was asked so far."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    embeddings: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    moments: int = 0

    def next_moment(self) -> int:
        self.moments += 1
        return self.moments


@dataclass
class Connections:
    """Those that the server has at the moment."""

    open: Collection[Any] = ()

    def is_over(self, client: tuple[str, int]) -> bool:
        """Whether the client has hung up, which the kernel knows before the server has read it."""
        for connection in self.open:
            if connection.client == client:
                return connection.transport.is_closing() or _has_hung_up(
                    connection.transport.get_extra_info("socket").fileno()
                )
        return True


def _has_hung_up(descriptor: int) -> bool:
    watched = select.poll()
    watched.register(descriptor, select.POLLRDHUP)
    return bool(watched.poll(0))


class InFlight:
    """Counts the completions that are under way, from arrival to the last byte or the client's going."""

    def __init__(
        self, app: ASGIApp, *, calls: Calls, changed: asyncio.Condition, connections: Connections
    ) -> None:
        self.app = app
        self.calls = calls
        self.changed = changed
        self.connections = connections
        self.ends: dict[tuple[str, int], Callable[[], Awaitable[None]]] = {}
        """Of the calls under way, by the client's address: what ends one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != COMPLETIONS:
            await self.app(scope, receive, send)
            return
        for end_of_other in [end for client, end in self.ends.items() if self.connections.is_over(client)]:
            await end_of_other()
        entry: dict[str, Any] = {
            "started": self.calls.next_moment(),
            "ended": None,
            "given_up": self.connections.is_over(scope["client"]),
        }
        self.calls.log.append(entry)
        scope["log_entry"] = entry

        async def end() -> None:
            if entry["ended"] is None:
                entry["ended"] = self.calls.next_moment()
                del self.ends[scope["client"]]
                await self._count(-1)

        self.ends[scope["client"]] = end
        await self._count(+1)

        async def sending(message: Message) -> None:
            # Before the last byte leaves: whoever has it may call again at once.
            if message["type"] == "http.response.body" and not message.get("more_body"):
                await end()
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            await end()

    async def _count(self, difference: int) -> None:
        async with self.changed:
            self.calls.in_flight += difference
            self.calls.most_in_flight = max(self.calls.most_in_flight, self.calls.in_flight)
            self.changed.notify_all()


def create_app(connections: Connections) -> FastAPI:
    app = FastAPI()
    calls = Calls()
    changed = asyncio.Condition()
    control = Control()
    chance = random.Random(control.seed)
    app.add_middleware(InFlight, calls=calls, changed=changed, connections=connections)

    @app.post("/control")
    async def set_control(wanted: Control) -> Control:
        nonlocal control, chance
        control, chance = wanted, random.Random(wanted.seed)
        return control

    def for_call(asking: Asking) -> Control:
        nonlocal control
        if not control.is_about(asking, chance):
            return control.polite()
        chosen, control = control, control.after_one_call()
        return chosen

    @app.get("/control/calls")
    async def get_calls(
        in_flight: int | None = None, within_seconds: float = 50, log_only: bool = False
    ) -> dict[str, Any]:
        """With `in_flight`, once that many calls are, or the time is up."""
        if log_only:
            return {"log": calls.log}
        if in_flight is not None:
            async with changed:
                try:
                    async with asyncio.timeout(within_seconds):
                        await changed.wait_for(lambda: calls.in_flight == in_flight)
                except TimeoutError:
                    return {**asdict(calls), "timed_out": True}
        return asdict(calls)

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": MODEL, "object": "model"}]}

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: Exception) -> Response:
        """Nobody is there to be told."""
        return Response(status_code=499)

    @app.post(COMPLETIONS)
    async def complete(request: Request) -> Response:
        body = await request.json()
        calls.bodies.append(body)
        calls.authorizations.append(request.headers.get("authorization"))
        chosen = for_call(asking_of(body))
        request.scope["log_entry"] |= logged(body, chosen)
        return await _respond(
            request, body, chosen, cached_words(body, calls.bodies[:-1]) if chosen.caches else None
        )

    @app.post(EMBEDDINGS)
    async def embed(request: Request) -> Response:
        body = await request.json()
        calls.embeddings.append(body)
        calls.authorizations.append(request.headers.get("authorization"))
        return await _respond_with_vectors(request, body, for_call("embeddings"))

    return app


async def _respond(
    request: Request, body: dict[str, Any], control: Control, cached: int | None = None
) -> Response:
    if refusal := await _refusal(request, control):
        return refusal
    if control.mode == "refuse_schema" and "response_format" in body:
        return _error(400, "response_format is not supported")
    if control.mode == "rate_limit":
        return _error(429, "slow down", {"Retry-After": control.retry_after})
    return StreamingResponse(_stream(body, control, cached), media_type="text/event-stream")


async def _respond_with_vectors(request: Request, body: dict[str, Any], control: Control) -> Response:
    if refusal := await _refusal(request, control):
        return refusal
    if control.mode == "no_json":
        return Response("<html>Bad gateway</html>", media_type="text/html")
    if control.mode == "refuse_text" and any("unspeakable" in text for text in body["input"]):
        return _error(400, "this text is not embedded")
    vectors = word_vectors(body["input"], body.get("dimensions", DIMENSIONS)).tolist()
    if control.mode == "wrong_dimensions":
        vectors = [[*vector, 0.0] for vector in vectors]
    elif control.mode == "not_finite":
        vectors[0][0] = math.nan
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    text = json.dumps({"object": "list", "model": MODEL, "data": data})
    return Response(text, media_type="application/json")


async def _refusal(request: Request, control: Control) -> Response | None:
    """What is sent in place of any answer, once the delay is over."""
    if control.mode == "silent":
        await _client_goes(request, None)
        return Response(status_code=499)
    if control.delay_seconds and await _client_goes(request, control.delay_seconds):
        return Response(status_code=499)
    if control.mode == "error":
        return _error(control.status, "the stand-in was told to fail")
    return None


async def _client_goes(request: Request, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                continue
    except TimeoutError:
        return False
    return True


async def _stream(body: dict[str, Any], control: Control, cached: int | None = None) -> AsyncIterator[bytes]:
    mode = control.mode
    yield event({"delta": {"role": "assistant", "content": ""}})
    deltas = list(deltas_of(body, control))
    half = mode in ("die", "stall", "early_end", "rubbish")
    for delta in deltas[: len(deltas) // 2] if half else deltas:
        yield event({"delta": delta})
        if control.chunk_delay_seconds:
            await asyncio.sleep(control.chunk_delay_seconds)
    if mode == "die":
        os._exit(1)
    if mode == "stall":
        await asyncio.Event().wait()
    if mode == "rubbish":
        yield b"data: \xff\xfe{not json\n\n"
    if half:
        return
    yield event({"delta": {}, "finish_reason": finish_reason(mode)})
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"choices": [], "usage": usage_of(body, *deltas, cached=cached)}
        yield f"data: {json.dumps({**completion({}), **usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"message": message}}, status_code=status, headers=headers)


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for a model's server.")
    parser.add_argument("--port", type=int, default=0)
    with socket.create_server(("127.0.0.1", parser.parse_args().port)) as listening:
        print(json.dumps({"port": listening.getsockname()[1]}), flush=True)  # noqa: T201
        connections = Connections()
        app = create_app(connections)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        connections.open = server.server_state.connections
        server.run(sockets=[listening])


if __name__ == "__main__":
    main()
