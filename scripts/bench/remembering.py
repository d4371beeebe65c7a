"""What memories cost: memcells a second with a model that answers at once, and what they take on disk."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import servers
import texts
from driving import Server
from reporting import Row, paired_row, progress, row

OWNERS = 5
BATCH = 20
"""Messages of one conversation, on a day of its own."""
CELL = 4
"""Messages of a memcell, as the stand-in cuts them."""
SMALL = 1_000
ROUNDS = 3
AT_MOST = 1.2
_FIRST_DAY = 1_600_000_000_000
_DAY_MS = 86_400_000
_AT_ONCE = 50
_STRETCHES = 3
"""Of so many times _AT_ONCE conversations at either end the median counts."""
_SEED = 23
_STRATEGIES = ("EPISODE", "FACTS", "FORESIGHT", "PROFILE", "CASE", "SKILL")


@dataclass(frozen=True)
class RememberingHome:
    port: int
    pid: int
    folder: Path
    server: Server

    def connected(self) -> "RememberingHome":
        """Again: a connection that nobody uses for a while is closed."""
        return replace(self, server=Server(self.port))

    def add(self, conversation: Any) -> None:
        self.server.call("POST", "/api/v1/memory/add", conversation)

    def remember(self, conversation: Any) -> None:
        """Add it, and have memories made of it soon."""
        self.add(conversation)
        wanted = {"session_id": conversation["session_id"], "timeout": 0}
        self.server.call("POST", "/api/v1/memory/flush", wanted)

    def settle(self) -> None:
        """Until no job is left. One that was set aside is an error: what it costs was not measured.

        One job is asked for, so that the asking costs the same however many wait; what is set aside is left at last.
        """
        while jobs := self.server.call("GET", "/api/v1/jobs?limit=1")["jobs"]:
            if jobs[0]["state"] == "dead":
                raise RuntimeError(f"set aside: {jobs[0]}")
            time.sleep(0.05)

    def sizes(self, messages: int) -> dict[str, float]:
        """KB per 1,000 messages, once the index has taken in what is there."""
        for number in range(OWNERS):
            self.server.wait_until("indexed", f"owner{number}", messages // OWNERS)
        kilobytes = {
            name: servers.files_and_bytes(self.folder / name)[1] / 1e3 for name in ("vault", "index")
        }
        kilobytes["journal"] = sum(path.stat().st_size for path in self.folder.glob("journal.db*")) / 1e3
        return {name: size * 1000 / messages for name, size in kilobytes.items()}


def measure_remembering(folder: Path, messages: int) -> list[Row]:
    """The pace beside that of messages alone, in turns; then a small home and one with `messages`."""
    conversations = list(_conversations(messages))
    few, rest = conversations[: SMALL // BATCH], conversations[SMALL // BATCH :]
    with servers.standin_model() as asking, remembering_home(folder / "remembering", asking) as home:
        with remembering_home(folder / "adding", _off()) as plain:
            rows = _pace(home, plain, few)
        return rows + _growth(home.connected(), rest, messages)


def _growth(home: RememberingHome, conversations: Sequence[Any], messages: int) -> list[Row]:
    """What a home of SMALL messages takes, and what it takes when all of these have come to it."""
    early = home.sizes(SMALL)
    started = time.perf_counter()
    busy = []
    for begun in range(0, len(conversations), _AT_ONCE):
        some = conversations[begun : begun + _AT_ONCE]
        before = servers.cpu_seconds(home.pid)
        for conversation in some:
            home.remember(conversation)
        home.settle()
        busy.append((servers.cpu_seconds(home.pid) - before) * 1000 / (len(some) * BATCH))
        progress("remembering", SMALL + (begun + len(some)) * BATCH, messages)
    wall = (time.perf_counter() - started) * 1000 / (messages - SMALL)
    late = home.sizes(messages)
    rows = []
    for what in early:
        name = f"{what} KB per 1,000 messages: at {messages:,} / at {SMALL:,}"
        limit = None if what == "journal" else AT_MOST
        rows.append(paired_row(name, [late[what]], [early[what]], at_most=limit))
    mean = statistics.mean(busy)
    name = f"ms a message from {SMALL:,} to {messages:,}: remembered / of that CPU"
    rows.append(row(name, wall, mean))
    first, last = statistics.median(busy[:_STRETCHES]), statistics.median(busy[-_STRETCHES:])
    name = f"ms of CPU a message: near {messages:,} / near {SMALL:,}"
    rows.append(paired_row(name, [last], [first], at_most=AT_MOST))
    return rows


def _pace(home: RememberingHome, plain: RememberingHome, conversations: Sequence[Any]) -> list[Row]:
    """From the first message to the last memory, beside the acknowledgements alone."""
    remembered = alone = 0.0
    for number in range(ROUNDS):
        mine = conversations[number::ROUNDS]
        started = time.perf_counter()
        asked = plain.connected()
        for conversation in mine:
            asked.add(conversation)
        alone += time.perf_counter() - started
        started = time.perf_counter()
        asked = home.connected()
        for conversation in mine:
            asked.remember(conversation)
        asked.settle()
        remembered += time.perf_counter() - started
    messages = len(conversations) * BATCH
    cost, bare = remembered * 1000 / messages, alone * 1000 / messages
    pace = messages / CELL / remembered, messages / alone
    return [
        row("memcells remembered a second / messages added a second", *pace),
        row("ms a message: remembered / memory/add alone", cost, bare),
    ]


def _conversations(messages: int) -> Iterator[Any]:
    """Each tells a few things about its owner that no other tells, among talk."""
    talk = texts.texts(messages, _SEED)
    words = texts.vocabulary()
    for number in range(messages // BATCH):
        owner = f"owner{number % OWNERS}"
        start = _FIRST_DAY + number // OWNERS * _DAY_MS
        told = []
        for place in range(BATCH):
            at = number * BATCH + place
            content = talk[at]
            if place % 4 == 0:
                content = f"I like {words[at % len(words)]} {words[(at * 7) % len(words)]}. {content}."
            role = "user" if place % 2 == 0 else "assistant"
            told.append(
                {
                    "message_id": f"m{at}",
                    "sender_id": owner if role == "user" else role,
                    "role": role,
                    "timestamp": start + place * 60_000,
                    "content": content,
                }
            )
        yield {"session_id": f"t{number}", "user_id": owner, "messages": told}


def _off() -> dict[str, str]:
    switched_off = {f"RECOLLECT_STRATEGIES__{name}__ENABLED": "false" for name in _STRATEGIES}
    return {**switched_off, "RECOLLECT_LLM__DISCOVER": "false"}


@contextmanager
def remembering_home(folder: Path, settings: dict[str, str]) -> Iterator[RememberingHome]:
    given = {"RECOLLECT_EMBEDDING__KIND": "none", **settings}
    with servers.recollect(folder, given) as (port, pid, _ready):
        yield RememberingHome(port, pid, folder, Server(port))
