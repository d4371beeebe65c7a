"""Every way in which a model's server can fail, and what a user is told."""

import asyncio
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from recollect.domain.llm import ChatCall, Delta, StreamEvent
from recollect.errors import (
    BackendDown,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
    RateLimited,
    StreamBroken,
)
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.server import Endpoint, Patience
from tests.eventually import eventually
from tests.standin_engines import StandInEngine

KINDS = ["llama.cpp", "ollama", "anthropic"]
"""One for each protocol."""
CALL = ChatCall([{"role": "user", "content": "Tell me about the sea and the ships on it."}], session="c0ffee")
KEY = "sk-very-secret-key"

Open = Callable[..., HttpBackend]


@pytest.fixture(scope="module")
def engine() -> Iterator[Callable[[str], StandInEngine]]:
    running: dict[str, StandInEngine] = {}
    with ExitStack() as stack:

        def of(kind: str) -> StandInEngine:
            if kind not in running:
                running[kind] = stack.enter_context(StandInEngine(kind))
            running[kind].control("answer")
            return running[kind]

        yield of


@pytest.fixture
async def open_backend() -> AsyncIterator[Open]:
    opened: list[HttpBackend] = []

    def backend(address: str, *, kind: str | None = None, **parts: Any) -> HttpBackend:
        patience = parts.pop("patience", Patience(question=10))
        given: Any = kind if kind == "anthropic" else None
        endpoint = Endpoint("gpu", address, api_key=KEY, kind=given, model=None, patience=patience)
        opened.append(HttpBackend(endpoint, **parts))
        return opened[-1]

    yield backend
    for each in opened:
        await each.aclose()


async def events_of(backend: HttpBackend) -> list[StreamEvent]:
    async with aclosing(backend.stream(CALL)) as events:
        return [event async for event in events]


async def failure_of(backend: HttpBackend) -> ModelUnavailable:
    """What a call raises; it must name the backend and not its key, and be the backend's problem then."""
    with pytest.raises(ModelUnavailable) as raised:
        await events_of(backend)
    assert "'gpu'" in raised.value.message
    assert KEY not in raised.value.message
    assert backend.problem() == raised.value.message
    return raised.value


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


# --- nobody there ---------------------------------------------------------------------------------------------


async def test_a_server_that_does_not_run_fails_at_once(open_backend: Open) -> None:
    backend = open_backend(f"http://127.0.0.1:{free_port()}")
    began = time.monotonic()
    error = await failure_of(backend)
    assert isinstance(error, BackendDown)
    assert time.monotonic() - began < 1


async def test_a_dead_server_is_not_asked_for_two_seconds_and_then_found_again(open_backend: Open) -> None:
    now = 100.0
    port = free_port()
    backend = open_backend(f"http://127.0.0.1:{port}", monotonic=lambda: now)
    assert isinstance(await failure_of(backend), BackendDown)
    with StandInEngine("llama.cpp", port=port) as engine:
        now += 1.9
        assert isinstance(await failure_of(backend), BackendDown)
        assert engine.requests() == []
        now += 0.2
        assert await events_of(backend)
        assert backend.problem() is None


async def test_a_server_that_comes_back_as_another_engine_is_asked_anew(open_backend: Open) -> None:
    with StandInEngine("llama.cpp") as llama:
        backend = open_backend(llama.base_url, patience=Patience(dead=0, question=10))
        assert (await backend.facts()).kind == "llama.cpp"
    assert isinstance(await failure_of(backend), BackendDown | StreamBroken)
    with StandInEngine("vllm", port=llama.port):
        assert (await backend.facts()).kind == "vllm"
        assert await events_of(backend)


async def test_the_time_of_the_last_activity_is_known(open_backend: Open) -> None:
    moment = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
    with StandInEngine("llama.cpp") as llama:
        backend = open_backend(llama.base_url, patience=Patience(dead=0, question=10), now=lambda: moment)
        assert backend.last_activity is None
        await events_of(backend)
        seen = moment
        moment += timedelta(minutes=5)
    await failure_of(backend)
    assert backend.last_activity == seen


# --- refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_quotes_the_server(
    kind: str, status: int, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine(kind).base_url, kind=kind)
    await backend.facts()
    engine(kind).control("status", status=status, message=f"no, not with {KEY}")
    error = await failure_of(backend)
    assert isinstance(error, ModelRefused)
    assert str(status) in error.message
    assert "no, not with …" in error.message


@pytest.mark.parametrize(
    "body",
    [
        {"error": "out of memory"},
        {"error": {"message": "out of memory", "code": 1}},
        {"detail": [{"msg": "out of memory", "loc": ["body"]}]},
        {"object": "error", "message": "out of memory"},
        "out of memory",
    ],
)
async def test_the_servers_words_are_found_wherever_it_puts_them(
    body: Any, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine("llama.cpp").base_url)
    await backend.facts()
    engine("llama.cpp").control("status", status=500, body=body)
    error = await failure_of(backend)
    assert type(error) is ModelUnavailable
    assert error.message.endswith("failed (500): out of memory.")


async def test_a_long_error_is_quoted_briefly_and_a_page_not_at_all(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine("llama.cpp").base_url)
    await backend.facts()
    engine("llama.cpp").control("status", status=500, body="no! " * 200_000)
    assert len((await failure_of(backend)).message) < 500
    engine("llama.cpp").control("status", status=502, body="<html><h1>Bad gateway</h1></html>")
    assert (await failure_of(backend)).message.endswith("failed (502).")


