"""What the stress tests share: sizes, subjects, clients that count what they see, and the figures of a run."""

import asyncio
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from tests.eventually import eventually
from tests.http_client import Json, coverage, thread_path
from tests.processes import Server, StandInModel, recollect_json
from tests.standins.standin_answers import ENTITIES

T = TypeVar("T")


class Size(Enum):
    """Of all stress tests, by one option of pytest's."""

    QUICK = "quick"
    LONG = "long"

    def of(self, *, quick: T, long: T) -> T:
        return quick if self is Size.QUICK else long


@dataclass(frozen=True, slots=True)
class Subject:
    """What one thread is about."""

    name: str
    pronoun: str = "his"

    @property
    def questions(self) -> tuple[str, ...]:
        """Only the first one names it."""
        return (
            f"Who is {self.name}?",
            f"who are {self.pronoun} children?",
            "summarize that in one sentence",
            "repeat that but shorter",
        )


_HERS = {
    "Ivanka Trump", "Melania Trump", "Angela Merkel", "Michelle Obama", "Marie Curie", "Irène Joliot-Curie",
    "Ada Lovelace", "Grace Hopper", "Frida Kahlo", "Jane Austen", "Cleopatra",
}  # fmt: skip
_NAMESAKES = {
    "Ivanka Trump", "Melania Trump", "Barron Trump", "Michelle Obama", "Pierre Curie", "Irène Joliot-Curie",
}  # fmt: skip
_PEOPLE = sorted(ENTITIES[:30], key=lambda name: name in _NAMESAKES)
SUBJECTS = tuple(Subject(name, "her" if name in _HERS else "his") for name in _PEOPLE)
"""Thirty people whom the stand-in model knows by name; the first two dozen share no name with another."""
OVER = {"complete", "partial", "failed"}
"""What a turn may be when nothing waits or streams any more."""
PATIENT_SECONDS = 20
"""For recall, however busy the machine is: what is late is left out, and then nothing can leak either."""


def named_in(text: str, names: Iterable[str] = ENTITIES) -> set[str]:
    """Which of the names stand in a text as words of their own."""
    return {name for name in names if name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)}


def recognised(answer: str) -> list[str]:
    """Whom the stand-in found in all the messages that it was given."""
    head, _, names = answer.partition("I see: ")
    assert head == "", f"no answer of the stand-in's: {answer!r}"
    return [] if names == "nothing" else names.split(", ")


@dataclass
class Figures:
    """What a test did and saw: one row of the table at the end of a run."""

    requests: int = 0
    kills: int = 0
    faults: int = 0
    lost: int = 0
    leaked: int = 0
    duplicated: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each request."""

    @asynccontextmanager
    async def timed(self) -> AsyncIterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.count(time.monotonic() - started)

    def count(self, seconds: float) -> None:
        self.requests += 1
        self.seconds.append(seconds)

    def row(self, name: str) -> list[str]:
        counted = (self.requests, self.kills, self.faults, self.lost, self.leaked, self.duplicated)
        return [name, *map(str, counted), *(f"{quantile(self.seconds, q) * 1000:.0f}" for q in (0.5, 0.95))]

    def nothing_wrong(self) -> None:
        assert (self.lost, self.leaked, self.duplicated) == (0, 0, 0), self.row("lost, leaked, duplicated")


KILLS = "kills"
KILL_HEADINGS = ("work: step", "kills", "lost", "doubled", "unequal", "edits lost", "not forgotten")
STRESS = "stress"
"""The table of these rows."""
HEADINGS = ("test", "requests", "kills", "faults", "lost", "leaked", "duplicated", "p50 ms", "p95 ms")


def quantile(values: Sequence[float], q: float) -> float:
    """0 where there are none."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[round(q * 100) - 1]


