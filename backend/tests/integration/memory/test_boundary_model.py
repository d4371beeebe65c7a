"""Boundaries by a model: a background call to a stand-in server in a process of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from pydantic import SecretStr

from recollect.domain.boundary import ANSWER_SCHEMA, BoundaryAnswer, boundary_prompt, parse_answer
from recollect.domain.job import Preempted
from recollect.domain.model import ThreadRef, Turn
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.server import Endpoint
from recollect.service.models.backend_priority import Gate
from recollect.service.models.background import BackgroundModel
from tests.processes import StandInModel
from tests.standins.background import model_on

TURNS = [Turn(f"t-{n}", f"m{n}", "user", "ann", f"message {n}", 1_700_000_000_000 + n) for n in range(9)]


@pytest.fixture
def server() -> Iterator[StandInModel]:
    with StandInModel() as server:
        yield server


@pytest.fixture
async def backend(server: StandInModel) -> AsyncIterator[HttpBackend]:
    backend = HttpBackend(
        Endpoint(name="default", base_url=server.base_url, api_key=SecretStr("key-1"), model="stand-in")
    )
    yield backend
    await backend.aclose()


async def ask(model: BackgroundModel) -> BoundaryAnswer:
    answer = await model.ask(
        boundary_prompt(TURNS),
        thread=ThreadRef("default", "ann", "t1"),
        max_tokens=1024,
        schema=ANSWER_SCHEMA,
        check=parse_answer,
    )
    return parse_answer(answer.text)


async def test_the_request_streams_belongs_to_no_session_and_carries_the_schema(
    server: StandInModel, backend: HttpBackend
) -> None:
    assert (await ask(model_on(backend))).boundaries == [4, 8]
    (body,) = server.calls()["bodies"]
    assert (body["temperature"], body["stream"], body["max_tokens"]) == (0, True, 1024)
    assert body["response_format"]["json_schema"]["schema"] == ANSWER_SCHEMA
    assert not {"session_id", "cache_prompt", "id_slot"} & set(body)
    assert server.calls()["authorizations"] == ["Bearer key-1"]


async def test_a_chat_that_arrives_finds_the_server_idle(server: StandInModel, backend: HttpBackend) -> None:
    server.control("silent")
    gate = Gate()
    call = asyncio.create_task(ask(model_on(backend, gate, answer_seconds=20)))
    await asyncio.to_thread(server.calls, in_flight=1)
    async with gate.chat(backend, "another thread"):
        assert await asyncio.to_thread(server.calls, in_flight=0)
        with pytest.raises(Preempted):
            await call
