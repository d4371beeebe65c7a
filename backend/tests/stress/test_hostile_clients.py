"""Hostile clients, with a key of their own and without one, beside a well-behaved user of the same server.

`tests.stress.attacks` holds the attacks, one after another, each as wide as 64 clients or hundreds of connections.
Meanwhile the user adds, searches and chats. What makes the figures hold on a busy machine: the attackers' own work is
done at a lower priority; the time that the server waited for a processor, which others used, is taken out; quiet
counts as 50 ms at least; and the 95th percentile is over all attacks, some of which last for a moment only.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

import httpx2
import pytest

from tests.forking import Forked
from tests.http_client import Json, add, bearer, coverage, drained, message, thread_path, turns
from tests.processes import Server, StandInModel, end, recollect_json, wait_until
from tests.stress.attacker import Target
from tests.stress.attacks import ATTACKS
from tests.stress.utils import Figures, Size, chatting_settings, doubles, file_handles, memory_bytes, quantile

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
MARKER = "Zibbmarker"
USER, TOLD, ASKED = "ann", "ann tells", "ann asks"
CONNECTIONS, UNFINISHED, BACKLOG = 256, 100, 400
SETTINGS = {
    "LIMITS__HEAD_SECONDS": "2",
    "LIMITS__BODY_SECONDS": "2",
    "LIMITS__CONNECTIONS": str(CONNECTIONS),
    "LIMITS__UNFINISHED": str(UNFINISHED),
    "LIMITS__BACKLOG": str(BACKLOG),
}
QUIET_FLOOR = 0.05
"""Seconds: below this a difference is the machine's."""
THINKS = 0.1
"""Seconds after each answer: background work is done while nobody chats."""
TIMES_SLOWER = 10
LONGEST = 5.0
"""Seconds that no answer may take."""
MEGABYTE = 1024 * 1024
MOST_GROWTH = 300 * MEGABYTE
MORE_FILES = 8
"""Of the index, which has grown."""
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass
class WellBehaved:
    """Adds, searches and chats by turns, and notes what was answered and how long it took."""

    client: httpx2.Client
    told: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    waits: list[tuple[float, str, float]] = field(default_factory=list)
    """When it began, what was done, and how long that took, in seconds."""

    def go_on(self) -> None:
        words = f"{MARKER} grows in garden {len(self.told)}"
        with self._timed("add"):
            (receipt,) = add(self.client, TOLD, [message(words, len(self.told), sender_id=USER)])
        assert receipt["status"] == "accepted", receipt
        self.told.append(words)
        with self._timed("search"):
            found = self.client.post("/api/v1/memory/search", json={"query": "What grows in the garden?"})
        assert found.raise_for_status().json()["hits"]
        words = f"What grows in garden {len(self.asked)}?"
        with self._timed("chat"):
            answer = self.client.post(thread_path(ASKED, "messages"), json={"content": words})
        assert answer.raise_for_status().json()["assistant_turn"]["status"] == "complete", answer.text
        self.asked.append(words)
        time.sleep(THINKS)

    @contextmanager
    def _timed(self, doing: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.waits.append((began, doing, time.monotonic() - began))


@dataclass
class Period:
    """What a user saw of a server in some time."""

    user: WellBehaved
    pid: int
    share: float = 1.0
    """Of the processor time that the server's event loop wanted, how much it got."""
    began: float = 0.0
    ended: float = 0.0

    def __enter__(self) -> Self:
        self.began, self._ran, self._waited = time.monotonic(), *self._scheduled()
        return self

    def __exit__(self, *_: object) -> None:
        ran, waited = self._scheduled()
        self.share = (ran - self._ran) / (ran - self._ran + waited - self._waited)
        self.ended = time.monotonic()

    def p95(self, doing: str) -> float:
        """As somebody who asks every `THINKS` seconds, come what may, would have seen it.

        This user waits for each answer: of a server that freezes for ten seconds they see one slow answer.
        """
        waits = [
            wait for at, what, wait in self.user.waits if what == doing and self.began <= at <= self.ended
        ]
        unasked = [wait - THINKS * n for wait in waits for n in range(1, int(wait / THINKS) + 1)]
        return quantile(waits + unasked, 0.95) * self.share

    def _scheduled(self) -> tuple[int, int]:
        """Nanoseconds that the event loop ran, and that it waited for a processor."""
        ran, waited, _ = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()
        return int(ran), int(waited)


@dataclass
class Siege:
    server: Server
    user: WellBehaved
    quiet: Period
    """Before it."""
    besieged: Period
    attacks: list[Json] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)
    """Before and after."""

    def look(self) -> None:
        self.memory.append(memory_bytes(self.server.pid))
        self.handles.append(file_handles(self.server.pid))

    def has_closed_its_files(self) -> bool:
        return file_handles(self.server.pid) <= self.handles[0] + MORE_FILES