class Api:
    """One client of Recollect's HTTP API; counts and times every request."""

    def __init__(self, client: httpx2.AsyncClient, figures: Figures) -> None:
        self.client = client
        self.figures = figures

    async def call(self, method: str, path: str, **fields: Any) -> httpx2.Response:
        async with self.figures.timed():
            return await self.client.request(method, path, **fields)

    async def json(self, method: str, path: str, **fields: Any) -> Json:
        answer: Json = (await self.call(method, path, **fields)).raise_for_status().json()
        return answer

    async def say(self, thread: str, content: str, *, key: str | None = None, **fields: Any) -> Json:
        """One chat turn, waited for."""
        headers = {} if key is None else {"Idempotency-Key": key}
        body = {"content": content, **fields}
        return await self.json("POST", thread_path(thread, "messages"), json=body, headers=headers)

    async def answer(self, thread: str, content: str, **fields: Any) -> str:
        return str((await self.say(thread, content, **fields))["assistant_turn"]["content"])

    async def add(self, thread: str, messages: Sequence[Json], **fields: Any) -> list[Json]:
        body = {"session_id": thread, "messages": list(messages), **fields}
        receipts: list[Json] = (await self.json("POST", "/api/v1/memory/add", json=body))["receipts"]
        return receipts

    async def flush(self, thread: str, **fields: Any) -> Json:
        return await self.json("POST", "/api/v1/memory/flush", json={"session_id": thread, **fields})

    async def search(self, query: str, **fields: Any) -> list[Json]:
        hits: list[Json] = (
            await self.json("POST", "/api/v1/memory/search", json={"query": query, **fields})
        )["hits"]
        return hits

    async def turns(self, thread: str, **query: Any) -> list[Json]:
        """Every turn, oldest first."""
        asked = {"max_turns": 10**9, **query}
        found: list[Json] = (await self.json("GET", thread_path(thread, "turns"), params=asked))["turns"]
        return found

    async def prompt(self, thread: str, turn_id: str, **query: Any) -> Json:
        return await self.json("GET", thread_path(thread, "turns", turn_id, "prompt"), params=query)

    async def threads(self, **query: Any) -> list[Json]:
        """All of them, page by page."""
        found: list[Json] = []
        after: Json = {}
        while True:
            page = await self.json("GET", "/api/v1/threads", params={"limit": 1000, **query, **after})
            found += page["threads"]
            if "next" not in page:
                return found
            after = {"after": page["next"]}

    async def entries(self, **query: Any) -> list[Json]:
        asked = {"limit": 1000, **query}
        found: list[Json] = (await self.json("GET", "/api/v1/memory/entries", params=asked))["entries"]
        return found

    async def drained(self, seconds: float = 60) -> None:
        """Until no job waits or runs; a dead one is an error."""
        left: list[Json] = []

        async def is_nothing_left() -> bool:
            nonlocal left
            left = (
                (await self.client.get("/api/v1/jobs", params={"limit": 1000}))
                .raise_for_status()
                .json()["jobs"]
            )
            assert not [job for job in left if job["state"] == "dead"], left
            return not left

        try:
            await eventually(is_nothing_left, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"still there after {seconds:g} s: {left}") from None

    async def indexed(self, what: str = "indexed", seconds: float = 60) -> None:
        """Until the index (`embedded`: by meaning too) has all that memory works on."""

        async def is_complete() -> bool:
            counted = (await self.client.get("/api/v1/coverage")).raise_for_status().json()
            wanted = counted["messages"] - counted["skipped"] - counted["forgotten"]
            return bool(counted[what] == wanted)

        await eventually(is_complete, seconds=seconds)


@asynccontextmanager
async def clients(address: str, count: int, figures: Figures, **headers: str) -> AsyncIterator[list[Api]]:
    """So many clients of a server, with connections of their own."""
    opened = [
        httpx2.AsyncClient(base_url=address, timeout=60, trust_env=False, headers=headers)
        for _ in range(count)
    ]
    try:
        yield [Api(client, figures) for client in opened]
    finally:
        await asyncio.gather(*(client.aclose() for client in opened))


def asked_and_answered(turns: Sequence[Json]) -> list[tuple[str, str]]:
    """Of each turn who spoke and what was said; an answer by its status."""
    return [
        (turn["role"], turn["status"] if turn["role"] == "assistant" else turn["content"]) for turn in turns
    ]


def leaks_of(log: Iterable[Mapping[str, Any]], owner_of: Mapping[str, str]) -> list[Json]:
    """Completions, whatever they were asked for, that name what belongs to two owners."""
    return [
        dict(call)
        for call in log
        if len({owner_of[name] for name in call.get("entities", ()) if name in owner_of}) > 1
    ]


