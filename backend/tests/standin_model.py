"""A stand-in for a model's server: OpenAI's protocol over HTTP, in a process of its own.

`python -m tests.standin_model --port 0` prints `{"port": n}` as soon as connections are taken.
`POST /control` says how the calls that follow are answered, `GET /control/calls` what was asked.

| mode | a call gets |
| --- | --- |
| answer | the given answer, or a boundary after every 4th message |
| rude | the same, with prose and a fence around it |
| truncated | the first half of it |
| wrong_schema | JSON of another shape |
| error | status 500 |
| refuse_schema | status 400 where it has a response_format, else the answer |
| silent | nothing, until the client goes |
| die | half a stream; the process exits |

Embeddings are made of a text's words alone. `error`, `silent` and a delay work as above, and besides:

| mode | a call for embeddings gets |
| --- | --- |
| shuffled | right vectors, in another order than their texts |
| wrong_dimensions | vectors that are longer by one number |
| uneven | one vector that is longer by one number |
| wrong_count | one vector too few |
| not_finite | a NaN in the first vector |
| no_json | a page of HTML |
| refuse_text | status 400 where a text holds "unspeakable" |
"""

import argparse
import asyncio
import json
import math
import os
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.fake_index import DIMENSIONS, word_vectors

COMPLETIONS = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"
MODEL = "stand-in"
BOUNDARY_EVERY = 4

Mode = Literal[
    "answer", "rude", "truncated", "wrong_schema", "error", "refuse_schema", "silent", "die",
    "shuffled", "wrong_dimensions", "uneven", "wrong_count", "not_finite", "no_json",
    "refuse_text",
]  # fmt: skip


class Control(BaseModel):
    """How calls are answered; after `times` calls the stand-in is its polite self again."""

    model_config = ConfigDict(extra="forbid")

    mode: Mode = "answer"
    delay_seconds: float = 0
    answer: dict[str, Any] | str | None = None
    times: int | None = None

    def after_one_call(self) -> Self:
        if self.times is None:
            return self
        return self.model_copy(update={"times": self.times - 1}) if self.times > 1 else type(self)()


@dataclass
class Calls:
    """What was asked so far."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    embeddings: list[dict[str, Any]] = field(default_factory=list)
    model_listings: int = 0
    in_flight: int = 0
    most_in_flight: int = 0


class InFlight:
    """Counts the completions that are under way, from arrival to the last byte or the client's going."""

    def __init__(self, app: ASGIApp, *, calls: Calls, changed: asyncio.Condition) -> None:
        self.app = app
        self.calls = calls
        self.changed = changed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != COMPLETIONS:
            await self.app(scope, receive, send)
            return
        await self._count(+1)
        try:
            await self.app(scope, receive, send)
        finally:
            await self._count(-1)

    async def _count(self, difference: int) -> None:
        async with self.changed:
            self.calls.in_flight += difference
            self.calls.most_in_flight = max(self.calls.most_in_flight, self.calls.in_flight)
            self.changed.notify_all()


def create_app() -> FastAPI:
    app = FastAPI()
    calls = Calls()
    changed = asyncio.Condition()
    control = Control()
    app.add_middleware(InFlight, calls=calls, changed=changed)

    @app.post("/control")
    async def set_control(wanted: Control) -> Control:
        nonlocal control
        control = wanted
        return control

    @app.get("/control/calls")
    async def get_calls(in_flight: int | None = None, within_seconds: float = 10) -> dict[str, Any]:
        """With `in_flight`, once that many calls are, or the time is up."""
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
        calls.model_listings += 1
        return {"object": "list", "data": [{"id": MODEL, "object": "model"}]}

    @app.post(COMPLETIONS)
    async def complete(request: Request) -> Response:
        nonlocal control
        body = await request.json()
        calls.bodies.append(body)
        calls.authorizations.append(request.headers.get("authorization"))
        chosen, control = control, control.after_one_call()
        return await _respond(request, body, chosen)

    @app.post(EMBEDDINGS)
    async def embed(request: Request) -> Response:
        nonlocal control
        body = await request.json()
        calls.embeddings.append(body)
        calls.authorizations.append(request.headers.get("authorization"))
        chosen, control = control, control.after_one_call()
        return await _respond_with_vectors(request, body, chosen)

    return app


async def _respond(request: Request, body: dict[str, Any], control: Control) -> Response:
    if refusal := await _refusal(request, control):
        return refusal
    if control.mode == "refuse_schema" and "response_format" in body:
        return _error(400, "response_format is not supported")
    if body.get("stream"):
        stream = _stream(_text(body, control), control.mode)
        return StreamingResponse(stream, media_type="text/event-stream")
    if control.mode == "die":
        os._exit(1)
    message = {"role": "assistant", "content": _text(body, control)}
    return JSONResponse(_completion({"message": message, "finish_reason": _finish_reason(control.mode)}))


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
    elif control.mode == "uneven":
        vectors[-1].append(0.0)
    elif control.mode == "wrong_count":
        vectors.pop()
    elif control.mode == "not_finite":
        vectors[0][0] = math.nan
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    if control.mode == "shuffled":
        data.reverse()
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
        return _error(500, "the stand-in was told to fail")
    return None


async def _client_goes(request: Request, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                continue
    except TimeoutError:
        return False
    return True


async def _stream(text: str, mode: Mode) -> AsyncIterator[str]:
    yield _event({"delta": {"role": "assistant", "content": ""}})
    pieces = re.findall(r"(?s).{1,12}", text)
    for number, piece in enumerate(pieces):
        if mode == "die" and number >= len(pieces) // 2:
            os._exit(1)
        yield _event({"delta": {"content": piece}})
    yield _event({"delta": {}, "finish_reason": _finish_reason(mode)})
    yield "data: [DONE]\n\n"


def _text(body: dict[str, Any], control: Control) -> str:
    answer = _every_fourth(body) if control.answer is None else control.answer
    text = answer if isinstance(answer, str) else json.dumps(answer)
    if control.mode == "rude":
        return f"Sure! Here {{you}} go:\n```json\n{text}\n```\nAnything else?"
    if control.mode == "truncated":
        return text[: len(text) // 2]
    if control.mode == "wrong_schema":
        return json.dumps({"reasoning": 1, "boundaries": "4", "should_wait": "no"})
    return text


def _every_fourth(body: dict[str, Any]) -> dict[str, Any]:
    numbers = [int(n) for n in re.findall(r"(?m)^\[(\d+)\] ", str(body["messages"][-1]["content"]))]
    ends = list(range(BOUNDARY_EVERY, max(numbers, default=0) + 1, BOUNDARY_EVERY))
    return {"reasoning": "every fourth message ends an episode", "boundaries": ends, "should_wait": not ends}


def _finish_reason(mode: Mode) -> str:
    return "length" if mode == "truncated" else "stop"


def _completion(choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "created": 0, "model": MODEL, "choices": [{"index": 0, **choice}]}


def _event(choice: dict[str, Any]) -> str:
    return f"data: {json.dumps(_completion({'finish_reason': None, **choice}))}\n\n"


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status_code=status)


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for a model's server.")
    parser.add_argument("--port", type=int, default=0)
    with socket.create_server(("127.0.0.1", parser.parse_args().port)) as listening:
        print(json.dumps({"port": listening.getsockname()[1]}), flush=True)  # noqa: T201
        config = uvicorn.Config(create_app(), log_level="warning", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