@pytest.fixture(scope="module")
def siege(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, size: Size
) -> Iterator[Siege]:
    times = 1 if request.config.getoption("quick") else size.of(quick=3, long=10)
    home = tmp_path_factory.mktemp("siege") / "home"
    with (
        StandInModel() as model,
        Server(home, chatting_settings(model, embedding=True, **SETTINGS)) as server,
    ):
        key, hostile = (
            recollect_json(home, "keys", "create", "--user", user)["secret"] for user in (USER, "mallory")
        )
        server.client.headers.update(bearer(key))
        user = WellBehaved(server.client)
        target = known_of(user, server.address, hostile, times)
        siege = Siege(server, user, Period(user, server.pid), Period(user, server.pid))
        with siege.quiet:
            for _ in range(20):
                user.go_on()
        siege.look()
        with siege.besieged:
            siege.attacks = under_attack(user, target, home.parent / "attacks")
        if times > 1:
            drained(server.client, seconds=300)
        with suppress(TimeoutError):  # A test says how many there are.
            wait_until(siege.has_closed_its_files, "files closed", seconds=10)
        siege.look()
        yield siege


def known_of(user: WellBehaved, address: str, secret: str, times: int) -> Target:
    """What an attacker may guess: it is all there."""
    user.told.append(f"I live in {MARKER}.")
    add(user.client, TOLD, [message(user.told[0], sender_id=USER)])
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    parts = [{"type": "text", "text": f"{MARKER}, seen"}, {"type": "image_url", "image_url": {"url": url}}]
    seen = user.client.post(thread_path("ann sees", "turns"), json={"role": "user", "parts": parts})
    noted = user.client.post("/api/v1/memory/notes", json={"name": "garden", "text": f"{MARKER}, noted"})
    user.client.post("/api/v1/memory/flush", json={"session_id": TOLD}).raise_for_status()
    entries = user.client.get("/api/v1/memory/entries").raise_for_status().json()["entries"]
    return Target(
        address=address,
        secret=secret,
        marker=MARKER,
        user=USER,
        thread=TOLD,
        turn="t-1",
        entry=entries[0]["id"],
        image=seen.raise_for_status().json()["parts"][1]["image_url"]["url"].rpartition("/")[2],
        note=noted.raise_for_status().json()["name"],
        times=times,
        connections=CONNECTIONS,
    )


def under_attack(user: WellBehaved, target: Target, told: Path) -> list[Json]:
    with told.open("w") as file:
        process = Forked("tests.stress.attacks", json.dumps(asdict(target)), stdout=file)
    try:
        while process.poll() is None:
            user.go_on()
    finally:
        end(process)
    return [json.loads(line) for line in told.read_text().splitlines()]


def test_every_attack_gets_what_is_documented_and_nobody_elses_words(siege: Siege) -> None:
    assert [told["attack"] for told in siege.attacks] == [attack.__name__ for attack in ATTACKS]
    problems = [f"{told['attack']}: {told['problem']}" for told in siege.attacks if told["problem"]]
    assert not problems, "\n".join(problems)


def test_the_well_behaved_user_is_less_than_ten_times_slower(
    siege: Siege, figures: Figures, remark: Callable[[str], None]
) -> None:
    for told in siege.attacks:
        waits = [wait for at, _, wait in siege.user.waits if told["began"] <= at <= told["ended"]]
        figures.seconds += waits
        remark(
            f"{told['attack']}: {told['ended'] - told['began']:.1f} s, {len(waits)} requests beside it, "
            f"the slowest {1000 * max(waits, default=0):.0f} ms; answers {told['statuses']}"
        )
    figures.requests = len(figures.seconds)
    slower = {}
    for doing in ("add", "search", "chat"):
        quiet, besieged = siege.quiet.p95(doing), siege.besieged.p95(doing)
        slower[doing] = besieged / max(quiet, QUIET_FLOOR)
        remark(f"{doing}: p95 {1000 * quiet:.0f} ms when quiet, {1000 * besieged:.0f} ms under attack")
    remark(
        f"of the processor time that it wanted the server got {siege.quiet.share:.0%}, then {siege.besieged.share:.0%}"
    )
    assert max(slower.values()) < TIMES_SLOWER, slower
    assert max(figures.seconds) * siege.besieged.share < LONGEST


def test_the_well_behaved_user_loses_nothing(siege: Siege) -> None:
    user, counted = siege.user, coverage(siege.user.client)
    assert (counted["missing"], counted["doubled"], counted["forgotten"]) == (0, 0, 0)
    assert counted["messages"] == len(user.told) + 2 * len(user.asked) + 1
    told, asked = turns(user.client, TOLD), turns(user.client, ASKED)
    assert [turn["content"] for turn in told] == user.told
    assert [turn["content"] for turn in asked if turn["role"] == "user"] == user.asked
    assert {turn["status"] for turn in asked} == {"complete"}
    assert doubles(told) + doubles(asked) == 0


def test_the_server_is_as_healthy_as_before(siege: Siege) -> None:
    health = siege.server.client.get("/health").raise_for_status().json()
    assert [each for each in health["degraded"] if not each.startswith("the oldest job has waited")] == []
    assert "Traceback" not in siege.server.errors()
    before, after = siege.memory
    assert after - before < MOST_GROWTH, f"{before // MEGABYTE} MB before, {after // MEGABYTE} MB after"
    assert siege.handles[1] <= siege.handles[0] + MORE_FILES


def test_no_file_is_written_outside_the_home(siege: Siege) -> None:
    home = siege.server.home
    assert {path.name for path in home.parent.iterdir()} == {home.name, siege.server.log.name, "attacks"}