def answered_twice(turns: Sequence[Json]) -> int:
    """Complete answers beyond the first to the same message."""
    count, twice = 0, 0
    for turn in turns:
        count = 0 if turn["role"] == "user" else count + (turn["status"] == "complete")
        twice += count > 1
    return twice


def overlaps(log: Iterable[Mapping[str, Any]]) -> list[str]:
    """Sessions of which two chats were at the model at once: no turn may begin before the one before it has ended.

    One that was given up before the model had seen it was never there.
    """
    by_session: dict[str, list[tuple[int, int]]] = {}
    for call in log:
        if call.get("asks") == "chat" and call.get("session_id") and not call["given_up"]:
            spans = by_session.setdefault(str(call["session_id"]), [])
            spans.append((call["started"], call["ended"] or call["started"]))
    assert by_session, "no chat told the model which session it is of"
    return [
        session
        for session, spans in by_session.items()
        if any(began < ended for (_, ended), (began, _) in pairwise(sorted(spans)))
    ]


def beside_chats(log: Iterable[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """How many background calls there were, and what those asked for that were at the model beside a chat.

    One that was given up before the model had seen it was never there.
    """
    chats: list[tuple[int, int]] = []
    background: list[tuple[int, int, str]] = []
    for call in log:
        if call["given_up"]:
            continue
        began, ended = call["started"], call["ended"] or call["started"]
        if call.get("asks") in ("chat", "rewriting"):
            chats.append((began, ended))
        else:
            background.append((began, ended, str(call.get("asks"))))
    joined = [asks for began, _, asks in background if any(first < began < last for first, last in chats)]
    found = [asks for began, ended, asks in background if any(began < first < ended for first, _ in chats)]
    return len(background), joined + found


def doubles(turns: Sequence[Json]) -> int:
    """Turns that stand twice in a thread: by their ids, or a user's by their words."""
    ids = Counter(turn["message_id"] for turn in turns)
    words = Counter(turn["content"] for turn in turns if turn["role"] == "user")
    return sum(count - 1 for counted in (ids, words) for count in counted.values())


def covered(client: httpx2.Client) -> Json:
    """Coverage, which adds up: every message is in one place."""
    counted = coverage(client)
    places = sum(counted[name] for name in ("buffered", "celled", "skipped", "forgotten"))
    assert (counted["missing"], counted["doubled"]) == (0, 0), counted
    assert counted["messages"] == places, counted
    return counted


def verified(server: Server) -> None:
    """The vault is the journal is the index, and nothing waits."""
    found = recollect_json(server.home, "verify")
    assert (found["ok"], found["pending"], found["notes"]) == (True, 0, []), found


SIGKILLED = -9


def used_until_killed(home: Path, settings: dict[str, str], use: Callable[[Server], object]) -> int | None:
    """Use a server until its fail point kills it; its exit code. One that never gets there raises TimeoutExpired."""
    server = Server(home, settings)
    # The kill ends a request, or already the start, which writes to the journal.
    with suppress(httpx2.TransportError, RuntimeError), server:
        use(server)
        server.wait_for_end()
    return server.exit_code


def kill_under_load(server: Server, seconds: float, *loads: Callable[[threading.Event], None]) -> None:
    """Run these at once, and kill the server in the middle of it."""
    stop = threading.Event()
    threads = [threading.Thread(target=load, args=(stop,)) for load in loads]
    for thread in threads:
        thread.start()
    time.sleep(seconds)  # The kill's moment is chance; nothing is waited for.
    server.kill()
    stop.set()
    for thread in threads:
        thread.join()


def chatting_settings(model: StandInModel, *, embedding: bool = False, **more: str) -> dict[str, str]:
    """Of a server that chats with the stand-in, remembers soon, and embeds with it where that is wanted."""
    given = {
        "LLM__BASE_URL": model.base_url,
        "MEMORIZE__PAUSE_SECONDS": "0.2",
        "TRANSCRIPT_DELAY_MS": "50",
        "LOG_LEVEL": "WARNING",
        **more,
    }
    if embedding:
        given |= {
            "EMBEDDING__KIND": "openai",
            "EMBEDDING__BASE_URL": model.base_url,
            "EMBEDDING__MODEL": "stand-in",
        }
    return {f"RECOLLECT_{name}": value for name, value in given.items()}


def memory_bytes(pid: int) -> int:
    """What a process holds in memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"(?m)^VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def file_handles(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
