"""Receiving an answer: whatever ends it, what had come is kept and said in words, and its prompt is recorded."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from recollect.domain.chat import Accepted, AnswerText, Epoch, SentPrompt
from recollect.domain.llm import ChatCall, Delta, Finished, Sent, StreamEvent
from recollect.domain.model import Thread, Turn
from recollect.errors import ModelTooSlow, StorageUnavailable, Unavailable
from recollect.infra.journal.chats import SqlChatStore
from recollect.service.chat import answer
from recollect.service.chat.answer import Outcome, Patience, PromptRecorder, stream_llm
from recollect.service.chat.stream import LiveTurn
from tests.fakes import START, FakeBackend

CALL = ChatCall([{"role": "user", "content": "hello"}])
UNSAVED = Patience(save_seconds=3600)
"""These answers end before anything of them is saved."""


class Scripted(FakeBackend):
    """Sends these events, and fails like a programming error where one is an exception."""

    script: tuple[StreamEvent | Exception, ...] = ()

    async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        for event in self.script:
            if isinstance(event, Exception):
                raise event
            yield event


class Hanging(FakeBackend):
    """Says a word, and then nothing any more."""

    async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        yield Delta("hello")
        await asyncio.Event().wait()


ANSWER = Turn("t-2", "m-2", "assistant", "assistant", "", START, status="streaming")
ACCEPTED = Accepted(Thread("default", "t1", "ann", START, START), (), (ANSWER,))


def asked() -> LiveTurn:
    return LiveTurn(ACCEPTED)


async def received(*script: StreamEvent | Exception) -> tuple[Outcome, LiveTurn]:
    backend = Scripted()
    backend.script = script
    live = asked()
    return await streamed(live, backend), live


async def streamed(
    live: LiveTurn, backend: FakeBackend | None = None, patience: Patience = UNSAVED, store: object = None
) -> Outcome:
    """While somebody listens."""
    with live.heard():
        return await stream_llm(cast(SqlChatStore, store), backend or Hanging(), CALL, live, patience)


async def test_an_error_nobody_foresaw_costs_neither_what_came_nor_what_was_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcome, live = await received(Sent({"sent": True}), Delta("hello and more "), TypeError("a bug"))
    assert (outcome.status, outcome.payload) == ("partial", {"sent": True})
    assert outcome.error is not None
    assert outcome.error.message == "something went wrong inside Recollect: TypeError"
    assert live.choices[0].answer.content == "hello and more "
    assert "a bug" in caplog.text


async def test_a_piece_of_a_choice_that_is_not_there_is_such_an_error() -> None:
    outcome, _ = await received(Sent({}), Delta("hello"), Delta("x", choice=3))
    assert (outcome.status, outcome.error is not None) == ("partial", True)


async def test_an_answer_without_a_word_is_complete_and_remarked_on() -> None:
    for words, remark in ((), "the model ended its answer without a word"), ((Delta("hello"),), None):
        outcome, _ = await received(Sent({}), *words, Finished({0: "stop"}))
        assert (outcome.status, outcome.remark) == ("complete", remark)


async def test_an_answer_that_is_stopped_ends_at_once_with_the_reason() -> None:
    live = asked()
    asyncio.get_running_loop().call_later(0.01, live.stop, "it was cancelled")
    outcome = await streamed(live)
    assert (outcome.status, outcome.why, outcome.error) == ("partial", "it was cancelled", None)
    live.stop("once more, when nothing is left to end")


async def test_an_answer_can_be_stopped_again_while_it_ends() -> None:
    class Closing(Hanging):
        async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
            try:
                async for event in super().stream(call):
                    yield event
            finally:
                live.stop("it was cancelled by somebody else, too")

    live = asked()
    asyncio.get_running_loop().call_later(0.01, live.stop, "it was cancelled")
    outcome = await streamed(live, Closing())
    assert (outcome.status, outcome.why, outcome.error) == ("partial", "it was cancelled", None)


async def test_an_answer_that_was_stopped_before_it_began_is_not_waited_for() -> None:
    live = asked()
    live.stop("it was cancelled")
    outcome = await streamed(live)
    assert outcome.why == "it was cancelled"


async def test_a_journal_that_takes_nothing_for_a_while_is_tried_again_and_ends_no_answer() -> None:
    class Held:
        tries = 0

        async def save(self, thread: Thread, answer: Turn, text: AnswerText) -> None:
            self.tries += 1
            if self.tries == 3:
                live.stop("it was cancelled")
            raise Unavailable("the journal is held by another program")

    live = asked()
    async with asyncio.timeout(30):
        outcome = await streamed(live, patience=Patience(save_seconds=0.001), store=Held())
    assert (outcome.status, outcome.why, outcome.error) == ("partial", "it was cancelled", None)


async def test_an_answer_that_takes_too_long_is_kept_as_far_as_it_got() -> None:
    outcome = await streamed(asked(), patience=Patience(answer_seconds=0.2, save_seconds=3600))
    assert outcome.status == "partial"
    assert isinstance(outcome.error, ModelTooSlow)


async def test_a_time_out_of_the_models_own_is_an_error_like_any_other() -> None:
    outcome, _ = await received(Sent({}), Delta("hello"), TimeoutError())
    assert outcome.error is not None
    assert not isinstance(outcome.error, ModelTooSlow)


# The prompt is recorded beside a long answer, and stored with a quick one

PROMPT = SentPrompt(
    Epoch(1, 1, "the conversation begins", "digest", "default/", 0), True, None, None, b"", 0, {}
)


class Store:
    """Takes what begins, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.began = asyncio.Event()
        self._failure = failure

    async def begin(self, *given: Any) -> None:
        assert given == (ACCEPTED, PROMPT)
        self.began.set()
        if self._failure is not None:
            raise self._failure


def writing(store: Store) -> PromptRecorder:
    return PromptRecorder(cast(SqlChatStore, store), ACCEPTED, PROMPT)


async def test_a_quick_answer_leaves_it_to_be_written_with_it() -> None:
    store = Store()
    assert await writing(store).ended() is PROMPT
    assert not store.began.is_set()


async def test_a_long_answer_has_it_written_while_it_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "AFTER_SECONDS", 0.0)
    store = Store()
    under_way = writing(store)
    async with asyncio.timeout(30):
        await store.began.wait()
    assert await under_way.ended() is None


async def test_what_the_disk_did_not_take_is_tried_again_with_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer, "AFTER_SECONDS", 0.0)
    store = Store(StorageUnavailable("full"))
    under_way = writing(store)
    async with asyncio.timeout(30):
        await store.began.wait()
    assert await under_way.ended() is PROMPT
