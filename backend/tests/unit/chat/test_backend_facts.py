"""What is known of a server is asked again when it may have changed, and kept when nothing speaks against it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import pytest

from recollect.domain.llm import ChatCall, Delta, StreamEvent
from recollect.errors import (
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
    RateLimited,
    StreamBroken,
    UnknownModel,
)
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.server import Endpoint, Patience
from tests.fakes import FakeClock
from tests.standins.standin_engines import events_of, text_of

CALL = ChatCall([{"role": "user", "content": "Hello there"}], session="c0ffee", slot=0)
NOT_FOUND = httpx2.Response(404, json={"error": "not found"})
STREAMED = {"Content-Type": "text/event-stream"}


def told(answer: Any) -> httpx2.Response:
    return httpx2.Response(200, json=answer)


def streamed(*events: Any) -> httpx2.Response:
    lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events]
    return httpx2.Response(200, content="".join(lines).encode(), headers=STREAMED)


def answered(text: str = "fine") -> httpx2.Response:
    return streamed(
        {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}, "[DONE]"
    )


@dataclass
class Scripted:
    """A server whose engine, context and manners a test changes while it is in use."""

    engine: str = "llama.cpp"
    context: int = 16384
    models: tuple[str, ...] = ("m1", "m2")
    status: int | None = None
    """Of every route, as a proxy answers whose server is away."""
    late: set[str] = field(default_factory=set)
    """Routes that don't answer in time."""
    busy: Callable[[], bool] = lambda: False
    """Whether it answers nothing in time just now."""
    tokenized: httpx2.Response = field(default_factory=lambda: told({"tokens": [1, 2, 3]}))
    chat: Callable[[dict[str, Any]], httpx2.Response] = lambda _body: answered()
    asked: list[str] = field(default_factory=list)
    chats: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.asked.append(path)
        if self.busy() or path in self.late:
            await asyncio.Event().wait()
        if self.status is not None:
            return httpx2.Response(self.status, text="<html>Bad gateway</html>")
        if path == self.chat_route:
            self.chats.append(json.loads(request.content))
            return self.chat(self.chats[-1])
        if path == "/tokenize":
            return self.tokenized
        return told(answer) if (answer := self._told().get(path)) else NOT_FOUND

    @property
    def chat_route(self) -> str:
        return "/api/chat" if self.engine == "ollama" else "/v1/chat/completions"

    def _told(self) -> dict[str, Any]:
        listing = {"data": [{"id": name, "owned_by": "someone"} for name in self.models]}
        if self.engine == "ollama":
            return {
                "/api/version": {"version": "0.9"},
                "/api/tags": {"models": [{"name": name} for name in self.models]},
            }
        if self.engine == "other":
            return {"/v1/models": listing}
        settings = {"n_ctx": self.context}
        props = {"default_generation_settings": settings, "total_slots": 2, "chat_template": "x"}
        owned = {"data": [{"id": "m1", "owned_by": "llamacpp"}]}
        return {"/props": props, "/v1/models": owned}

    def times(self, route: str) -> int:
        return self.asked.count(route)


@pytest.fixture
def server() -> Scripted:
    return Scripted()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000)


@pytest.fixture
async def backend(server: Scripted, clock: FakeClock) -> AsyncIterator[HttpBackend]:
    patience = Patience(question=0.2)
    endpoint = Endpoint(name="gpu", base_url="http://127.0.0.1:8080", patience=patience)
    backend = HttpBackend(endpoint, transport=httpx2.MockTransport(server), monotonic=clock)
    yield backend
    await backend.aclose()


async def chat(backend: HttpBackend, call: ChatCall = CALL) -> list[StreamEvent]:
    return await events_of(backend, call)


async def said(backend: HttpBackend, call: ChatCall = CALL) -> str:
    return text_of(await events_of(backend, call))


# --- busy ----------------------------------------------------------------------------------------------------


async def test_one_that_is_too_busy_for_any_question_at_first_is_asked_again(
    backend: HttpBackend, server: Scripted
) -> None:
    server.busy = lambda: server.times("/props") < 3
    assert (await backend.facts()).kind == "llama.cpp"
    assert server.times("/props") == 3


