"""A real server, killed at every fail point that it reaches and at random moments, in all the work that writes.

After each restart: what was acknowledged is there once and in order, and a search finds it once. After every few: the
vault is the journal is the index, no memory is doubled, what a person wrote into a file in that moment is kept, and
what was forgotten is in no file.
"""

import copy
import random
import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from urllib.parse import quote

import httpx2
import pytest

from recollect.failpoints import FAIL_POINTS
from tests import deployment
from tests.chatting import with_backend
from tests.http_client import QUICK, Json, add, coverage, drained, message, thread_path, turns
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until
from tests.remembering import MortalModel
from tests.searching import with_server
from tests.stress.lives import ArmedServer, Broken, Life
from tests.stress.utils import KILL_HEADINGS, KILLS, SIGKILLED, covered

AT_RANDOM = "at random"
TURNS = 3
"""What a life does goes by its number: every third does the same."""
LIVES_OF_A_HOME = 25
LIVES_OF_A_CHECK = 6
"""In each it is looked whether what was acknowledged is there once; in one of so many, at all there is."""
DIED = (httpx2.TransportError, RuntimeError, TimeoutExpired)
"""What a client sees of a server that dies, while it starts too."""
WORK: dict[str, Callable[[Life, ArmedServer], None]] = {
    "writing files": Life.write,
    "hand edits": Life.take_in,
    "forgetting": Life.forget,
    "extraction": Life.extract,
    "indexing": Life.index,
}