async def test_a_rate_limit_tells_the_seconds_to_wait(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    now = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
    backend = open_backend(engine("llama.cpp").base_url, now=lambda: now)
    await backend.facts()
    date = format_datetime(now + timedelta(seconds=90), usegmt=True)
    for header, seconds in [("7", 7), ("0.5", 0.5), (date, 90), ("soon", None), ("nan", None)]:
        engine("llama.cpp").control("status", status=429, headers={"Retry-After": header})
        error = await failure_of(backend)
        assert isinstance(error, RateLimited)
        assert error.retry_after == seconds


async def test_a_server_that_is_still_loading_is_not_taken_for_another_engine(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    llama = engine("llama.cpp")
    backend = open_backend(llama.base_url)
    llama.control(question_status=503, message="Loading model")
    assert "Loading model" in (await failure_of(backend)).message
    llama.control("answer")
    assert (await backend.facts()).kind == "llama.cpp"


async def test_a_wrong_key_is_told_when_the_engine_is_asked(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    vllm = engine("vllm")
    backend = open_backend(vllm.base_url)
    vllm.control(question_status=401, message="Invalid key")
    error = await failure_of(backend)
    assert isinstance(error, ModelRefused)
    assert "Check its API key" in error.message


# --- broken answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("early_end", "broke off"),
        ("rubbish", "not JSON"),
        ("wrong_shape", "no part of an answer"),
        ("error", "the graphics card went away"),
        ("endless", "a line without an end"),
        ("page", "sent a web page"),
    ],
)
async def test_a_broken_answer_is_told_in_words_and_the_next_one_works(
    kind: str,
    mode: str,
    words: str,
    engine: Callable[[str], StandInEngine],
    open_backend: Open,
) -> None:
    backend = open_backend(engine(kind).base_url, kind=kind)
    await backend.facts()
    engine(kind).control(mode)
    error = await failure_of(backend)
    assert isinstance(error, StreamBroken)
    assert words in error.message
    engine(kind).control("answer")
    assert await events_of(backend)
    assert backend.problem() is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("mode", "patience", "seconds"),
    [
        ("stall", Patience(first_token=60, stall=0.3, question=10), "0.3 s"),
        ("silent", Patience(first_token=0.4, stall=60, question=10), "0.4 s"),
    ],
)
async def test_silence_is_told_after_as_long_as_it_may_last(
    kind: str,
    mode: str,
    patience: Patience,
    seconds: str,
    engine: Callable[[str], StandInEngine],
    open_backend: Open,
) -> None:
    backend = open_backend(engine(kind).base_url, kind=kind, patience=patience)
    await backend.facts()
    before = engine(kind).dropped()
    engine(kind).control(mode)
    error = await failure_of(backend)
    assert isinstance(error, ModelTooSlow)
    assert f"silent for {seconds}" in error.message
    assert engine(kind).dropped(at_least=before + 1) == before + 1


@pytest.mark.parametrize("kind", KINDS)
async def test_what_came_before_the_break_was_given_out(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine(kind).base_url, kind=kind)
    engine(kind).control("early_end")
    given: list[StreamEvent] = []

    async def chat() -> None:
        async with aclosing(backend.stream(CALL)) as events:
            while True:
                given.append(await anext(events))

    with pytest.raises(StreamBroken):
        await chat()
    text = "".join(event.text for event in given if isinstance(event, Delta))
    assert text.startswith("You said: Tell")


@pytest.mark.parametrize("kind", ["llama.cpp", "ollama"])
async def test_a_server_that_answers_in_one_piece_is_understood(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine(kind).base_url, kind=kind)
    engine(kind).control("whole", answer="All at once.")
    events = await events_of(backend)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "All at once."


async def test_a_server_that_dies_in_its_answer_is_told_and_found_again(open_backend: Open) -> None:
    with StandInEngine("llama.cpp") as llama:
        backend = open_backend(llama.base_url, patience=Patience(dead=0, question=10))
        llama.control("die")
        assert isinstance(await failure_of(backend), StreamBroken)
    assert isinstance(await failure_of(backend), BackendDown)
    with StandInEngine("llama.cpp", port=llama.port):
        assert await events_of(backend)


async def test_an_endless_line_costs_bounded_memory(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine("llama.cpp").base_url)
    await backend.facts()
    engine("llama.cpp").control("endless")
    tracemalloc.start()
    try:
        await failure_of(backend)
        assert tracemalloc.get_traced_memory()[1] < 24 * 1024 * 1024
    finally:
        tracemalloc.stop()


async def test_a_silent_server_does_not_keep_others_waiting(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    llama = engine("llama.cpp")
    backend = open_backend(llama.base_url, patience=Patience(first_token=30, question=10))
    await backend.facts()
    llama.control("silent", times=1)
    before, asked = llama.dropped(), len(llama.chats())
    waiting = asyncio.create_task(events_of(backend))
    await eventually(lambda: len(llama.chats()) > asked)
    assert await events_of(backend)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert llama.dropped(at_least=before + 1) == before + 1
    assert backend.problem() is None
