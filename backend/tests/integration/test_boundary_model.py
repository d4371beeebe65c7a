"""The boundary model against a stand-in server in a process of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from recollect.errors import ModelUnavailable
from recollect.infra.boundary_model import MAX_ANSWER_BYTES, BoundaryModel
from recollect.memory.boundary import BoundaryAnswer
from recollect.memory.boundary_prompt import ANSWER_SCHEMA
from recollect.memory.model import Turn
from tests.processes import StandInModel

TURNS = [Turn(f"t-{n}", f"m{n}", "user", "ann", f"message {n}", 1_700_000_000_000 + n) for n in range(9)]
GIVEN: dict[str, Any] = {"reasoning": "as told", "boundaries": [3], "should_wait": False}


@pytest.fixture(scope="module")
def running() -> Iterator[StandInModel]:
    with StandInModel() as server:
        yield server


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


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


@pytest.fixture
def model(server: StandInModel, client: httpx2.AsyncClient, pauses: Pauses) -> BoundaryModel:
    return BoundaryModel(
        base_url=server.base_url, model="m", api_key="key-1", timeout=20, pause=pauses, client=client
    )


def bodies_since(server: StandInModel, before: int) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = server.calls()["bodies"]
    return bodies[before:]


def asked(server: StandInModel) -> int:
    return len(server.calls()["bodies"])


async def test_an_answer_comes_back_as_the_model_gave_it(server: StandInModel, model: BoundaryModel) -> None:
    server.control("answer", answer=GIVEN)
    assert await model.ask(TURNS) == BoundaryAnswer("as told", [3], False)


async def test_the_stand_in_sees_all_the_numbered_messages(model: BoundaryModel) -> None:
    assert (await model.ask(TURNS)).boundaries == [4, 8]


async def test_the_request_holds_the_standard_fields_and_no_others(
    server: StandInModel, model: BoundaryModel
) -> None:
    before = asked(server)
    await model.ask(TURNS)
    (body,) = bodies_since(server, before)
    assert set(body) == {"model", "messages", "temperature", "stream", "response_format"}
    assert (body["model"], body["temperature"], body["stream"]) == ("m", 0, True)
    assert body["response_format"]["json_schema"]["schema"] == ANSWER_SCHEMA
    assert server.calls()["authorizations"][-1] == "Bearer key-1"


async def test_prose_and_fences_around_the_answer_are_forgiven(
    server: StandInModel, model: BoundaryModel, pauses: Pauses
) -> None:
    server.control("rude", answer=GIVEN)
    assert (await model.ask(TURNS)).boundaries == [3]
    assert pauses.seconds == []


@pytest.mark.parametrize(
    ("mode", "flaw"),
    [("truncated", "no complete JSON object"), ("wrong_schema", "'reasoning' is not"), ("error", "500")],
)
async def test_what_stays_wrong_is_tried_three_times_and_then_named(
    mode: str, flaw: str, server: StandInModel, model: BoundaryModel, pauses: Pauses
) -> None:
    server.control(mode)
    before = asked(server)
    with pytest.raises(ModelUnavailable, match=flaw):
        await model.ask(TURNS)
    assert asked(server) - before == 3
    assert pauses.seconds == [0.5, 1.0]


@pytest.mark.parametrize("mode", ["truncated", "wrong_schema", "error"])
async def test_what_goes_wrong_once_is_tried_again(
    mode: str, server: StandInModel, model: BoundaryModel
) -> None:
    server.control(mode, times=1)
    assert (await model.ask(TURNS)).boundaries == [4, 8]


async def test_a_refused_schema_is_left_out_from_then_on(
    server: StandInModel, model: BoundaryModel, pauses: Pauses
) -> None:
    server.control("refuse_schema")
    before = asked(server)
    await model.ask(TURNS)
    await model.ask(TURNS)
    with_schema = ["response_format" in body for body in bodies_since(server, before)]
    assert with_schema == [True, False, False]
    assert pauses.seconds == []


async def test_an_answer_without_end_is_refused(server: StandInModel, model: BoundaryModel) -> None:
    server.control("answer", answer="x" * (MAX_ANSWER_BYTES + 1))
    with pytest.raises(ModelUnavailable, match="exceeds"):
        await model.ask(TURNS)


async def test_a_silent_server_is_left_at_the_deadline(
    server: StandInModel, client: httpx2.AsyncClient
) -> None:
    server.control("silent")
    model = BoundaryModel(base_url=server.base_url, model="m", api_key=None, timeout=0.3, client=client)
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"more than 0\.3 s"):
        await model.ask(TURNS)
    assert time.monotonic() - started < 3
    assert await asyncio.to_thread(server.calls, in_flight=0)


async def test_the_deadline_is_for_all_tries_together(
    server: StandInModel, client: httpx2.AsyncClient
) -> None:
    server.control("error", delay_seconds=0.2)
    model = BoundaryModel(
        base_url=server.base_url,
        model="m",
        api_key=None,
        timeout=0.5,
        attempts=100,
        client=client,
        pause=Pauses(),
    )
    before = asked(server)
    with pytest.raises(ModelUnavailable, match=r"more than 0\.5 s.*500"):
        await model.ask(TURNS)
    assert asked(server) - before <= 3


async def test_a_dropped_call_stops_at_the_server_at_once(server: StandInModel, model: BoundaryModel) -> None:
    server.control("silent")
    call = asyncio.create_task(model.ask(TURNS))
    await asyncio.to_thread(server.calls, in_flight=1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(server.calls, in_flight=0)


async def test_a_server_that_dies_mid_stream_is_unavailable(
    client: httpx2.AsyncClient, pauses: Pauses
) -> None:
    with StandInModel() as server:
        server.control("die")
        model = BoundaryModel(base_url=server.base_url, model="m", api_key=None, pause=pauses, client=client)
        with pytest.raises(ModelUnavailable, match="failed 3 times"):
            await model.ask(TURNS)
        assert server.process.wait(timeout=10) == 1
    assert len(pauses.seconds) == 2


async def test_without_a_name_the_first_model_is_asked_for_once(
    server: StandInModel, client: httpx2.AsyncClient
) -> None:
    model = BoundaryModel(base_url=server.base_url, model=None, api_key=None, client=client)
    listings, before = server.calls()["model_listings"], asked(server)
    await model.ask(TURNS)
    await model.ask(TURNS)
    assert [body["model"] for body in bodies_since(server, before)] == ["stand-in", "stand-in"]
    assert server.calls()["model_listings"] - listings == 1


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
async def test_the_address_is_taken_with_and_without_its_version(
    ending: str, server: StandInModel, client: httpx2.AsyncClient
) -> None:
    model = BoundaryModel(base_url=server.base_url + ending, model="m", api_key=None, client=client)
    assert (await model.ask(TURNS)).boundaries == [4, 8]


def test_an_address_without_a_scheme_is_refused_when_it_is_given() -> None:
    with pytest.raises(ValueError, match="http"):
        BoundaryModel(base_url="localhost:8080", model="m", api_key=None)


def answering(*responses: httpx2.Response) -> tuple[httpx2.AsyncClient, list[str]]:
    """A client that gets these responses, in turn, and the paths that it asked for."""
    queue, paths = list(responses), []

    def respond(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.path)
        return queue.pop(0)

    return httpx2.AsyncClient(transport=httpx2.MockTransport(respond)), paths


async def test_a_server_that_does_not_stream_is_understood() -> None:
    completion = {
        "choices": [{"message": {"content": '{"reasoning":"","boundaries":[2],"should_wait":false}'}}]
    }
    client, paths = answering(httpx2.Response(200, json=completion))
    async with client:
        model = BoundaryModel(base_url="http://h/v1beta/openai", model="m", api_key=None, client=client)
        assert (await model.ask(TURNS)).boundaries == [2]
    assert paths == ["/v1beta/openai/chat/completions"]


async def test_a_key_that_is_refused_is_not_tried_again() -> None:
    client, paths = answering(httpx2.Response(401))
    async with client:
        model = BoundaryModel(base_url="http://h", model="m", api_key="wrong", client=client)
        with pytest.raises(ModelUnavailable, match="401"):
            await model.ask(TURNS)
    assert len(paths) == 1


async def test_a_request_refused_for_another_reason_leaves_the_schema_in_use() -> None:
    client, paths = answering(*[httpx2.Response(400)] * 4)
    async with client:
        model = BoundaryModel(base_url="http://h", model="m", api_key=None, client=client)
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match="400"):
                await model.ask(TURNS)
    assert len(paths) == 4


@pytest.mark.parametrize(
    "body", ["[]", "7", '{"choices": 7}', '{"choices": [7]}', "nonsense", '{"error": {"message": "secret"}}']
)
async def test_an_answer_that_is_no_completion_is_named_and_not_quoted(body: str) -> None:
    client, _ = answering(httpx2.Response(200, text=body))
    async with client:
        model = BoundaryModel(base_url="http://h", model="m", api_key=None, client=client, attempts=1)
        with pytest.raises(ModelUnavailable) as caught:
            await model.ask(TURNS)
    assert body not in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_only_a_client_of_its_own_is_closed() -> None:
    client, _ = answering()
    async with client:
        await BoundaryModel(base_url="http://h", model="m", api_key=None, client=client).aclose()
        assert not client.is_closed