@dataclass
class Hunt:
    """Kills in one kind of work, spread evenly over the fail points that it reaches; and what was wrong afterwards."""

    work: str
    template: Life
    folder: Path
    settings: dict[str, str]
    chance: random.Random
    rows: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    broken: list[str] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    reached: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """How often each fail point was in a life without a kill, by the turn of the life: what it does goes by turns."""
    plan: list[str] = field(default_factory=list)
    """Where to kill, one after another."""
    seconds: float = 1.0
    """How long the work takes."""
    turn: int = 0
    killed_at: str = "nothing"
    """Where it was killed last: the step, at which of its times, and in which life."""
    started: bool = False
    """Whether a server has started since, and what was acknowledged is there."""

    @property
    def kills(self) -> int:
        return sum(row["kills"] for row in self.rows.values())

    def run(self, kills: int) -> None:
        measured = self._new_home("measured")
        for _ in range(min(TURNS, kills // TURNS)):
            self._live(measured, None)
        self.plan = [*self.reached, *[AT_RANDOM] * max(1, len(self.reached) // 6)]
        self.chance.shuffle(self.plan)
        while self.kills < kills and self.turn < 3 * kills:
            life = self._new_home(f"from-{self.turn}")
            try:
                for _ in range(min(LIVES_OF_A_HOME, kills - self.kills)):
                    self.turn += 1
                    self._live(life, self.plan[self.turn % len(self.plan)])
                self._last_look(life)
            except (AssertionError, TimeoutError, httpx2.HTTPStatusError) as error:
                column = error.args[0] if isinstance(error, Broken) else "unequal"
                self.rows[self.killed_at.partition(":")[0]][column] += 1
                self.broken.append(
                    f"{self.work}: killed at {self.killed_at}, found in life {life.number} of {life.home}: {error}"
                )
            else:
                shutil.rmtree(life.home.parent)

    def _new_home(self, name: str) -> Life:
        life = copy.deepcopy(self.template)
        life.home = self.folder / self.work.replace(" ", "-") / name / "home"
        life.chance = random.Random(self.chance.random())
        deployment.HOMES.copy(self.template.home, life.home)
        return life

    def _live(self, life: Life, step: str | None) -> None:
        """Start, look, work and be killed; without a `step` to be killed at, learn which there are."""
        life.number += 1
        reached = self.reached.get(step or "", Counter[int]())
        while any(reached.values()) and not reached[life.number % TURNS]:
            life.number += 1
        times = reached[life.number % TURNS] or 1
        # The first times more often: a life may reach it less often than the one that was measured.
        nth = life.chance.randint(1, life.chance.randint(1, times))
        spec = f"{step}:{nth} {life.number}" if step else ""
        by_hand = self.work == "hand edits"
        from_start = self.started and life.chance.random() < (0.5 if by_hand else 0.2)
        from_start |= by_hand and step is None
        self.started = False
        server = ArmedServer(life.home, self.settings)
        server.arm(spec if from_start else "")
        writes = self.work == "writing files"
        # What is sent again may write over it.
        if by_hand or (writes and life.unanswered is None and life.chance.random() < 0.3):
            life.edit_by_hand(latest=life.chance.random() < 0.5)
        began, ended = time.monotonic(), True
        try:
            with server:
                is_due = step is None or life.number % LIVES_OF_A_CHECK == 0
                is_due |= writes and life.may_be_overwritten()
                (life.check if is_due else life.check_acknowledged)(server)
                self.started = True
                if self.work == "forgetting":
                    life.before_forgetting(server)
                if not from_start:
                    server.arm(spec)
                began = time.monotonic()
                with self._meanwhile(life, server, step):
                    WORK[self.work](life, server)
                    drained(server.client)
                ended = server.has_ended()
        except DIED:
            assert server.exit_code == SIGKILLED, (server.exit_code, server.errors()[-3000:])
        if step is None:
            for name, times in server.reached().items():
                self.reached[name][life.number % TURNS] = times
            self.seconds = time.monotonic() - began
        elif ended:
            self.killed_at = spec
            self.rows[step]["kills"] += 1
        else:
            self.missed[step] += 1

    @contextmanager
    def _meanwhile(self, life: Life, server: ArmedServer, step: str | None) -> Iterator[None]:
        """In some lives a person edits a file at a random moment of the work; in some it is killed at one."""
        timers = []
        if life.chance.random() < 0.3:
            timers.append(threading.Timer(life.chance.uniform(0, self.seconds / 2), life.edit_by_hand))
        if step == AT_RANDOM:
            timers.append(threading.Timer(life.chance.uniform(0, self.seconds), server.process.kill))
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.join()

    def _last_look(self, life: Life) -> None:
        server = ArmedServer(life.home, self.settings)
        server.arm("")
        with server:
            life.check(server)
            life.threads_hold(server.client, list(life.said))
            forgotten = server.operate("verify", forgotten=True)
            assert forgotten["ok"], forgotten
            generations = [path for path in (life.home / "index").iterdir() if path.is_dir()]
            assert len(generations) == 1, generations


@pytest.fixture(scope="module")
def settings(running: MortalModel) -> dict[str, str]:
    return {
        **with_server(running.base_url),
        "RECOLLECT_LLM__BASE_URL": running.base_url,
        "RECOLLECT_LLM__MODEL": "stand-in",
        "RECOLLECT_TRANSCRIPT_DELAY_MS": "0",
        "RECOLLECT_STRATEGIES__PROFILE__IDLE_SECONDS": "0.2",
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Life:
    """A home with some of everything."""
    life = Life(tmp_path_factory.mktemp("template") / "home", random.Random(0))
    server = ArmedServer(life.home, settings)
    server.arm("")
    with server:
        for _ in range(3):
            life.extract(server)
            drained(server.client)
            life.write(server)
            life.number += 1
        drained(server.client)
        life.check(server)
        assert server.stop() == 0
    return life


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, id="some", marks=pytest.mark.timeout(600)),
        pytest.param(None, id="all", marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
    ],
)
def test_kills_lose_double_and_mix_up_nothing(
    work: str,
    kills: int | None,
    template: Life,
    settings: dict[str, str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    number = kills or request.config.getoption("kills") // len(WORK)
    hunt = Hunt(work, template, tmp_path, settings, random.Random(f"{work} {number}"))
    hunt.run(number)
    for step, row in sorted(hunt.rows.items()):
        told = [f"{work}: {step}", *(str(row[each]) for each in KILL_HEADINGS[1:])]
        request.node.user_properties.append((KILLS, told))
    assert not hunt.broken, "\n".join(hunt.broken)
    assert hunt.kills == number, f"not reached: {hunt.missed}"


def test_a_message_whose_answer_broke_off_in_a_kill_is_stored_once_when_it_is_sent_again(
    tmp_path: Path, model: StandInModel
) -> None:
    """Without any key, and at OpenAI's door without a thread's id: all that such a client can do is ask again."""
    home, settings = tmp_path / "home", with_backend(model.base_url)
    told = ("hello", "I see: nothing", "count")
    doors = {"native": 1, "native, later": 3, "openai": 1, "openai, later": 3}
    """Each is a user, whose conversation has so many messages when the server is killed."""

    def ask(user: str, count: int) -> AbstractContextManager[httpx2.Response]:
        said = [{"role": ("user", "assistant")[n % 2], "content": told[n - count]} for n in range(count)]
        path, body = "/v1/chat/completions", Json({"user": user, "messages": said})
        if user.startswith("native"):
            path, body = thread_path(user, "messages"), {"user_id": user, "content": said[-1]["content"]}
        return server.client.stream("POST", path, json={**body, "stream": True})

    def stored(user: str) -> list[Json]:
        (thread,) = server.client.get("/api/v1/threads", params={"user_id": user}).json()["threads"]
        return turns(server.client, thread["thread_id"])

    with Server(home, settings) as server, ExitStack() as streams:
        for user in ("native, later", "openai, later"):
            body = {"user": user, "messages": [{"role": "user", "content": told[0]}]}
            named = {"X-Recollect-Thread": quote(user)} if user.startswith("native") else {}
            server.client.post("/v1/chat/completions", json=body, headers=named).raise_for_status()
        model.control("stall", answer="one two three four five six seven eight nine ten", only="chat")
        for user, count in doors.items():
            streams.enter_context(ask(user, count))
        wait_until(lambda: all(stored(user)[-1]["content"] for user in doors), "what streamed is saved")
        server.kill()
    model.control()
    with Server(home, settings) as server:
        for user, count in doors.items():
            with ask(user, count) as answer:
                answer.raise_for_status().read()
            found = stored(user)
            assert [turn["content"] for turn in found[:count]] == list(told[-count:]), user
            assert [turn["status"] for turn in found[count:]] == ["partial", "complete"], user
            assert found[-1]["parent_id"] == found[count - 1]["turn_id"], user
        covered(server.client)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A stopped home with flushed and unflushed messages, and its digest."""
    home = tmp_path_factory.mktemp("stopped") / "home"
    with Server(home, QUICK) as server:
        for number in range(4):
            add(server.client, f"t{number}", [message(f"text {number} {n}", n) for n in range(5)])
        server.client.post("/api/v1/memory/flush", json={"session_id": "t0"}).raise_for_status()
        drained(server.client)
        digest = str(coverage(server.client)["digest"])
        assert server.stop() == 0
    return home, digest


@pytest.fixture
def filled_home(stopped: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    return deployment.HOMES.copy(stopped[0], tmp_path / "home"), stopped[1]


@pytest.mark.parametrize("point", [name for name in FAIL_POINTS if name.startswith("rebuild.")])
def test_a_rebuild_that_is_killed_can_be_run_again_and_its_home_serves_all_it_held(
    filled_home: tuple[Path, str], tmp_path: Path, point: str
) -> None:
    home, digest = filled_home
    killed = recollect(home, "rebuild", settings={"RECOLLECT_FAIL_POINT": point})
    assert killed.returncode == SIGKILLED
    with Server(deployment.HOMES.copy(home, tmp_path / "served"), QUICK) as server:
        assert coverage(server.client)["digest"] == digest
    rebuilt = recollect_json(home, "rebuild")
    assert rebuilt["verification"]["coverage"]["default"]["digest"] == digest


@pytest.mark.parametrize("point", [name for name in FAIL_POINTS if name.startswith("restore.")])
def test_a_restore_that_is_killed_can_be_run_again(
    filled_home: tuple[Path, str], tmp_path: Path, point: str
) -> None:
    home, digest = filled_home
    archive = tmp_path / "backup.tar.gz"
    recollect_json(home, "backup", str(archive))
    restored = tmp_path / "restored"
    killed = recollect(restored, "restore", str(archive), settings={"RECOLLECT_FAIL_POINT": point})
    assert killed.returncode == SIGKILLED
    verified = recollect_json(restored, "restore", str(archive))
    assert verified["coverage"]["default"]["digest"] == digest
