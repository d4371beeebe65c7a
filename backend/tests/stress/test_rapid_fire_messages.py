"""Messages sent without waiting for the answer before: order kept, none lost, none doubled, each in context.

Also where answers are cancelled, connections dropped and requests sent again in between, and the model fails.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest

from tests.eventually import eventually
from tests.http_client import Json, opened, thread_path
from tests.processes import Server, StandInModel
from tests.stress.utils import (
    OVER,
    SUBJECTS,
    Api,
    Figures,
    Size,
    Subject,
    answered_twice,
    asked_and_answered,
    beside_chats,
    chatting_settings,
    clients,
    covered,
    doubles,
    overlaps,
    recognised,
    verified,
)

FIRST = SUBJECTS[0]
CONFLICT = 409


@pytest.fixture(scope="module")
def server(running: StandInModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = chatting_settings(running, CHAT__ORPHAN_SECONDS="0.3")
    with Server(tmp_path_factory.mktemp("rapid") / "home", settings) as server:
        yield server


@pytest.fixture
def own_model() -> Iterator[StandInModel]:
    """For a test that looks at background work: the server makes titles of what other tests said."""
    with StandInModel() as model:
        yield model


async def test_four_messages_at_once_are_answered_in_their_order_and_in_context(
    tmp_path: Path, model: StandInModel, figures: Figures, size: Size
) -> None:
    model.control(chunk_delay_seconds=0.02)
    async with opened(
        tmp_path / "home", llm={"base_url": model.base_url}, embedding={"kind": "none"}
    ) as home:
        api = Api(home.client, figures)
        for number in range(size.of(quick=3, long=30)):
            thread = f"t{number}"
            answers = await asyncio.gather(
                *(api.answer(thread, question, user_id="ann", memory=False) for question in FIRST.questions)
            )
            assert [recognised(answer) for answer in answers] == [[FIRST.name]] * 4
            await in_order(api, thread, FIRST.questions)
    figures.nothing_wrong()


async def test_a_message_sent_while_the_answer_before_streams_follows_it(
    server: Server, model: StandInModel, figures: Figures, size: Size
) -> None:
    model.control(chunk_delay_seconds=0.15)
    async with clients(server.address, 4, figures) as (api, *_):
        for number in range(size.of(quick=2, long=20)):
            thread = f"streams-{number}"
            following: list[asyncio.Task[None]] = []
            for question in FIRST.questions:
                speaks = asyncio.Event()
                following.append(asyncio.create_task(listen(api, thread, question, speaks)))
                await speaks.wait()
            await asyncio.gather(*following)
            await in_order(api, thread, FIRST.questions)
            answers = [turn["content"] for turn in await api.turns(thread) if turn["role"] == "assistant"]
            assert [recognised(answer) for answer in answers] == [[FIRST.name]] * 4
    figures.nothing_wrong()


async def test_no_background_call_joins_a_chat_on_hardware_that_serves_few(
    tmp_path: Path, own_model: StandInModel, figures: Figures, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_model.control(chunk_delay_seconds=0.02)
    llm = {"base_url": own_model.base_url, "kind": "lmstudio"}
    async with opened(tmp_path / "home", llm=llm) as home:
        # A chat waits until a call that it sends away has ended: on a busy machine, that may take longer than usual.
        monkeypatch.setattr(home.app.talking.gate, "_chat_wait_seconds", 30)
        api = Api(home.client, figures)

        async def talk(number: int) -> None:
            for question in FIRST.questions:
                await home.add(f"heard {number} {question}", *SUBJECTS[1].questions)
                await api.answer(f"t{number}", question, user_id="ann", memory=False)

        for first in range(0, size.of(quick=3, long=30), 3):
            await asyncio.gather(*(talk(first + number) for number in range(3)))
        await home.drain()
    calls, joined = beside_chats(own_model.log())
    assert calls > 0
    assert joined == []
    figures.nothing_wrong()


async def listen(api: Api, thread: str, question: str, speaks: asyncio.Event) -> None:
    async with streaming(api, thread, question) as events:
        async for event in events:
            if event == "delta":
                speaks.set()
    assert event == "done"


@asynccontextmanager
async def streaming(
    api: Api, thread: str, words: str, key: str | None = None
) -> AsyncIterator[AsyncIterator[str]]:
    """The names of the events of one answer, as they come; leaving early drops the connection."""
    body = {"user_id": "ann", "content": words, "memory": False, "stream": True}
    headers = {} if key is None else {"Idempotency-Key": key}
    request = api.client.stream("POST", thread_path(thread, "messages"), json=body, headers=headers)
    async with api.figures.timed(), request as response:
        response.raise_for_status()
        yield (
            line.removeprefix("event: ")
            async for line in response.aiter_lines()
            if line.startswith("event: ")
        )


async def in_order(api: Api, thread: str, said: tuple[str, ...]) -> None:
    """Each message and its answer; and each was asked with all the answers before it."""
    turns = await api.turns(thread)
    wanted = [each for words in said for each in (("user", words), ("assistant", "complete"))]
    assert asked_and_answered(turns) == wanted
    api.figures.duplicated += doubles(turns)
    for number, answer in enumerate(turns[1::2]):
        prompt = await api.prompt(thread, answer["turn_id"])
        answers = [each["content"] for each in prompt["messages"] if each["role"] == "assistant"]
        assert answers == [turn["content"] for turn in turns[1 : 2 * number : 2]]


class Chatter:
    """Somebody impatient in one thread: cancels, drops connections, and sends again what was not answered."""

    def __init__(self, api: Api, thread: str, subject: Subject, chance: random.Random) -> None:
        self.api, self.thread, self.subject, self.chance = api, thread, subject, chance
        self.said: list[str] = []
        self._pending: list[asyncio.Task[None]] = []

    async def chat(self, count: int) -> None:
        for number in range(count):
            words = f"{self.subject.questions[min(number, 3)]} ({number})"
            self.said.append(words)
            how = self.chance.choice(
                [self.wait_later, self.drop, self.cancel, self.cancel_all, self.impatient]
            )
            self._pending.append(asyncio.create_task(how(words, self.key_of(number))))
            await self.arrived(words)
        await asyncio.gather(*self._pending)

    def key_of(self, number: int) -> str:
        return f"{self.thread} {number}"

    async def send_again(self) -> None:
        """What was said last, by its key, though everything is over."""
        async with streaming(self.api, self.thread, self.said[-1], self.key_of(len(self.said) - 1)) as events:
            assert [event async for event in events]

    async def arrived(self, words: str) -> None:
        """Only then comes the next one: else nobody could say which was first."""

        async def is_there() -> bool:
            path = thread_path(self.thread, "turns")
            answer = await self.api.client.get(path, params={"max_turns": 10_000})
            return words in [turn["content"] for turn in answer.json().get("turns", ())]

        await eventually(is_there, seconds=60)

    async def wait_later(self, words: str, key: str) -> None:
        """Listens to the end; an answer that failed is asked for again, by the same key, until others were said."""
        for _ in range(20):
            try:
                async with streaming(self.api, self.thread, words, key) as events:
                    last = [event async for event in events][-1]
            except httpx2.HTTPStatusError as error:
                if error.response.status_code != CONFLICT:
                    raise
                assert words != self.said[-1], "nothing was said since, and it was refused"
                return
            if last == "done":
                return
            self.api.figures.faults += 1

    async def drop(self, words: str, key: str) -> None:
        async with streaming(self.api, self.thread, words, key) as events:
            async for event in events:
                if event == "delta" or self.chance.random() < 0.3:
                    break
        self.api.figures.faults += 1

    async def impatient(self, words: str, key: str) -> None:
        """Gives up before there is a first byte, and sends it again at once, and again."""
        for _ in range(3):
            task = asyncio.create_task(self.wait_later(words, key))
            await asyncio.sleep(self.chance.uniform(0, 0.05))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.api.figures.faults += 1
        await self.wait_later(words, key)

    async def cancel(self, words: str, key: str, *, everything: bool = False) -> None:
        async with streaming(self.api, self.thread, words, key) as events:
            async for event in events:
                if event in ("meta", "delta"):
                    body = {"user_id": "ann", "all": everything}
                    await self.api.json("POST", thread_path(self.thread, "cancel"), json=body)
                    self.api.figures.faults += 1
                    break

    async def cancel_all(self, words: str, key: str) -> None:
        await self.cancel(words, key, everything=True)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("failing", [0.0, 0.3], ids=["a sound model", "a model that fails"])
async def test_cancels_drops_and_retries_in_between_lose_and_double_nothing(
    server: Server, model: StandInModel, figures: Figures, size: Size, failing: float
) -> None:
    before = len(model.log())
    mode = "error" if failing else "answer"
    model.control(mode, chunk_delay_seconds=0.03, rate=failing or 1, only="chat")
    chance = random.Random(f"{size} {failing}")
    async with clients(server.address, 6, figures) as apis:
        for number in range(size.of(quick=1, long=4)):
            chatters = [
                Chatter(api, f"{failing} {number} {subject.name}", subject, random.Random(chance.random()))
                for api, subject in zip(apis, SUBJECTS, strict=False)
            ]
            await asyncio.gather(*(chatter.chat(size.of(quick=12, long=20)) for chatter in chatters))
            for chatter in chatters:
                await said_once_and_answered(chatter)
                await is_answered_by_what_there_is(chatter)
        model.control()
        await apis[0].drained()
    assert overlaps(model.log()[before:]) == []
    covered(server.client)
    verified(server)
    figures.nothing_wrong()


async def said_once_and_answered(chatter: Chatter) -> None:
    """Each message once, in order, with one answer or more after it; a complete answer is in context."""
    turns = await settled(chatter.api, chatter.thread)
    said = [turn["content"] for turn in turns if turn["role"] == "user"]
    figures = chatter.api.figures
    figures.lost += len(set(chatter.said) - set(said))
    figures.duplicated += len(said) - len(set(said))
    figures.duplicated += answered_twice(turns)
    assert said == chatter.said
    assert turns[-1]["role"] == "assistant"
    assert not [words for words, after in pairwise(turns) if words["role"] == after["role"] == "user"]
    answers = [turn for turn in turns if turn["role"] == "assistant"]
    for answer in answers:
        if answer["status"] == "complete":
            assert recognised(answer["content"]) == [chatter.subject.name], turns


async def is_answered_by_what_there_is(chatter: Chatter) -> None:
    """A request that comes again is no second one; only an answer that failed is asked for again."""
    turns = await settled(chatter.api, chatter.thread)
    await chatter.send_again()
    after = await settled(chatter.api, chatter.thread)
    chatter.api.figures.duplicated += doubles(after) + answered_twice(after)
    assert after[: len(turns)] == turns
    assert len(after) - len(turns) == (turns[-1]["status"] == "failed")


async def settled(api: Api, thread: str) -> list[Json]:
    """The turns of a thread, as soon as every one is over."""

    async def are_over() -> bool:
        return {turn["status"] for turn in await api.turns(thread)} <= OVER

    await eventually(are_over, seconds=60)
    return await api.turns(thread)
