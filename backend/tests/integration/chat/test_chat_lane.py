"""A turn that ends in a way nobody foresaw is over: it is not run again, and nobody waits for it."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from recollect.app import App, open_app
from recollect.domain.access import Caller
from recollect.domain.chat import ChatRequest
from recollect.domain.model import NewTurn
from recollect.errors import StorageUnavailable
from recollect.service.chat.answer import Patience
from recollect.service.chat.stream import LiveTurn
from recollect.settings import Settings
from tests.eventually import eventually


def without_a_model(home: Path) -> AbstractAsyncContextManager[App]:
    """Every chat ends with an error, at once."""
    nobody = {"base_url": "http://127.0.0.1:9", "discover": False}
    return open_app(Settings(home=home, embedding={"kind": "none"}, llm=nobody))


async def say(app: App, words: str) -> LiveTurn:
    turn = NewTurn("user", words, app.clock(), "")
    return await app.chat.handle_chat_turn(Caller(), ChatRequest("t", (turn,), user_id="ann"))


@pytest.mark.parametrize(
    ("failure", "stored"),
    [
        (RuntimeError("nobody foresaw this"), ["queued", "failed"]),
        (StorageUnavailable("full"), ["failed", "failed"]),
    ],
    ids=["a mistake of ours", "a full disk"],
)
async def test_an_answer_that_cannot_be_stored_ends_and_the_next_turn_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, stored: list[str]
) -> None:
    async with without_a_model(tmp_path) as app:
        finish = app.chats.finish
        tries = []

        async def fail_once(*arguments: object, **fields: object) -> object:
            tries.append(arguments)
            if len(tries) == 1:
                raise failure
            return await finish(*arguments, **fields)  # type: ignore[arg-type]

        monkeypatch.setattr(app.chats, "finish", fail_once)
        for words in ("one", "two"):
            live = await say(app, words)
            await live.wait()
            assert live.error is not None
        assert app.chat.live.count() == 0
        answers = [
            turn
            for turn in await app.THREADS.get_history(await app.THREADS.meant("t"))
            if turn.role == "assistant"
        ]
        assert [turn.status for turn in answers] == stored


async def test_whoever_asked_is_soon_told_that_the_disk_does_not_take_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with without_a_model(tmp_path) as app:

        async def fail(*arguments: object, **fields: object) -> object:
            raise StorageUnavailable("full")

        monkeypatch.setattr(app.chats, "finish", fail)
        live = await say(app, "one")
        async with asyncio.timeout(30):
            await live.wait()
        assert live.error is not None


@pytest.mark.slow
async def test_an_answer_that_the_disk_takes_late_is_stored_late_and_does_not_stream_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with without_a_model(tmp_path) as app:
        finish, tries = app.chats.finish, []

        async def fail_for_long(*arguments: object, **fields: object) -> object:
            tries.append(arguments)
            if len(tries) < 6:
                raise StorageUnavailable("full")
            return await finish(*arguments, **fields)  # type: ignore[arg-type]

        monkeypatch.setattr(app.chats, "finish", fail_for_long)
        monkeypatch.setattr(app.chat, "_patience", Patience(store_again_seconds=(0.01, 0.01)))
        live = await say(app, "one")
        await live.wait()

        async def is_over() -> bool:
            return [turn.status for turn in await app.THREADS.get_history(await app.THREADS.meant("t"))] == [
                "complete",
                "failed",
            ]

        assert not await is_over()
        await eventually(is_over)
