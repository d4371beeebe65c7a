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

A call that asks what a memcell or a case holds, or what cases teach, is answered by `tests.standin_memory`, from its messages alone, in
all of the modes above, and besides:

| mode | such a call gets |
| --- | --- |
| invent | the same, and names, numbers and messages that nobody said |

With `only` the control is about the calls for `memory`, `skills`, `boundaries`, `rewriting`, `titles`, `summaries`,
`chat` or `embeddings` alone; with a `rate`, about that share of them, by chance (`seed`). All others are answered
politely, and not counted by `times`. `gullible` takes what assistants say for facts. A `parrot` chats by repeating
all that it was reminded of. `script` has the answers to chats whose last message holds one of its keys. With
`caches` a prompt's usage tells how much of it began an earlier prompt.

Every completion is in the log of `GET /control/calls`: the order numbers of its start and its end (counted
together, so that overlaps show; one whose client has hung up is over before the next begins, though the server may
only notice later), what it asks for, its last user message, its session_id, the entities that its
messages name, and whether it was `disturbed`: slowed down, or answered otherwise than politely.

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
import random
import re
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any, Literal, Self

import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests import standin_memory
from tests.fakes import DIMENSIONS, word_vectors

COMPLETIONS = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"
MODEL = "stand-in"
BOUNDARY_EVERY = 4

Mode = Literal[
    "answer", "rude", "truncated", "wrong_schema", "error", "refuse_schema", "silent", "die",
    "shuffled", "wrong_dimensions", "uneven", "wrong_count", "not_finite", "no_json",
    "refuse_text",
    "stall", "early_end", "rubbish", "rate_limit", "tool_call", "reasoning",
    "invent",
]  # fmt: skip
Asking = Literal["memory", "skills", "boundaries", "rewriting", "titles", "summaries", "chat", "embeddings"]
_ASKING: dict[str | None, Asking] = {None: "chat", "memcell": "memory", "case": "memory", "skill": "skills"}

ENTITIES = (
    "Donald Trump", "Ivanka Trump", "Barron Trump", "Melania Trump", "Angela Merkel", "Barack Obama",
    "Michelle Obama", "Marie Curie", "Pierre Curie", "Irène Joliot-Curie", "Albert Einstein", "Isaac Newton",
    "Ada Lovelace", "Lord Byron", "Alan Turing", "Grace Hopper", "Nikola Tesla", "Charles Darwin",
    "Leonardo da Vinci", "Frida Kahlo", "Pablo Picasso", "Wolfgang Amadeus Mozart", "Johann Sebastian Bach",
    "Ludwig van Beethoven", "William Shakespeare", "Jane Austen", "Leo Tolstoy", "Nelson Mandela",
    "Mahatma Gandhi", "Cleopatra", "Marta", "Ann", "Bob", "Porto", "Lisbon", "Paris", "Berlin", "London",
    "Tokyo", "New York", "Rome", "Vienna", "Madrid", "Cairo",
)  # fmt: skip


