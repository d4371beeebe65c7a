"""Boundaries by a model: a background call to a stand-in server in a process of its own."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from recollect.domain.boundary import BoundaryAnswer, parse_answer
from recollect.domain.boundary_prompt import ANSWER_SCHEMA, boundary_prompt
from recollect.domain.job import Preempted
from recollect.domain.model import Turn
from recollect.errors import ModelUnavailable
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.server import Endpoint
from recollect.service.models.backend_priority import Gate
from recollect.service.models.background import MAX_ANSWER_BYTES, BackgroundModel
from tests.background import model_on
from tests.processes import StandInModel

TURNS = [Turn(f"t-{n}", f"m{n}", "user", "ann", f"message {n}", 1_700_000_000_000 + n) for n in range(9)]
GIVEN: dict[str, Any] = {"reasoning": "as told", "boundaries": [3], "should_wait": False}


@pytest.fixture
def server(running: StandInModel) -> StandInModel:
    running.control("answer")
    return running


class Pauses:
    """Takes the place of sleeping, and remembers for how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@asynccontextmanager
async def backend_at(server: StandInModel) -> AsyncIterator[HttpBackend]:
    backend = HttpBackend(Endpoint("default", server.base_url, api_key="key-1", model="stand-in"))
    yield backend
    await backend.aclose()


@pytest.fixture
async def backend(server: StandInModel) -> AsyncIterator[HttpBackend]:
    async with backend_at(server) as backend:
        yield backend


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def model(backend: HttpBackend, gate: Gate, pauses: Pauses) -> BackgroundModel:
    return model_on(backend, gate, answer_seconds=20, pause=pauses)


async def ask(model: BackgroundModel) -> BoundaryAnswer:
    answer = await model.ask(
        boundary_prompt(TURNS),
        space="default",
        thread_id="t1",
        max_tokens=1024,
        schema=ANSWER_SCHEMA,
        check=parse_answer,
    )
    return parse_answer(answer.text)


def bodies_since(server: StandInModel, before: int) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = server.calls()["bodies"]
    return bodies[before:]


def asked(server: StandInModel) -> int:
    return len(server.calls()["bodies"])


async def test_an_answer_comes_back_as_the_model_gave_it(
    server: StandInModel, model: BackgroundModel
) -> None:
    server.control("answer", answer=GIVEN)
    assert await ask(model) == BoundaryAnswer("as told", [3], False)


async def test_the_stand_in_sees_all_the_numbered_messages(model: BackgroundModel) -> None:
    assert (await ask(model)).boundaries == [4, 8]


async def test_the_request_streams_belongs_to_no_session_and_carries_the_schema(
    server: StandInModel, model: BackgroundModel
) -> None:
    before = asked(server)
    await ask(model)
    (body,) = bodies_since(server, before)
    assert (body["temperature"], body["stream"], body["max_tokens"]) == (0, True, 1024)
    assert body["response_format"]["json_schema"]["schema"] == ANSWER_SCHEMA
    assert not {"session_id", "cache_prompt", "id_slot"} & set(body)
    assert server.calls()["authorizations"][-1] == "Bearer key-1"


@pytest.mark.parametrize(
    ("mode", "flaw"),
    [
        ("truncated", "no JSON object"),
        ("wrong_schema", "'reasoning' is not"),
        ("error", "its server failed"),
    ],
)
async def test_what_stays_wrong_is_tried_three_times_and_then_named(
    mode: str, flaw: str, server: StandInModel, model: BackgroundModel, pauses: Pauses
) -> None:
    server.control(mode)
    before = asked(server)
    with pytest.raises(ModelUnavailable, match=flaw):
        await ask(model)
    assert asked(server) - before == 3
    assert pauses.seconds == [0.5, 1.0]


@pytest.mark.parametrize("mode", ["truncated", "wrong_schema", "error"])
async def test_what_goes_wrong_once_is_tried_again(
    mode: str, server: StandInModel, model: BackgroundModel
) -> None:
    server.control(mode, times=1)
    assert (await ask(model)).boundaries == [4, 8]


async def test_a_refused_schema_is_left_out_from_then_on(
    server: StandInModel, model: BackgroundModel, pauses: Pauses
) -> None:
    server.control("refuse_schema")
    await ask(model)
    before = asked(server)
    await ask(model)
    assert ["response_format" in body for body in bodies_since(server, before)] == [False]
    assert pauses.seconds == []


async def test_an_answer_without_end_is_refused(server: StandInModel, model: BackgroundModel) -> None:
    server.control("answer", answer="x" * (MAX_ANSWER_BYTES + 1))
    with pytest.raises(ModelUnavailable, match="exceeds"):
        await ask(model)


async def test_a_silent_server_is_left_at_the_deadline(server: StandInModel, backend: HttpBackend) -> None:
    await backend.facts()
    server.control("silent")
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"more than 0\.3 s"):
        await ask(model_on(backend, answer_seconds=0.3))
    assert time.monotonic() - started < 3
    assert await asyncio.to_thread(server.calls, in_flight=0)


async def test_a_dropped_call_stops_at_the_server_at_once(
    server: StandInModel, model: BackgroundModel
) -> None:
    server.control("silent")
    call = asyncio.create_task(ask(model))
    await asyncio.to_thread(server.calls, in_flight=1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(server.calls, in_flight=0)


async def test_a_chat_that_arrives_finds_the_server_idle(
    server: StandInModel, backend: HttpBackend, gate: Gate, model: BackgroundModel
) -> None:
    server.control("silent")
    call = asyncio.create_task(ask(model))
    await asyncio.to_thread(server.calls, in_flight=1)
    async with gate.chat(backend, "another thread"):
        assert await asyncio.to_thread(server.calls, in_flight=0)
        with pytest.raises(Preempted):
            await call


async def test_a_server_that_dies_mid_stream_is_unavailable(pauses: Pauses) -> None:
    with StandInModel() as server:
        async with backend_at(server) as backend:
            await backend.facts()
            server.control("die")
            with pytest.raises(ModelUnavailable, match="failed 3 times"):
                await ask(model_on(backend, pause=pauses))
        assert server.process.wait(timeout=10) == 1
    assert len(pauses.seconds) == 2
