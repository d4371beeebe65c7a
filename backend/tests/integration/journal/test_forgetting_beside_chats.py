"""Forgetting while somebody is being answered: no prompt that holds the words is written down for good."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.chat import Accepted, AnswerText, ChatRequest, ContextBlock, Epoch, SentPrompt
from recollect.domain.forgetting import SETTLE, Task, task_of
from recollect.domain.identity import key_within_user
from recollect.domain.model import NewTurn, ThreadRef
from recollect.domain.prompt import prompt_bytes
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.forgetting import SqlForgetting
from tests.contract.journals import Journal

EPOCH = Epoch(1, 1, "the conversation begins", "digest", "default/", 0)
WORDS = "the walrus lives in Porto"
MEMORY = f"{key_within_user('default', 'old')}:t-1"


class Chats(Journal):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.forgetting = SqlForgetting(self.database, clock=self.clock)

    async def ask(self, text: str, thread: str = "new") -> Accepted:
        self.clock.advance(1)
        turn = NewTurn("user", text, self.clock(), "ann")
        accepted, _ = await self.chats.accept_next("default", ChatRequest(thread, (turn,), user_id="ann"), 10)
        return accepted

    async def answer(self, accepted: Accepted, **fields: Any) -> None:
        self.clock.advance(1)
        prompt = self.prompt(**fields)
        await self.chats.finish(accepted, [AnswerText("fine")], status="complete", prompt=prompt)

    def prompt(self, **fields: Any) -> SentPrompt:
        """It holds the words."""
        said = prompt_bytes([{"role": "user", "content": WORDS}])
        given: Any = {"opens_epoch": True, "block": None, "block_position": None, **fields}
        return SentPrompt(EPOCH, messages=said, new_from=0, detail={}, **given)

    async def forget(self) -> None:
        self.clock.advance(1)
        await self.forgetting.forget_turns(ThreadRef("default", "ann", "old"), ["t-1"])

    async def settling(self) -> list[Task]:
        """What is still to be settled, oldest first."""
        return [task_of(job) for job in await self.waiting() if job.payload.get("step") == SETTLE]

    async def prompts(self) -> int:
        return len(await self.database.read("SELECT 1 FROM prompts"))

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """The writer has its hands full until the end of this."""
        running, go_on = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def work(_: Connection) -> None:
            loop.call_soon_threadsafe(running.set)
            assert go_on.wait(30)

        working = asyncio.create_task(self.database.write(work))
        await running.wait()
        yield
        go_on.set()
        await working


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Chats]:
    """Somebody said the words in the thread `old`."""
    async with Chats(tmp_path / "journal.db") as journal:
        await journal.add("old", WORDS, user_id="ann")
        yield journal


async def test_a_chat_that_went_ahead_of_a_forgetting_is_waited_for(journal: Chats) -> None:
    """It came later, and read the words before they went."""
    async with journal.busy():
        forgetting = asyncio.create_task(journal.forget())
        await asyncio.sleep(0)
        asking = asyncio.create_task(journal.ask("where does it live?", "old"))
        await asyncio.sleep(0)
    await forgetting
    asked = await asking
    (task,) = await journal.settling()
    await journal.database.write(lambda connection: connection.run("DELETE FROM jobs"))
    assert await journal.forgetting.waits_for(task) == "a chat is about to be sent"
    await journal.answer(asked)
    assert await journal.prompts() == 1
    assert await journal.forgetting.waits_for(task) is None
    await journal.forgetting.forget_late(task)
    assert await journal.prompts() == 0


async def test_a_prompt_that_was_handed_in_before_and_written_after_a_forgetting_goes(
    journal: Chats,
) -> None:
    asked = await journal.ask("where does it live?", "old")
    async with journal.busy():
        forgetting = asyncio.create_task(journal.forget())
        await asyncio.sleep(0)
        answering = asyncio.create_task(journal.answer(asked))
        await asyncio.sleep(0)
        journal.clock.advance(1)
    await asyncio.gather(forgetting, answering)
    assert await journal.prompts() == 1
    await journal.forgetting.forget_late((await journal.settling())[0])
    assert await journal.prompts() == 0


async def test_what_was_asked_next_while_a_block_still_quoted_the_words_is_not_written_down(
    journal: Chats,
) -> None:
    first = await journal.ask("where does it live?")
    await journal.forget()
    await journal.answer(first, block=ContextBlock(WORDS, {MEMORY: "digest"}), block_position=1)
    second = await journal.ask("go on")
    await journal.forgetting.forget_late((await journal.settling())[0])
    assert await journal.prompts() == 0
    await journal.answer(second, opens_epoch=False, follows=EPOCH.revision)
    assert await journal.prompts() == 0
    third = await journal.ask("and now?")
    await journal.answer(third, follows=-1)
    assert await journal.prompts() == 1


@pytest.mark.parametrize("incognito", [False, True])
async def test_a_prompt_that_is_sent_again_after_a_forgetting_is_not_written_down(
    journal: Chats, incognito: bool
) -> None:
    """The first was refused as too long, say; it streamed by then, and nobody waited for it any more."""
    asked = await journal.ask("where does it live?")
    asked = replace(asked, thread=replace(asked.thread, incognito=incognito))
    block: Any = {"block": ContextBlock(WORDS, {MEMORY: "digest"}), "block_position": 1}
    await journal.chats.begin(asked, journal.prompt(**block))
    await journal.forget()
    await journal.forgetting.forget_late((await journal.settling())[0])
    await journal.answer(asked, **block)
    assert await journal.prompts() == 0
    assert not await journal.database.read("SELECT 1 FROM context_blocks")
