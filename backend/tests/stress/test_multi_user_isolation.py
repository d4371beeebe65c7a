"""Users, threads and spaces side by side, with long-term memory on: nobody is shown anything of anybody else's.

Everybody says and asks the same in the same words, but for names that only one of them uses. Whatever names them
says whose it is: prompts and answers, hits, receipts, memories and files.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from recollect.domain import paths as vault_paths
from tests.http_client import START, Home, Json, bearer, client_of, message, opened, thread_path
from tests.processes import StandInModel
from tests.remembering import vault_files
from tests.standins.tool_tasks import tool_task
from tests.stress.utils import (
    PATIENT_SECONDS,
    SUBJECTS,
    Api,
    Figures,
    Size,
    Subject,
    doubles,
    leaks_of,
    named_in,
    recognised,
)

ENTRIES = "/api/v1/memory/entries"
REFUSED, NOT_FOUND = 403, 404
TOLD = ("I live in {0}.", "I have a dog called {1}.", "I like the parks of {0}.", "My name is {1}.")
AGENT = "helper"
"""Works for everybody."""
WORK = "work"
"""Begins the ids of messages of its work, for which there was no prompt."""
TASK = "Free some space on the full disk of {1}"
ASKED = ("Where do I live?", "what is my dog called?", "tell me about that", "repeat that but shorter")


@dataclass
class Person:
    """One user of one space, with names that nobody else uses."""

    user: str
    space: str
    names: tuple[str, ...]
    api: Api
    threads: list[str]
    tagged: bool
    """Each of their threads has a tag of its own, so that memory stays within it."""
    said: dict[str, list[str]] = field(default_factory=dict)
    """By thread, in order."""
    history: list[Json] = field(default_factory=list)
    """Of the client of the OpenAI door."""
    theirs: str = ""
    """The thread of that history."""

    async def tell_or_ask(self, chance: random.Random) -> None:
        thread = chance.choice(self.threads)
        words = chance.choice((*TOLD, *ASKED)).format(*self.names) + f" ({len(self.said.get(thread, ()))})"
        tags = [thread] if self.tagged else []
        if chance.random() < 0.4:
            await self.api.add(thread, [message(words, sender_id=self.user)], tags=tags)
            self.said.setdefault(thread, []).append(words)
            return
        answer = await self.api.say(thread, words, tags=tags)
        self.said.setdefault(thread, []).append(words)
        self.hears(answer["assistant_turn"]["content"], answer["receipt"])
        if self.tagged:
            memories = answer["receipt"]["recall"]["memories"]
            assert {memory["thread_id"] for memory in memories if memory["type"] != "profile"} <= {thread}

    async def have_work_done(self, chance: random.Random) -> None:
        """By an agent that works for everybody: what it learns of this is theirs alone."""
        thread = chance.choice(self.threads)
        said = self.said.setdefault(thread, [])
        mark = f"({len(said)})"
        task, thanks = f"{TASK.format(*self.names)} {mark}", f"Thanks, that works! {mark}"
        told = tool_task(f"{WORK} {mark} ", START, task, user=self.user, thanks=thanks)
        await self.api.add(thread, told, agent_id=AGENT, tags=[thread] if self.tagged else [])
        said += [task, thanks]

    async def ask_through_openai(self, chance: random.Random) -> None:
        words = chance.choice((*TOLD, *ASKED)).format(*self.names)
        self.history.append({"role": "user", "content": words})
        headers = {"X-Recollect-Thread": self.theirs} if self.theirs else {}
        answer = await self.api.call(
            "POST", "/v1/chat/completions", json={"messages": self.history}, headers=headers
        )
        content = answer.raise_for_status().json()["choices"][0]["message"]["content"]
        self.history.append({"role": "assistant", "content": content})
        self.theirs = answer.headers["X-Recollect-Thread"]
        self.hears(content)

    async def search(self, chance: random.Random) -> None:
        query = chance.choice((*ASKED, *TOLD)).format(*self.names)
        self.hears("", await self.api.search(query, top_k=50))

    async def correct(self, chance: random.Random) -> None:
        entries = await self.api.entries()
        self.hears("", entries)
        if facts := [entry for entry in entries if entry["kind"] == "facts"]:
            body = {"text": f"{self.user} really lives in {self.names[0]}."}
            await self.api.json("PATCH", f"{ENTRIES}/{chance.choice(facts)['id']}", json=body)

    async def flush(self, chance: random.Random) -> None:
        if self.said:
            self.hears("", await self.api.flush(chance.choice(list(self.said)), timeout=5))

    def hears(self, answer: str, *more: object) -> None:
        """Counts what is somebody else's."""
        text = answer + "".join(json.dumps(each, ensure_ascii=False) for each in more)
        self.api.figures.leaked += len(named_in(text, self.foreign))

    foreign: frozenset[str] = frozenset()


