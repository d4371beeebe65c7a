"""Every way in which a model's server can fail, and what a user is told."""

import asyncio
import logging
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.llm import ChatCall, StreamEvent
from recollect.errors import (
    BackendDown,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
    RateLimited,
    StreamBroken,
)
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.server import Patience
from tests.eventually import eventually
from tests.http_client import Home
from tests.standins.standin_engines import (
    Engines,
    StandInEngine,
    engines,
    events_of,
    running_engines,
    text_of,
)
from tests.talking import talking

__all__ = ["engines", "running_engines"]

KINDS = ["llama.cpp", "ollama", "anthropic"]
"""One for each protocol."""
CALL = ChatCall([{"role": "user", "content": "Tell me about the sea and the ships on it."}], session="c0ffee")
KEY = "sk-very-secret-key"


async def chat(backend: HttpBackend) -> list[StreamEvent]:
    return await events_of(backend, CALL)


async def failure_of(backend: HttpBackend) -> ModelUnavailable:
    """What a call raises; it must name the backend and not its key, and be the backend's problem then."""
    with pytest.raises(ModelUnavailable) as raised:
        await chat(backend)
    assert "'gpu'" in raised.value.message
    assert KEY not in raised.value.message
    assert backend.problem() == raised.value.message
    return raised.value


# --- nobody there ---------------------------------------------------------------------------------------------


async def test_the_time_of_the_last_activity_is_known(engines: Engines) -> None:
    moment = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
    with StandInEngine("llama.cpp") as llama:
        backend = engines.backend_at(
            llama.base_url, patience=Patience(question=10), clocks={"now": lambda: moment}
        )
        assert backend.last_activity is None
        await chat(backend)
        seen = moment
        moment += timedelta(minutes=5)
    await failure_of(backend)
    assert backend.last_activity == seen


# --- refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_told_in_our_words(kind: str, status: int, engines: Engines) -> None:
    backend = engines.backend(kind, api_key=KEY)
    await backend.facts()
    engines(kind).control("status", status=status, message="I won't talk about the ships on it")
    error = await failure_of(backend)
    assert isinstance(error, ModelRefused)
    assert f"refused the request ({status})" in error.message
    assert "ships" not in error.message


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
async def test_the_servers_words_are_in_the_log_at_debug_alone(
    body: Any, engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    backend = engines.backend("llama.cpp", api_key=KEY)
    await backend.facts()
    engines("llama.cpp").control("status", status=500, body=body)
    with caplog.at_level(logging.DEBUG, "recollect.backends"):
        error = await failure_of(backend)
    assert type(error) is ModelUnavailable
    assert error.message.endswith("failed (500).")
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert "memory" in record.getMessage()


async def test_the_log_has_no_word_of_the_request_and_no_key(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    backend = engines.backend("llama.cpp", api_key=KEY)
    await backend.facts()
    said = f"too long: 'about the sea and the ships' with {KEY}"
    engines("llama.cpp").control("status", status=400, message=said)
    with caplog.at_level(logging.DEBUG, "recollect.backends"):
        await failure_of(backend)
    told = "".join(record.getMessage() for record in caplog.records)
    assert "too long" in told
    assert not {"sea", "ships", KEY} & set(re.findall(r"[\w-]+", told))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"code": "context_length_exceeded", "message": "x"}, "longer than its context"),
        ({"code": 400, "type": "exceed_context_size_error", "message": "x"}, "longer than its context"),
    ],
)
async def test_a_prompt_that_is_too_long_is_named_by_the_servers_code(
    error: Any, words: str, engines: Engines
) -> None:
    backend = engines.backend("llama.cpp", api_key=KEY)
    await backend.facts()
    engines("llama.cpp").control("status", status=400, body={"error": error})
    assert words in (await failure_of(backend)).message


async def test_a_rate_limit_tells_the_seconds_to_wait(engines: Engines) -> None:
    now = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
    backend = engines.backend("llama.cpp", api_key=KEY, clocks={"now": lambda: now})
    await backend.facts()
    date = format_datetime(now + timedelta(seconds=90), usegmt=True)
    for header, seconds in [("7", 7), ("0.5", 0.5), (date, 90), ("soon", None), ("nan", None)]:
        engines("llama.cpp").control("status", status=429, headers={"Retry-After": header})
        error = await failure_of(backend)
        assert isinstance(error, RateLimited)
        assert error.retry_after == seconds


async def test_a_server_that_is_still_loading_is_not_taken_for_another_engine(engines: Engines) -> None:
    llama = engines("llama.cpp")
    backend = engines.backend("llama.cpp", api_key=KEY)
    llama.control(question_status=503, message="Loading model")
    assert "It may be loading a model" in (await failure_of(backend)).message
    llama.control("answer")
    assert (await backend.facts()).kind == "llama.cpp"