class Control(BaseModel):
    """How calls are answered; after `times` calls the stand-in is its polite self again."""

    model_config = ConfigDict(extra="forbid")

    mode: Mode = "answer"
    delay_seconds: float = 0
    answer: dict[str, Any] | str | None = None
    times: int | None = None
    chunk_delay_seconds: float = 0
    entities: list[str] = []
    retry_after: str = "7"
    only: Asking | None = None
    rate: float = 1
    seed: int = 0
    gullible: bool = False
    parrot: bool = False
    script: dict[str, str] = {}
    caches: bool = False

    @property
    def disturbs(self) -> bool:
        return self.mode != "answer" or self.delay_seconds > 0

    def is_about(self, asking: Asking, chance: random.Random) -> bool:
        return self.only in (None, asking) and (self.rate >= 1 or chance.random() < self.rate)

    def polite(self) -> Self:
        """For a call that it is not about."""
        return type(self)(
            gullible=self.gullible,
            parrot=self.parrot,
            entities=self.entities,
            script=self.script,
            caches=self.caches,
        )

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
        entry: dict[str, Any] = {"started": self.calls.next_moment(), "ended": None}
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
        in_flight: int | None = None, within_seconds: float = 10, log_only: bool = False
    ) -> dict[str, Any]:
        """With `in_flight`, once that many calls are, or the time is up."""
        if log_only:
            return {"log": calls.log, "in_flight": calls.in_flight}
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

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: Exception) -> Response:
        """Nobody is there to be told."""
        return Response(status_code=499)

    @app.post(COMPLETIONS)
    async def complete(request: Request) -> Response:
        body = await request.json()
        calls.bodies.append(body)
        calls.authorizations.append(request.headers.get("authorization"))
        chosen = for_call(_asking(body))
        request.scope["log_entry"] |= _logged(body, chosen)
        return await _respond(
            request, body, chosen, _cached(body, calls.bodies[:-1]) if chosen.caches else None
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
    if body.get("stream"):
        return StreamingResponse(_stream(body, control, cached), media_type="text/event-stream")
    if control.mode == "die":
        os._exit(1)
    message: dict[str, Any] = {"role": "assistant"}
    for delta in _deltas(body, control):
        for name, piece in delta.items():
            message[name] = message[name] + piece if name in message else piece
    choice = {"message": message, "finish_reason": _finish_reason(control.mode)}
    return JSONResponse({**_completion(choice), "usage": _usage(body, message, cached=cached)})


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


async def _stream(body: dict[str, Any], control: Control, cached: int | None = None) -> AsyncIterator[bytes]:
    mode = control.mode
    yield _event({"delta": {"role": "assistant", "content": ""}})
    deltas = list(_deltas(body, control))
    half = mode in ("die", "stall", "early_end", "rubbish")
    for delta in deltas[: len(deltas) // 2] if half else deltas:
        yield _event({"delta": delta})
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
    yield _event({"delta": {}, "finish_reason": _finish_reason(mode)})
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"choices": [], "usage": _usage(body, *deltas, cached=cached)}
        yield f"data: {json.dumps({**_completion({}), **usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _deltas(body: dict[str, Any], control: Control) -> Iterator[dict[str, Any]]:
    """The answer in pieces."""
    if control.mode == "tool_call":
        function = {"name": "weather", "arguments": '{"city": "Porto"}'}
        yield {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
        return
    if control.mode == "reasoning":
        yield {"reasoning_content": "Let me look at "}
        yield {"reasoning_content": "what was said."}
    for piece in re.findall(r"(?s).{1,12}", _text(body, control)):
        yield {"content": piece}


def _usage(body: dict[str, Any], *pieces: dict[str, Any], cached: int | None = None) -> dict[str, Any]:
    """Words for tokens. Without `cached` nothing is told of a cache."""
    prompt = sum(map(_words, body["messages"]))
    written = len("".join(str(piece.get("content") or "") for piece in pieces).split())
    told = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    return told if cached is None else {**told, "prompt_tokens_details": {"cached_tokens": cached}}


def _words(message: dict[str, Any]) -> int:
    return len(_content(message).split()) + 1


def _cached(body: dict[str, Any], earlier: list[dict[str, Any]]) -> int:
    """The words of those messages with which another prompt began, too; of the prompt that shares the most."""
    messages = body["messages"]
    longest = 0
    for other in earlier:
        pairs = zip(messages, other["messages"], strict=False)
        longest = max(
            longest, sum(_words(mine) for mine, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        )
    return longest


def _text(body: dict[str, Any], control: Control) -> str:
    answer = control.answer
    if answer is None:
        answer = _own_answer(body, control)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    if control.mode == "rude":
        return f"Sure! Here {{you}} go:\n```json\n{text}\n```\nAnything else?"
    if control.mode == "truncated":
        return text[: len(text) // 2]
    if control.mode == "wrong_schema":
        return json.dumps({"reasoning": 1, "boundaries": "4", "should_wait": "no"})
    return text


def _own_answer(body: dict[str, Any], control: Control) -> dict[str, Any] | str:
    messages: list[dict[str, Any]] = body["messages"]
    if _asks_for_boundaries(body):
        return _every_fourth(body)
    match standin_memory.asked_for(messages):
        case "memcell":
            return standin_memory.remembered(
                messages, gullible=control.gullible, invents=control.mode == "invent"
            )
        case "case":
            return standin_memory.worked_on(messages)
        case "skill":
            return standin_memory.taught_by(messages, invents=control.mode == "invent")
    if _asking(body) == "rewriting":
        return _query(body, control.entities)
    for words, answer in control.script.items():
        if words in _content(messages[-1]):
            return answer
    if control.parrot:
        return standin_memory.repeated(messages)
    return "I see: " + (", ".join(_seen(body, control.entities)) or "nothing")


def _asking(body: dict[str, Any]) -> Asking:
    if _asks_for_boundaries(body):
        return "boundaries"
    first, last = _content(body["messages"][0]), _content(body["messages"][-1])
    for asking, words in _INSTRUCTIONS.items():
        if first.startswith(words) or last.startswith(f"[Task] {words}"):
            return asking
    return _ASKING[standin_memory.asked_for(body["messages"])]


_INSTRUCTIONS: dict[Asking, str] = {
    "rewriting": "You turn the last message of a conversation into",
    "titles": "You give a conversation its title",
    "summaries": "Sum up what was said",
}


def _query(body: dict[str, Any], entities: list[str]) -> str:
    """The last message of a conversation, and whom that is about."""
    last = json.loads(_content(body["messages"][-1]).rpartition("Last message: ")[2])
    return " ".join([last, *_seen(body, entities)[:1]])


def _asks_for_boundaries(body: dict[str, Any]) -> bool:
    return re.search(r"(?m)^\[\d+\] \d{4}-\d\d-\d\dT", _content(body["messages"][-1])) is not None


def _seen(body: dict[str, Any], entities: list[str]) -> list[str]:
    """Whom and what the messages name, in the order of first appearance."""
    text = "\n".join(_content(message) for message in body["messages"])
    places = {
        entity: found.start()
        for entity in [*ENTITIES, *entities]
        if entity in text and (found := re.search(rf"(?<!\w){re.escape(entity)}(?!\w)", text))
    }
    return sorted(places, key=places.__getitem__)


def _logged(body: dict[str, Any], control: Control) -> dict[str, Any]:
    users = [_content(message) for message in body["messages"] if message["role"] == "user"]
    return {
        "asks": _asking(body),
        "boundaries": _asks_for_boundaries(body),
        "last_user": users[-1] if users else None,
        "session_id": body.get("session_id"),
        "entities": _seen(body, control.entities),
        "disturbed": control.disturbs,
    }


def _content(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text") or "") for part in content)


def _every_fourth(body: dict[str, Any]) -> dict[str, Any]:
    numbers = [int(n) for n in re.findall(r"(?m)^\[(\d+)\] ", str(body["messages"][-1]["content"]))]
    ends = list(range(BOUNDARY_EVERY, max(numbers, default=0) + 1, BOUNDARY_EVERY))
    return {"reasoning": "every fourth message ends an episode", "boundaries": ends, "should_wait": not ends}


def _finish_reason(mode: Mode) -> str:
    return {"truncated": "length", "tool_call": "tool_calls"}.get(mode, "stop")


def _completion(choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "created": 0, "model": MODEL, "choices": [{"index": 0, **choice}]}


def _event(choice: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(_completion({'finish_reason': None, **choice}))}\n\n".encode()


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