@asynccontextmanager
async def crowd(
    home: Home, figures: Figures, users: list[tuple[str, str, int]], *, same_ids: bool = False
) -> AsyncIterator[list[Person]]:
    """Of each user the name, the space and the number of threads; everybody has a key of their own.

    With `same_ids` everybody's threads have the same ids.
    """
    people: list[Person] = []
    async with AsyncExitStack() as stack:
        for number, (user, space, threads) in enumerate(users):
            made = await home.client.post(
                "/api/v1/keys", json={"space": space, "user_id": user}, headers=bearer(home.app.lock.token)
            )
            secret = made.raise_for_status().json()["secret"]
            client = await stack.enter_async_context(client_of(home.app, **bearer(secret)))
            names = (f"Qort{number:03}", f"Zibb{number:03}")
            ids = [f"{'chat' if same_ids else user} {place}" for place in range(threads)]
            people.append(Person(user, space, names, Api(client, figures), ids, tagged=number % 2 == 1))
        everything = {name for person in people for name in person.names}
        for person in people:
            person.foreign = frozenset(everything - set(person.names))
        yield people


def model_settings(model: StandInModel) -> Json:
    llm = {"base_url": model.base_url, "model": "stand-in"}
    chat = {"recall_seconds": PATIENT_SECONDS}
    return {"llm": llm, "embedding": {"kind": "openai", **llm}, "chat": chat, "log_level": "WARNING"}


@pytest.mark.timeout(300)
async def test_three_users_with_six_threads_at_once_keep_to_themselves(
    tmp_path: Path, model: StandInModel, figures: Figures, size: Size
) -> None:
    """Each thread has its own topic: another thread's shows up in none, not even of the same user.

    After a restart everything is read again: then memory has all of it from the first question on.
    """
    folder, settings = tmp_path / "home", model_settings(model)
    users = [("userA", "default", 2), ("userB", "default", 1), ("userC", "default", 3)]
    async with opened(folder, **settings) as home, crowd(home, figures, users) as people:
        threads = [(person, thread) for person in people for thread in person.threads]
        topics = dict(zip((thread for _, thread in threads), SUBJECTS, strict=False))
        for _ in range(size.of(quick=2, long=10)):
            await asyncio.gather(
                *(talk(person, thread, topics[thread].questions) for person, thread in threads)
            )
            await asyncio.gather(*(person.api.flush(thread) for person, thread in threads))
        await home.drain()
        await home.app.search.indexer.settled()
        for person, thread in threads:
            await speaks_of(person, thread, topics[thread].name)
        everything = {topics[thread].name for _, thread in threads}
        for person in people:
            own = {topics[thread].name for thread in person.threads}
            await finds_their_own(home, person, own, everything)
    async with opened(folder, **settings) as home, crowd(home, figures, users) as people:
        for person in people:
            own = {topics[thread].name for thread in person.threads}
            await finds_their_own(home, person, own, everything)
            asked = tuple(Subject(name).questions[0] for name in sorted(everything - own))
            await talk(person, f"{person.user} again", asked)
    figures.nothing_wrong()


async def talk(person: Person, thread: str, questions: tuple[str, ...]) -> None:
    for words in questions:
        receipt = (await person.api.say(thread, words))["receipt"]
        sources = {memory["thread_id"] for memory in receipt["recall"]["memories"]}
        person.api.figures.leaked += len(sources - {"", None, thread, *person.threads})


async def finds_their_own(home: Home, person: Person, own: set[str], everything: set[str]) -> None:
    """All of it, and nobody else's, though they ask for it by name: in search, and in files."""
    for name in sorted(everything):
        hits = await person.api.search(Subject(name).questions[0], top_k=1000)
        found = named_in(json.dumps(hits, ensure_ascii=False))
        person.api.figures.leaked += len(found - own)
        assert name in found or name not in own, found
    written = "".join(text for _, text in files_of(home, person))
    person.api.figures.leaked += len(named_in(written, [each.name for each in SUBJECTS]) - own)
    assert named_in(written) >= own