async def test_a_wrong_key_is_told_when_the_engine_is_asked(engines: Engines) -> None:
    vllm = engines("vllm")
    backend = engines.backend("vllm", api_key=KEY)
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
        ("error", "failed in the middle of its answer."),
        ("endless", "a line without an end"),
        ("page", "sent a web page"),
    ],
)
async def test_a_broken_answer_is_told_in_words_and_the_next_one_works(
    kind: str,
    mode: str,
    words: str,
    engines: Engines,
) -> None:
    backend = engines.backend(kind, api_key=KEY)
    await backend.facts()
    engines(kind).control(mode)
    error = await failure_of(backend)
    assert isinstance(error, StreamBroken)
    assert words in error.message
    engines(kind).control("answer")
    assert await chat(backend)
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
    engines: Engines,
) -> None:
    backend = engines.backend(kind, api_key=KEY, patience=patience)
    await backend.facts()
    before = engines(kind).dropped()
    engines(kind).control(mode)
    error = await failure_of(backend)
    assert isinstance(error, ModelTooSlow)
    assert f"silent for {seconds}" in error.message
    assert engines(kind).dropped(at_least=before + 1) == before + 1


@pytest.mark.parametrize("kind", ["llama.cpp", "ollama"])
async def test_a_server_that_answers_in_one_piece_is_understood(kind: str, engines: Engines) -> None:
    backend = engines.backend(kind, api_key=KEY)
    engines(kind).control("whole", answer="All at once.")
    assert text_of(await chat(backend)) == "All at once."


async def test_a_server_that_dies_in_its_answer_is_told_and_found_again(engines: Engines) -> None:
    with StandInEngine("llama.cpp") as llama:
        backend = engines.backend_at(llama.base_url, patience=Patience(question=10))
        llama.control("die")
        assert isinstance(await failure_of(backend), StreamBroken)
    assert isinstance(await failure_of(backend), BackendDown)
    with StandInEngine("llama.cpp", port=llama.port):
        assert await chat(backend)


async def test_a_silent_server_does_not_keep_others_waiting(engines: Engines) -> None:
    llama = engines("llama.cpp")
    backend = engines.backend("llama.cpp", api_key=KEY, patience=Patience(first_token=30, question=10))
    await backend.facts()
    llama.control("silent", times=1)
    before, asked = llama.dropped(), len(llama.chats())
    waiting = asyncio.create_task(chat(backend))
    await eventually(lambda: len(llama.chats()) > asked)
    assert await chat(backend)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert llama.dropped(at_least=before + 1) == before + 1
    assert backend.problem() is None


# --- over HTTP ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "control",
    [
        {"mode": "status", "status": 400, "message": "cannot tokenize: MY-DIAGNOSIS"},
        {"mode": "status", "status": 500, "body": "Traceback: MY-DIAGNOSIS"},
        {"mode": "status", "status": 429, "body": {"detail": [{"input": "MY-DIAGNOSIS"}]}},
    ],
    ids=["refused", "failed", "rate limit"],
)
async def test_what_a_server_says_of_an_error_is_shown_nowhere(
    tmp_path: Path, engines: Engines, control: Any
) -> None:
    """It may quote the prompt of another person."""
    async with talking(tmp_path, engines("llama.cpp")) as talk:
        engines("llama.cpp").control(**control)
        body = {"user_id": "ann", "content": "hello"}
        openai = {"messages": [{"role": "user", "content": "hello"}]}
        shown = [
            await talk.client.post("/api/v1/threads/t/messages", json=body),
            await talk.client.post("/api/v1/threads/t/messages", json={**body, "stream": True}),
            await talk.client.post("/v1/chat/completions", json=openai),
            await talk.client.get("/health"),
            await talk.client.get("/api/v1/backends"),
            await talk.client.get("/api/v1/threads/t/turns", params={"receipts": True}),
            await talk.client.get("/api/v1/jobs"),
        ]
    assert "the backend 'default'" in shown[3].text
    assert [answer.url.path for answer in shown if "DIAGNOSIS" in answer.text] == []


async def test_when_a_backend_was_last_active_is_for_the_operator(tmp_path: Path, engines: Engines) -> None:
    async with talking(tmp_path, engines("llama.cpp")) as talk:
        await talk.say("hello")
        home = Home(talk.app, talk.client)
        operator, ann = await home.make_key(), await home.make_key("ann")
        health = await talk.client.get("/health")
        seen = [
            (await talk.client.get("/api/v1/backends", headers=key)).json()["backends"][0]["last_activity"]
            for key in (operator, ann)
        ]
    assert "last_activity" not in health.text
    assert seen[0] > 0
    assert seen[1] is None
