"""What every backend promises: the fake, and the real one with each engine it can speak to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from recollect.domain.llm import ChatCall, Delta, Finished, Sent
from recollect.errors import ModelUnavailable, UnknownModel
from recollect.infra.backends.configured import Backend
from recollect.infra.backends.server import Patience
from tests.fakes import FakeBackend
from tests.standins.standin_engines import Engines, engines, events_of, running_engines, text_of

__all__ = ["engines", "running_engines"]

ENGINES = ["llama.cpp", "lmstudio", "vllm", "sglang", "ollama", "openai", "anthropic", "openrouter", "other"]
QUESTION: list[dict[str, Any]] = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "My sister Marta is moving to Porto."},
]


@dataclass(frozen=True)
class Workplace:
    """A backend, and how to make it fail and work again."""

    backend: Backend
    break_it: Callable[[], object]
    mend_it: Callable[[], object]
    pause_it: Callable[[], object]
    """From now on an answer stops half-way."""
    dropped: Callable[[], int]


@pytest.fixture(params=["fake", *ENGINES])
async def workplace(request: pytest.FixtureRequest, engines: Engines) -> AsyncIterator[Workplace]:
    if request.param == "fake":
        fake = FakeBackend()
        yield Workplace(
            fake,
            lambda: setattr(fake, "fail", ModelUnavailable("the backend 'default' failed")),
            lambda: setattr(fake, "fail", None),
            lambda: setattr(fake, "pace", asyncio.Semaphore(1)),
            lambda: fake.dropped,
        )
        return
    engine = engines(request.param)
    before = engine.dropped()
    backend = engines.backend(
        request.param,
        name="default",
        api_key="key-1234",
        patience=Patience(first_token=20, stall=20, question=10),
    )
    yield Workplace(
        backend,
        lambda: engine.control("status", status=500, message="out of memory"),
        lambda: engine.control("answer"),
        lambda: engine.control("stall"),
        lambda: engine.dropped(at_least=before + 1) - before,
    )


@pytest.fixture
def backend(workplace: Workplace) -> Backend:
    return workplace.backend


async def test_it_tells_what_it_is_and_counts_tokens(backend: Backend) -> None:
    assert (backend.name, backend.label) == ("default", None)
    assert backend.gate_group
    assert backend.server.partition(":")[2].isdigit()
    facts = await backend.facts()
    assert facts.models
    assert await backend.facts() is facts
    few, many = await backend.count_tokens("Hello."), await backend.count_tokens("Hello there. " * 50)
    assert 1 <= few < many <= 650


async def test_an_answer_comes_in_pieces_between_what_was_sent_and_the_end(backend: Backend) -> None:
    first, *deltas, last = await events_of(backend, ChatCall(QUESTION))
    assert isinstance(first, Sent)
    assert all(message["content"] in str(first.payload) for message in QUESTION)
    assert len(deltas) > 3
    assert all(isinstance(event, Delta) for event in deltas if not isinstance(event, Sent))
    assert text_of(deltas) == "You said: My sister Marta is moving to Porto."
    assert isinstance(last, Finished)
    assert last.reasons == {0: "stop"}


async def test_the_end_tells_how_many_tokens_there_were(backend: Backend) -> None:
    finished = (await events_of(backend, ChatCall(QUESTION, session="s-1")))[-1]
    assert isinstance(finished, Finished)
    told = finished.usage
    if (await backend.facts()).kind == "other":
        return  # Nothing it was asked made it tell.
    assert told.prompt_tokens is not None
    assert told.prompt_tokens >= 9
    assert told.completion_tokens is not None
    assert told.completion_tokens >= 5


async def test_several_choices_are_answered_each_for_itself(backend: Backend) -> None:
    events = await events_of(backend, ChatCall(QUESTION, choices=3))
    said = "You said: My sister Marta is moving to Porto."
    assert [text_of(events, choice) for choice in range(3)] == [said, said, said]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.reasons == {0: "stop", 1: "stop", 2: "stop"}


async def test_calls_at_the_same_time_do_not_mix(backend: Backend) -> None:
    calls = [ChatCall([{"role": "user", "content": f"number {n} is mine"}]) for n in range(12)]
    answers = await asyncio.gather(*(events_of(backend, call) for call in calls))
    assert [text_of(answer) for answer in answers] == [f"You said: number {n} is mine" for n in range(12)]


async def test_closing_a_stream_drops_the_request(workplace: Workplace) -> None:
    workplace.pause_it()
    stream = workplace.backend.stream(ChatCall(QUESTION))
    async for event in stream:
        if isinstance(event, Delta):
            break
    await stream.aclose()
    assert workplace.dropped() == 1


async def test_a_cancelled_call_drops_the_request_and_is_no_problem_of_the_backend(
    workplace: Workplace,
) -> None:
    workplace.pause_it()
    started = asyncio.Event()

    async def chat() -> None:
        async with aclosing(workplace.backend.stream(ChatCall(QUESTION))) as events:
            async for event in events:
                if isinstance(event, Delta):
                    started.set()

    running = asyncio.create_task(chat())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert workplace.dropped() == 1
    assert workplace.backend.problem() is None


async def test_one_that_fails_says_so_and_works_again_when_it_can(workplace: Workplace) -> None:
    backend = workplace.backend
    workplace.break_it()
    with pytest.raises(ModelUnavailable) as raised:
        await events_of(backend, ChatCall(QUESTION))
    assert "'default'" in raised.value.message
    assert backend.problem() == raised.value.message
    workplace.mend_it()
    assert text_of(await events_of(backend, ChatCall(QUESTION)))
    assert backend.problem() is None


async def test_a_model_that_it_has_not_is_refused_with_the_names_of_those_it_has(backend: Backend) -> None:
    facts = await backend.facts()
    if not facts.selects_by_name:
        pytest.skip("it answers with its one model, whatever it is called")
    with pytest.raises(UnknownModel) as raised:
        await events_of(backend, ChatCall(QUESTION, model="nobody-9000"))
    assert raised.value.field == "model"
    assert facts.models[0] in raised.value.message