async def speaks_of(person: Person, thread: str, topic: str) -> None:
    for turn in await person.api.turns(thread):
        if turn["role"] == "assistant":
            assert recognised(turn["content"]) == [topic], (thread, turn)
            prompt = json.dumps(await person.api.prompt(thread, turn["turn_id"]), ensure_ascii=False)
            person.api.figures.leaked += len(named_in(prompt) - {topic})


def files_of(home: Home, person: Person) -> list[tuple[str, str]]:
    """Path and text of every file of the vault that is in this person's folder."""
    files = vault_files(home.app.settings.home, vault_paths.owner_folder(person.space, person.user))
    return [(path, content.decode()) for path, content in files.items()]


@pytest.mark.timeout(900)
async def test_fifty_users_at_random_never_meet(
    tmp_path: Path, model: StandInModel, figures: Figures, size: Size
) -> None:
    chance = random.Random(f"fifty {size}")
    users = [
        (f"user{number % 40}", "default" if number < 40 else "acme", 1 + number % 3) for number in range(50)
    ]
    async with (
        opened(tmp_path / "home", **model_settings(model)) as home,
        crowd(home, figures, users, same_ids=True) as people,
    ):
        owner_of = {name: f"{person.space}/{person.user}" for person in people for name in person.names}
        model.control(entities=list(owner_of))
        before = len(model.log())
        await asyncio.gather(
            *(
                live(person, people, random.Random(chance.random()), size.of(quick=2, long=10))
                for person in people
            )
        )
        await home.drain()
        await home.app.search.indexer.settled()
        await asyncio.gather(
            *(all_is_theirs(home, person, looks=size.of(quick=1, long=10)) for person in people)
        )
        figures.leaked += len(leaks_of(model.log()[before:], owner_of))
    figures.nothing_wrong()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_what_people_are_reminded_of_and_what_an_agent_learnt_of_them_is_their_own(
    tmp_path: Path, model: StandInModel, figures: Figures, size: Size
) -> None:
    """A profile stands in every prompt, and the cases of an agent that works for all of them in one folder."""
    folder, settings = tmp_path / "home", model_settings(model)
    users = [(f"user{number}", "default", 2) for number in range(size.of(quick=3, long=20))]
    users.append(("user0", "acme", 2))
    async with opened(folder, **settings) as home, crowd(home, figures, users, same_ids=True) as people:
        owner_of = {name: f"{person.space}/{person.user}" for person in people for name in person.names}
        model.control(entities=list(owner_of))
        before = len(model.log())
        # What is in memory before there is anything is brought up to date; after a restart it is read.
        await asyncio.gather(*(person.search(random.Random(0)) for person in people))
        await asyncio.gather(*(tell_and_have_work_done(person) for person in people))
        await home.drain()
        await home.app.search.indexer.settled()
        await asyncio.gather(*(knows_their_own(person, "again") for person in people))
    async with opened(folder, **settings) as home, crowd(home, figures, users, same_ids=True) as people:
        await asyncio.gather(*(knows_their_own(person, "after a restart") for person in people))
        figures.leaked += len(leaks_of(model.log()[before:], owner_of))
    figures.nothing_wrong()


async def tell_and_have_work_done(person: Person) -> None:
    talking, working = person.threads
    told = [message(words.format(*person.names), number) for number, words in enumerate(TOLD)]
    await person.api.add(talking, told)
    for thread in (talking, working):
        person.threads = [thread]
        await person.have_work_done(random.Random(0))
        await person.api.flush(thread)


async def knows_their_own(person: Person, when: str) -> None:
    """A new thread begins with their profile, and the agent's cases with them are found; nobody else's are."""
    thread = f"{person.user} {when}"
    asked = await person.api.say(thread, ASKED[0])
    answer, recall = asked["assistant_turn"], asked["receipt"]["recall"]
    assert "profile" in {memory["type"] for memory in recall["memories"]}, recall
    assert set(recognised(answer["content"])) >= set(person.names), answer
    person.hears(answer["content"], recall, await person.api.prompt(thread, answer["turn_id"]))
    for name in (person.names[1], *sorted(person.foreign)):
        query = TASK.format(name, name)
        for scope in ({"agent_id": AGENT}, {}):
            hits = await person.api.search(query, types=["case"], top_k=100, **scope)
            person.hears("", hits)
            assert person.names[1] in named_in(json.dumps(hits), person.names), hits
    for path in (ENTRIES, "/api/v1/memory/skills"):
        person.hears("", await person.api.json("GET", path))