async def test_one_that_stays_silent_is_given_up(
    backend: HttpBackend, server: Scripted, clock: FakeClock
) -> None:
    def pass_time() -> bool:
        clock.now += 1
        return True

    server.busy = pass_time
    with pytest.raises(ModelTooSlow, match="was silent"):
        await backend.facts()


# --- restarted or replaced ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"), [(400, r"refused the request \(400\)"), (500, r"failed \(500\)")]
)
async def test_a_refusal_or_a_fault_makes_the_server_be_asked_again(
    backend: HttpBackend, server: Scripted, status: int, words: str
) -> None:
    assert (await backend.facts()).context_tokens == 16384
    server.context = 4096
    server.chat = lambda _: httpx2.Response(status, json={"error": "no"})
    with pytest.raises(ModelUnavailable, match=words):
        await chat(backend)
    assert (await backend.facts()).context_tokens == 4096


async def test_an_engine_that_took_anothers_place_answers_the_very_call(
    backend: HttpBackend, server: Scripted
) -> None:
    server.engine = "ollama"
    assert (await backend.facts()).kind == "ollama"
    server.engine = "llama.cpp"
    assert await said(backend) == "fine"
    assert (await backend.facts()).kind == "llama.cpp"
    assert "id_slot" in server.chats[-1]


async def test_a_local_server_that_was_idle_for_half_a_minute_is_asked_again(
    backend: HttpBackend, server: Scripted, clock: FakeClock
) -> None:
    await said(backend)
    server.context = 4096
    clock.now += 29
    assert (await backend.facts()).context_tokens == 16384
    clock.now += 2
    assert (await backend.facts()).context_tokens == 4096
    asked = server.times("/props")
    await backend.facts()
    assert server.times("/props") == asked


async def test_one_that_is_slow_to_tell_is_what_it_was(
    backend: HttpBackend, server: Scripted, clock: FakeClock
) -> None:
    before = await backend.facts()
    server.late = {"/props", "/v1/models"} | set(server.asked)
    clock.now += 31
    assert await backend.facts() == before
    asked = len(server.asked)
    assert await backend.facts() == before
    assert len(server.asked) == asked


@pytest.mark.parametrize("answer", [NOT_FOUND, told({}), told({"tokens": 4}), told([]), told("x")])
async def test_the_tokens_of_a_server_without_a_tokenizer_are_estimated(
    backend: HttpBackend, server: Scripted, answer: httpx2.Response
) -> None:
    server.tokenized = answer
    assert await backend.count_tokens("one two three four") == 5
    assert backend.problem() is None


# --- not known yet ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"), [(502, ModelUnavailable), (500, ModelUnavailable), (429, RateLimited)]
)
async def test_a_proxy_that_waits_for_its_server_is_not_taken_for_an_engine(
    backend: HttpBackend, server: Scripted, status: int, kind: type[ModelUnavailable]
) -> None:
    server.status = status
    with pytest.raises(kind, match=str(status)):
        await chat(backend)
    server.status = None
    assert await said(backend) == "fine"
    assert (await backend.facts()).kind == "llama.cpp"
    assert "id_slot" in server.chats[-1]


async def test_what_was_told_too_late_once_is_asked_again(
    backend: HttpBackend, server: Scripted, clock: FakeClock
) -> None:
    server.late = {"/props"}
    assert (await backend.facts()).slots is None
    assert await said(backend) == "fine"
    server.late = set()
    clock.now += 6
    assert (await backend.facts()).slots == 2
    assert (await backend.facts()).context_tokens == 16384


async def test_an_engine_that_nobody_knows_is_settled_when_all_routes_answered(
    backend: HttpBackend, server: Scripted, clock: FakeClock
) -> None:
    server.engine = "other"
    assert (await backend.facts()).kind == "other"
    asked = len(server.asked)
    clock.now += 6
    await backend.facts()
    assert len(server.asked) == asked


# --- extras -----------------------------------------------------------------------------------------------------


def strict(body: dict[str, Any]) -> httpx2.Response:
    extras = set(body) & {"session_id", "cache_prompt", "stream_options"}
    return httpx2.Response(422, json={"error": "unknown fields"}) if extras else answered()


