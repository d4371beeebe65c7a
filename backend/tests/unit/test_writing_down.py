"""What was sent is written down beside a long answer, and left to be stored with a quick one."""

import asyncio
from typing import Any, cast

import pytest

from recollect.domain.chat import Accepted, Epoch, SentPrompt
from recollect.domain.model import Thread, Turn
from recollect.errors import StorageUnavailable
from recollect.infra.journal.chats import SqlChatStore
from recollect.service.chat import receive_stream as writing_down
from recollect.service.chat.receive_stream import PromptRecorder

EPOCH = Epoch(1, 1, "the conversation begins", "digest", "default/", 0)
PROMPT = SentPrompt(EPOCH, True, None, None, b"", 0, {})
ANSWER = Turn("t-2", "m-2", "assistant", "assistant", "", 0)
ACCEPTED = Accepted(Thread("default", "t", "ann", 0, 0), (), (ANSWER,))


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
    monkeypatch.setattr(writing_down, "AFTER_SECONDS", 0.0)
    store = Store()
    under_way = writing(store)
    async with asyncio.timeout(10):
        await store.began.wait()
    assert await under_way.ended() is None


async def test_what_the_disk_did_not_take_is_tried_again_with_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing_down, "AFTER_SECONDS", 0.0)
    store = Store(StorageUnavailable("full"))
    under_way = writing(store)
    async with asyncio.timeout(10):
        await store.began.wait()
    assert await under_way.ended() is PROMPT