async def live(person: Person, people: list[Person], chance: random.Random, steps: int) -> None:
    doings = [
        person.tell_or_ask, person.tell_or_ask, person.have_work_done, person.ask_through_openai, person.search,
        person.correct, person.flush,
    ]  # fmt: skip
    for _ in range(steps):
        await chance.choice(doings)(chance)
        if chance.random() < 0.3:
            await intrude(person, chance.choice([other for other in people if other is not person]), chance)


async def intrude(person: Person, other: Person, chance: random.Random) -> None:
    """Ask for what is somebody else's, by its right name: it is as if it didn't exist."""
    if not other.said:
        return
    thread = chance.choice(list(other.said))
    if thread in person.threads:
        return  # The same id is one's own thread.
    attempts: list[tuple[str, str, Json]] = [
        ("GET", thread_path(thread), {}),
        ("GET", thread_path(thread, "turns"), {}),
        ("GET", thread_path(thread, "turns", "t-2", "prompt"), {}),
        ("GET", thread_path(thread, "stream"), {}),
        ("POST", thread_path(thread, "cancel"), {"json": {}}),
        ("DELETE", thread_path(thread), {}),
        ("DELETE", thread_path(thread, "turns", "t-1"), {}),
        ("PATCH", thread_path(thread), {"json": {"title": "mine"}}),
        ("POST", "/api/v1/memory/flush", {"json": {"session_id": thread}}),
        ("POST", "/api/v1/memory/search", {"json": {"query": "Where do I live?", "thread_id": thread}}),
        ("GET", "/api/v1/threads", {"params": {"user_id": other.user}}),
        ("GET", ENTRIES, {"params": {"user_id": other.user}}),
    ]
    method, path, fields = chance.choice(attempts)
    if other.user == person.user and "params" in fields:
        return  # The same name in another space: it is one's own.
    answer = await person.api.call(method, path, **fields)
    expected = REFUSED if "params" in fields else NOT_FOUND
    assert answer.status_code == expected, (method, path, answer.text)
    person.hears(answer.text)


async def all_is_theirs(home: Home, person: Person, looks: int) -> None:
    """Every surface, and at most so many single prompts and memories of each list."""
    api, figures = person.api, person.api.figures
    listed = {thread["thread_id"] for thread in await api.threads()}
    assert listed == set(person.said) | ({person.theirs} if person.theirs else set())
    for thread in listed:
        turns = await api.turns(thread)
        person.hears("", turns)
        if thread in person.said:
            said = [turn["content"] for turn in turns if turn["role"] == "user"]
            figures.lost += len(set(person.said[thread]) - set(said))
            figures.duplicated += doubles(turns)
            assert said == person.said[thread]
        answers = [turn for turn in turns if turn["role"] == "assistant"]
        for turn in [turn for turn in answers if not turn["message_id"].startswith(WORK)][-looks:]:
            person.hears("", await api.prompt(thread, turn["turn_id"]))
    for query in (*ASKED[:looks], *sorted(person.foreign)[:looks]):
        person.hears("", await api.search(query, top_k=100))
    if person.tagged:
        for thread in person.said:
            hits = await api.search(ASKED[0], tags=[thread], top_k=100)
            assert {hit["thread_id"] for hit in hits if hit["type"] != "profile"} <= {thread}
    entries = await api.entries()
    person.hears("", entries)
    for entry in entries[:looks]:
        for more in ("", "/why", "/history"):
            person.hears("", await api.json("GET", f"{ENTRIES}/{entry['id']}{more}"))
    for _, text in files_of(home, person):
        person.hears(text)
    person.hears("", await api.json("GET", "/api/v1/jobs"))
    counted = await api.json("GET", "/api/v1/coverage")
    assert counted["messages"] == sum([len(await api.turns(thread)) for thread in listed])
    assert (counted["missing"], counted["doubled"]) == (0, 0)