async def test_what_a_server_refused_stays_remembered(backend: HttpBackend, server: Scripted) -> None:
    server.engine, server.chat = "other", strict
    await said(backend)
    await said(backend)
    assert ["session_id" in chat for chat in server.chats] == [True, False, False]
    with pytest.raises(UnknownModel):
        await chat(backend, ChatCall(CALL.messages, model="nobody-9000", session="c0ffee"))
    server.chat = lambda _: streamed("{rubbish")
    with pytest.raises(StreamBroken):
        await chat(backend)
    server.chat = strict
    await said(backend)
    assert not any("session_id" in chat for chat in server.chats[1:])


async def test_another_server_in_its_place_is_offered_them_again(
    backend: HttpBackend, server: Scripted
) -> None:
    server.engine, server.chat = "other", strict
    await said(backend)
    server.models, server.chat = ("another",), lambda _: httpx2.Response(404, json={"error": "no such model"})
    with pytest.raises(ModelRefused):
        await chat(backend)
    server.chat = lambda _: answered()
    await said(backend)
    assert "session_id" in server.chats[-1]


# --- answers that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nothing",
    [
        httpx2.Response(200, json={"hello": 1}),
        httpx2.Response(200, json={"choices": []}),
        streamed("[DONE]"),
        streamed({"choices": [], "usage": {"prompt_tokens": 3}}, "[DONE]"),
    ],
)
async def test_an_answer_with_nothing_in_it_is_told_in_words(
    backend: HttpBackend, server: Scripted, nothing: httpx2.Response
) -> None:
    server.chat = lambda _: nothing
    with pytest.raises(StreamBroken, match=r"'gpu'.*nothing in it"):
        await chat(backend)


@pytest.mark.parametrize(
    ("strange", "words"),
    [
        ({"choices": [{"index": 3, "delta": {"content": "x"}}]}, "a choice that nobody asked for"),
        ({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": "abc"}]}}]}, "a tool call whose index"),
        ({"choices": [{"index": 0, "delta": {"tool_calls": ["f"]}}]}, "a tool call that is none"),
    ],
)
async def test_rubbish_within_an_answer_is_told_in_words_after_what_came_before_it(
    backend: HttpBackend, server: Scripted, strange: Any, words: str
) -> None:
    server.chat = lambda _: streamed({"choices": [{"index": 0, "delta": {"content": "hello "}}]}, strange)
    came: list[str] = []

    async def read() -> None:
        async with aclosing(backend.stream(CALL)) as events:
            async for event in events:
                came.extend([event.text] if isinstance(event, Delta) else [])

    with pytest.raises(StreamBroken, match=words):
        await read()
    assert came == ["hello "]


@pytest.mark.parametrize(
    ("named", "takes"), [("temperature", [True]), ("session_id", [True, False]), (None, [True, False])]
)
async def test_without_extras_is_asked_only_where_they_may_be_at_fault(
    backend: HttpBackend, server: Scripted, named: str | None, takes: list[bool]
) -> None:
    server.chat = lambda _body: httpx2.Response(400, json={"error": {"message": "no", "param": named}})
    call = replace(CALL, session="c0ffee", options={"temperature": 0})
    with pytest.raises(ModelRefused):
        await chat(backend, call)
    assert ["session_id" in chat for chat in server.chats] == takes
    with pytest.raises(ModelRefused):
        await chat(backend, call)
    assert ("session_id" in server.chats[len(takes)]) == (named != "session_id")


async def test_a_call_can_be_made_without_extras(backend: HttpBackend, server: Scripted) -> None:
    await chat(backend, replace(CALL, session="c0ffee", extras=False))
    await chat(backend, replace(CALL, session="c0ffee"))
    assert ["session_id" in chat for chat in server.chats] == [False, True]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 502, "message": "no"}, ModelUnavailable),
        ({"type": "overloaded_error", "message": "no"}, RateLimited),
        ({"code": 400, "message": "no"}, ModelRefused),
        ({"message": "no"}, ModelRefused),
        ("no", ModelRefused),
    ],
)
async def test_an_error_in_place_of_an_answer_says_whether_it_may_pass(
    backend: HttpBackend, server: Scripted, error: Any, kind: type[ModelUnavailable]
) -> None:
    text = f"data: {json.dumps({'error': error})}\n\n"
    server.chat = lambda _body: httpx2.Response(200, text=text, headers={"Content-Type": "text/event-stream"})
    with pytest.raises(ModelUnavailable) as caught:
        await chat(backend)
    assert type(caught.value) is kind
