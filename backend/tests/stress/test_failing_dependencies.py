"""Parts that are slow, fail at random, or fill up: chats go on in time, nothing is lost, receipts tell the truth."""

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from recollect.domain.access import Caller
from recollect.errors import IndexUnavailable
from recollect.service.recall.search import Found, Search
from tests import deployment
from tests.disks import Disk, needs_mounts, served_on
from tests.eventually import eventually
from tests.http_client import Json, message, opened
from tests.processes import Server, StandInModel
from tests.remembering import MortalModel
from tests.stress.utils import OVER, Api, Figures, Size, chatting_settings, clients, covered, doubles

RATES = (0.1, 0.5, 1.0)
IN_TIME = 25.0
"""Seconds for a chat on a busy machine: rewriting may take 4 of them, recall 4, the model 4."""
SLOW = 30.0
"""Longer than any deadline here, and than a chat may take."""
CLIENTS = 4
FACT = "My bicycle is locked at the harbour with the code 2468."
QUESTION = "What is the code of the lock of my bicycle at the harbour?"


@pytest.fixture(scope="module")
def embedder() -> Iterator[MortalModel]:
    """A process of its own, so that it fails alone."""
    with MortalModel() as model:
        yield model


@pytest.fixture(scope="module")
def server(
    running: MortalModel, embedder: MortalModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """It takes its model for one elsewhere, so that it asks it to rewrite, too."""
    settings = chatting_settings(
        running,
        LLM__LOCAL="false",
        CHAT__REWRITE_SECONDS="4",
        CHAT__RECALL_SECONDS="4",
        CHAT__FIRST_TOKEN_SECONDS="4",
        CHAT__STALL_SECONDS="4",
    )
    embedding = {"KIND": "openai", "BASE_URL": embedder.base_url, "MODEL": "stand-in"}
    settings |= {f"RECOLLECT_EMBEDDING__{name}": value for name, value in embedding.items()}
    with Server(tmp_path_factory.mktemp("failing") / "home", settings) as server:
        yield server


class Talkers:
    """Several people who chat at once, and remember what they said and how it went."""

    def __init__(self, apis: list[Api], name: str, users: str | None = None) -> None:
        self.apis, self.users = apis, users or name
        self.threads = [f"{name} {number}" for number in range(len(apis))]
        self.said: list[list[str]] = [[] for _ in apis]
        self.answers: list[Json] = []
        self.longest = 0.0

    async def chat(self, rounds: int) -> list[Json]:
        """The answers of so many rounds; a failed one is the error's body."""
        before = len(self.answers)
        await asyncio.gather(*(self._chat(number, rounds) for number in range(len(self.apis))))
        return self.answers[before:]

    async def _chat(self, number: int, rounds: int) -> None:
        for _ in range(rounds):
            words = FACT if not self.said[number] else f"{QUESTION} ({len(self.said[number])})"
            body = {"content": words, "user_id": f"{self.users} {number}"}
            started = time.monotonic()
            answer = await self.apis[number].call(
                "POST", f"/api/v1/threads/{self.threads[number]}/messages", json=body
            )
            self.longest = max(self.longest, time.monotonic() - started)
            assert "user_turn" in answer.json(), answer.text
            self.said[number].append(words)
            self.answers.append(answer.json())

    async def nothing_is_lost(self) -> None:
        """All that was said is stored once, and every answer came in time."""
        for api, thread, said in zip(self.apis, self.threads, self.said, strict=True):
            turns = await api.turns(thread)
            stored = [turn["content"] for turn in turns if turn["role"] == "user"]
            api.figures.lost += len(set(said) - set(stored))
            api.figures.duplicated += doubles(turns)
            assert stored == said
        assert self.longest < IN_TIME


def statuses(answers: list[Json]) -> set[str]:
    return {answer["assistant_turn"]["status"] for answer in answers}


def receipts(answers: list[Json], part: str) -> list[Json]:
    return [answer["receipt"][part] for answer in answers if "receipt" in answer]


def disturbed(model: StandInModel, asks: str, since: int) -> int:
    return sum(bool(call.get("disturbed")) and call.get("asks") == asks for call in model.log()[since:])


@pytest.mark.timeout(600)
async def test_a_model_that_fails_at_random_costs_answers_and_no_messages(
    server: Server, model: MortalModel, figures: Figures, size: Size
) -> None:
    async with clients(server.address, CLIENTS, figures) as apis:
        talkers = Talkers(apis, "model")
        for rate in RATES:
            since = len(model.log())
            model.control("error", only="chat", rate=rate, seed=int(rate * 10))
            answers = await talkers.chat(size.of(quick=4, long=25))
            failed = [answer for answer in answers if answer["assistant_turn"]["status"] == "failed"]
            assert len(failed) == disturbed(model, "chat", since)
            assert rate < 1 or len(failed) == len(answers)
            assert all("failed (500)" in answer["error"]["message"] for answer in failed)
            figures.faults += len(failed)
        model.control()
        recovered = await talkers.chat(1)
        assert statuses(recovered) == {"complete"}
        await talkers.nothing_is_lost()
    figures.nothing_wrong()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_model_that_is_slow_or_dies_is_given_up_in_time_and_found_again(
    server: Server, model: MortalModel, figures: Figures, size: Size
) -> None:
    async with clients(server.address, CLIENTS, figures) as apis:
        talkers = Talkers(apis, "slow model")
        for _ in range(size.of(quick=1, long=3)):
            model.control("stall", only="chat")
            stalled = await talkers.chat(1)
            assert {answer["error"]["code"] for answer in stalled} == {"model_too_slow"}
            assert statuses(stalled) == {"partial"}
            model.control(delay_seconds=SLOW, only="chat")
            silent = await talkers.chat(1)
            assert {answer["error"]["code"] for answer in silent} == {"model_too_slow"}
            model.control("die", only="chat")
            dead = await talkers.chat(1)
            assert statuses(dead) <= {"partial", "failed"}
            figures.faults += len(stalled) + len(silent) + len(dead)
            model.revive()
            await eventually(lambda: is_answered(talkers))
        await talkers.nothing_is_lost()
    figures.nothing_wrong()


async def is_answered(talkers: Talkers) -> bool:
    return statuses(await talkers.chat(1)) == {"complete"}


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_rewriter_that_fails_or_is_slow_is_done_without_and_the_receipt_says_so(
    server: Server, model: MortalModel, figures: Figures, size: Size
) -> None:
    async with clients(server.address, CLIENTS, figures) as apis:
        talkers = Talkers(apis, "rewriter")
        await talkers.chat(1)
        for number, rate in enumerate((0.1, SLOW, 0.5, 1.0)):
            # One that failed thrice in a row is left alone for half a minute: then nothing would be tried.
            model.control()
            await eventually(lambda: is_rewritten(talkers), seconds=60)
            since = len(model.log())
            if rate == SLOW:
                model.control(delay_seconds=SLOW, only="rewriting")
            else:
                model.control("error", only="rewriting", rate=rate, seed=number)
            answers = await talkers.chat(size.of(quick=2 if rate == SLOW else 3, long=15))
            assert statuses(answers) == {"complete"}
            rewritten = receipts(answers, "rewriter")
            asked_in_vain = [
                each for each in rewritten if "not asked" not in (each["left_out"] or "not asked")
            ]
            assert len(asked_in_vain) == disturbed(model, "rewriting", since)
            assert asked_in_vain or rate < 0.5
            assert rate < 1 or all(each["left_out"] for each in rewritten)
            why = "did not answer within 4 s" if rate == SLOW else "failed (500)"
            assert all(why in each["left_out"] for each in asked_in_vain), asked_in_vain
            assert all(each["by"] == "model" or each["left_out"] or each["why"] for each in rewritten)
            figures.faults += len(asked_in_vain)
        await talkers.nothing_is_lost()
        model.control()
        if size is Size.LONG:
            await eventually(lambda: is_rewritten(talkers), seconds=60)
    figures.nothing_wrong()


async def is_rewritten(talkers: Talkers) -> bool:
    if any(each["left_out"] for each in receipts(await talkers.chat(1), "rewriter")):
        await asyncio.sleep(1)  # It is asked again when its time is up, which nothing tells.
        return False
    return True


@pytest.mark.timeout(600)
@pytest.mark.slow
async def test_an_embedder_that_fails_or_is_slow_leaves_recall_by_words_and_catches_up(
    server: Server, model: MortalModel, embedder: MortalModel, figures: Figures, size: Size
) -> None:
    late = size.of(quick=6.0, long=SLOW)  # What it was asked last has to end before it catches up.
    async with clients(server.address, CLIENTS, figures) as apis:
        for number, rate in enumerate(size.of(quick=(0.5, SLOW), long=(*RATES, SLOW))):
            await Talkers(apis, f"told {number}", f"embedder {number}").chat(1)
            embedder.control()
            await apis[0].indexed("embedded")
            if rate == SLOW:
                embedder.control(delay_seconds=late)
            else:
                embedder.control("error", rate=rate, seed=number)
            talkers = Talkers(apis, f"asked {number}", f"embedder {number}")
            talkers.said = [
                [QUESTION] for _ in apis
            ]  # The fact is in another thread: only recall can know it.
            answers = await talkers.chat(size.of(quick=2, long=8))
            assert statuses(answers) == {"complete"}
            for api, thread, answer in zip(apis, talkers.threads, answers, strict=False):
                turn = (await api.turns(thread))[1]
                assert "2468" in str(await api.prompt(thread, turn["turn_id"])), answer["receipt"]["recall"]
            assert talkers.longest < IN_TIME
            recalls = receipts(answers, "recall")
            assert {recall["left_out"] for recall in recalls} == {None}
            by_words = [recall for recall in recalls if "by words alone: " in str(recall["degraded"])]
            assert by_words or rate < 0.5
            assert rate < 1 or by_words == recalls
            figures.faults += len(by_words)
        embedder.control()
        await apis[0].indexed("embedded", seconds=60)
        await apis[0].drained()
    covered(server.client)
    figures.nothing_wrong()


@pytest.mark.timeout(600)
async def test_an_embedder_that_is_down_for_a_while_swallows_no_text(
    server: Server, embedder: MortalModel, figures: Figures, size: Size
) -> None:
    async def add(api: Api, user: str, number: int) -> None:
        body = {"session_id": f"{user} {number}", "user_id": user, "messages": [message(FACT)] * 5}
        (await api.call("POST", "/api/v1/memory/add", json=body)).raise_for_status()

    async def is_found_by_meaning() -> bool:
        """Nobody's search says that texts are found by words alone."""
        found = [
            await apis[0].json("POST", "/api/v1/memory/search", json={"query": FACT, "user_id": user})
            for user in users
        ]
        return all(each["hits"] and not each["degraded"] for each in found)

    users = [f"swallowed {number}" for number in range(CLIENTS)]
    async with clients(server.address, CLIENTS, figures) as apis:
        for number in range(size.of(quick=2, long=10)):
            embedder.control("error")
            await asyncio.gather(*(add(api, user, number) for api, user in zip(apis, users, strict=True)))
            await eventually(lambda: "by words alone" in server.client.get("/health").text, seconds=60)
            figures.faults += 1
            embedder.control()
            await eventually(is_found_by_meaning, seconds=60)
    figures.nothing_wrong()


class FlakyRecall:
    """The real search, which fails or dawdles by chance."""

    def __init__(self, search: object, rate: float, *, seconds: float = 0.0) -> None:
        self._search = search
        self._rate, self._seconds = rate, seconds
        self._chance = random.Random(str(rate))
        self.failures = 0

    async def __call__(self, caller: Caller, search: Search, *more: object) -> Found:
        if self._chance.random() < self._rate:
            self.failures += 1
            await asyncio.sleep(self._seconds)
            if not self._seconds:
                raise IndexUnavailable("the index was told to fail")
        found: Found = await self._search(caller, search, *more)  # type: ignore[operator]
        return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "seconds", [0.0, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["failing", "slow"]
)
async def test_recall_that_fails_or_is_slow_is_done_without_and_the_receipt_says_so(
    tmp_path: Path,
    model: MortalModel,
    figures: Figures,
    size: Size,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    patience = {"recall_seconds": 3 if seconds else 30}
    settings = {"llm": {"base_url": model.base_url}, "embedding": {"kind": "none"}, "chat": patience}
    async with opened(tmp_path / "home", **settings) as home:
        api = Api(home.client, figures)
        talkers = Talkers([api], "recall")
        await home.app.warm_up()
        await api.search(QUESTION, user_id="recall 0")
        await talkers.chat(1)
        working = home.app.search.recall.search
        for rate in RATES:
            flaky = FlakyRecall(working, rate, seconds=seconds)
            monkeypatch.setattr(home.app.search.recall, "search", flaky)
            answers = await talkers.chat(size.of(quick=4, long=30))
            assert statuses(answers) == {"complete"}
            told = [recall["left_out"] or "" for recall in receipts(answers, "recall")]
            why = "took longer than" if seconds else "told to fail"
            without = sum(why in each and "not searched" not in each for each in told)
            assert flaky.failures == without, "every question is searched for once"
            figures.faults += flaky.failures
        assert figures.faults >= 3
        await talkers.nothing_is_lost()
    figures.nothing_wrong()


@needs_mounts
@pytest.mark.timeout(900)
@pytest.mark.slow
async def test_a_disk_that_is_full_for_a_while_loses_nothing_that_was_answered(
    tmp_path: Path, model: MortalModel, figures: Figures, size: Size
) -> None:
    """Everything is on it: journal, vault and index. What is refused is refused in words.

    An added message that is refused is stored not at all. One of a chat is there where it was its answer that the
    disk did not take.
    """
    deployment.only_in_folders("journal and vault are elsewhere")
    home = tmp_path / "home"
    with served_on(home, home, chatting_settings(model), size="48m") as server:
        disk = Disk(server, home)
        async with clients(server.address, 6, figures) as apis:
            writers = [Writer(api, f"t{number}") for number, api in enumerate(apis)]
            for _ in range(size.of(quick=1, long=3)):
                await asyncio.gather(*(writer.write(5) for writer in writers))
                writing = [asyncio.create_task(writer.write(size.of(quick=3, long=6))) for writer in writers]
                await asyncio.to_thread(disk.fill)
                await asyncio.gather(*writing)
                await asyncio.gather(*(writer.write(1) for writer in writers))
                await asyncio.to_thread(disk.free)
                await eventually(lambda: takes_messages(apis[0]), seconds=30)
            await asyncio.gather(*(writer.write(2) for writer in writers))
            assert sum(writer.refused for writer in writers), "a full disk refused nothing"
            figures.faults += sum(writer.refused for writer in writers)
            assert max(writer.longest for writer in writers) < IN_TIME
            await eventually(lambda: all_is_over(apis[0], writers), seconds=60)
            await asyncio.gather(*(writer.holds_what_was_answered() for writer in writers))
            await apis[0].drained(90)
            await apis[0].indexed()
        covered(server.client)
        verification = disk.command(home, "verify", "--json")
        assert verification.returncode == 0, verification.stdout + verification.stderr
        assert "Traceback" not in server.errors()
    figures.nothing_wrong()


async def takes_messages(api: Api) -> bool:
    body = {"session_id": "probe", "messages": [message("is there room?")]}
    return (await api.call("POST", "/api/v1/memory/add", json=body)).status_code == 202


async def all_is_over(api: Api, writers: list["Writer"]) -> bool:
    """No turn is left as if it still streamed."""
    threads = [await api.turns(writer.thread) for writer in writers]
    return {turn["status"] for turns in threads for turn in turns} <= OVER


class Writer:
    """Adds and chats in turn in a thread of its own, and notes what was answered and what was refused."""

    def __init__(self, api: Api, thread: str) -> None:
        self.api, self.thread = api, thread
        self.said: list[str] = []
        self.answered: set[str] = set()
        self.refused = 0
        self.longest = 0.0

    async def write(self, count: int) -> None:
        for _ in range(count):
            words = f"{self.thread} says {len(self.said)} " + "x" * 3000
            self.said.append(words)
            started = time.monotonic()
            answer = await (self._add(words) if len(self.said) % 2 else self._chat(words))
            self.longest = max(self.longest, time.monotonic() - started)
            if answer.status_code < 400:
                self.answered.add(words)
            else:
                self.refused += 1
                assert answer.json()["error"]["code"] == "storage_unavailable", answer.text

    async def _add(self, words: str) -> httpx2.Response:
        body = {"session_id": self.thread, "messages": [message(words)], "user_id": "ann"}
        return await self.api.call("POST", "/api/v1/memory/add", json=body)

    async def _chat(self, words: str) -> httpx2.Response:
        body = {"content": words, "user_id": "ann"}
        return await self.api.call("POST", f"/api/v1/threads/{self.thread}/messages", json=body)

    async def holds_what_was_answered(self) -> None:
        """All of it, once, in order; nothing that was never said, and no message that was refused when it was added."""
        turns = await self.api.turns(self.thread)
        stored = [turn["content"] for turn in turns if turn["role"] == "user"]
        self.api.figures.lost += len(self.answered - set(stored))
        self.api.figures.duplicated += doubles(turns)
        assert stored == [words for words in self.said if words in set(stored)]
        assert not [words for words in self.said[::2] if words in set(stored) - self.answered]
