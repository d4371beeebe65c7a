"""A real server, killed with SIGKILL at every named step of the pipeline.

Promise 1 after every restart: what was acknowledged is covered exactly once, in order, and nothing is stuck.
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from recollect.failpoints import FAIL_POINTS
from tests.chatting import with_backend
from tests.http_client import QUICK, Json, add, contents, coverage, drained, message, thread_path, turns
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until
from tests.stress.utils import SIGKILLED, covered, used_until_killed, verified

BATCH = 3
BY_COMMAND = tuple(name for name in FAIL_POINTS if name.startswith(("rebuild.", "restore.", "upgrade.")))
BY_IMPORT = ("import.added", "webhook.sent")
"""The steps of `test_imports.py` and `test_webhooks.py`."""
BY_INDEX = tuple(name for name in FAIL_POINTS if name.startswith(("index.", "reindex.")))
"""The steps of `test_index_kills.py`."""
BY_EDIT = tuple(name for name in FAIL_POINTS if name.startswith("edits."))
"""The steps of `test_hand_edits.py`."""
BY_MEMORY = tuple(name for name in FAIL_POINTS if name.startswith(("extract.", "remember.", "skill.")))
"""The steps of `test_memory_kills.py`."""
BY_FORGETTING = (
    "forget.transcript_rewritten", "forget.late_ones_gone", "forget.settled", "forget.overwritten",
)  # fmt: skip
"""The steps of `test_forgetting_kills.py`."""
BY_SERVER = tuple(
    name
    for name in FAIL_POINTS
    if name not in BY_COMMAND + BY_IMPORT + BY_INDEX + BY_EDIT + BY_MEMORY + BY_FORGETTING
)


@dataclass
class Writer:
    """One client that adds batches to threads of its own and sends again what got no answer."""

    name: str
    acknowledged: dict[str, list[list[str]]] = field(default_factory=dict)
    """Texts of the batches that were answered, in order, by thread."""
    failed: list[str] = field(default_factory=list)
    _unanswered: tuple[str, list[Json]] | None = None
    _count: int = 0

    def write_until_dead(self, address: str, stop: threading.Event, pause: float = 0.0) -> None:
        with httpx2.Client(base_url=address, timeout=30, trust_env=False) as client:
            while not stop.wait(pause) and self.write(client):
                pass

    def write(self, client: httpx2.Client) -> bool:
        """Send one batch; False when no answer came."""
        if self._unanswered is None:
            self._unanswered = self._next_batch()
        thread, batch = self._unanswered
        try:
            add(client, thread, batch)
        except httpx2.TransportError:
            return False
        except httpx2.HTTPStatusError as error:
            self.failed.append(error.response.text)
            return False
        self.acknowledged.setdefault(thread, []).append([item["content"] for item in batch])
        self._unanswered = None
        return True

    def settle(self, client: httpx2.Client) -> None:
        """Send the batch that got no answer once more, so that it is known what the thread must hold."""
        if self._unanswered is not None:
            assert self.write(client)

    def finds_all(self, client: httpx2.Client) -> None:
        """Every message that was answered is there once, and each batch in a row; nothing else is."""
        for thread, batches in self.acknowledged.items():
            stored = contents(client, thread)
            assert sorted(stored) == sorted(text for batch in batches for text in batch)
            for batch in batches:
                start = stored.index(batch[0])
                assert stored[start : start + len(batch)] == batch

    def _next_batch(self) -> tuple[str, list[Json]]:
        thread = f"{self.name}-{self._count // 40 % 3}"
        batch = []
        for _ in range(BATCH):
            self._count += 1
            text = f"{self.name} says {self._count}"
            batch.append(message(text, self._count, message_id=f"{self.name}-{self._count}"))
        return thread, batch


@pytest.fixture(scope="module")
def home_for_points(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One home over all fail points: starts are cheap, and damage done at one point would show at the next."""
    home = tmp_path_factory.mktemp("points") / "home"
    yield home
    with Server(home, QUICK) as server:
        drained(server.client)
        covered(server.client)
        verified(server)


@pytest.mark.parametrize("point", BY_SERVER)
def test_kills_at_this_step_lose_and_double_nothing(home_for_points: Path, point: str) -> None:
    writer = Writer(point)
    forgotten: list[str] = []

    def use_all_of_the_pipeline(server: Server) -> None:
        for number in range(40):
            if not writer.write(server.client):
                break
            if number % 3 == 2:
                flush_all(server.client, writer)
            if "forget" in point:
                forget_one(server.client, f"{point}-soon-gone-{len(forgotten)}", forgotten)

    for spec in (point, f"{point}:3"):
        settings = {**QUICK, "RECOLLECT_FAIL_POINT": spec}
        assert used_until_killed(home_for_points, settings, use_all_of_the_pipeline) == SIGKILLED, spec
    with Server(home_for_points, QUICK) as server:
        writer.settle(server.client)
        flush_all(server.client, writer)
        drained(server.client)
        writer.finds_all(server.client)
        covered(server.client)
        assert [name for name in forgotten if exists(server.client, name)] == []


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


def forget_one(client: httpx2.Client, thread: str, forgotten: list[str]) -> None:
    """Add a thread, delete it, and note it as soon as that was answered."""
    add(client, thread, [message("soon gone")])
    client.delete(thread_path(thread)).raise_for_status()
    forgotten.append(thread)


def exists(client: httpx2.Client, thread: str) -> bool:
    """In the journal; what the vault holds beyond it is noted by `verify` at the end."""
    return client.get(thread_path(thread)).status_code == 200


def flush_all(client: httpx2.Client, writer: Writer) -> None:
    for thread in writer.acknowledged:
        body = {"session_id": thread, "timeout": 60}
        assert client.post("/api/v1/memory/flush", json=body).raise_for_status().json()["status"] == "done"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A stopped home with flushed and unflushed messages, and its digest."""
    home = tmp_path_factory.mktemp("template") / "home"
    with Server(home, QUICK) as server:
        for number in range(4):
            add(server.client, f"t{number}", [message(f"text {number} {n}", n) for n in range(5)])
        server.client.post("/api/v1/memory/flush", json={"session_id": "t0"}).raise_for_status()
        drained(server.client)
        digest = str(coverage(server.client)["digest"])
        assert server.stop() == 0
    return home, digest


@pytest.fixture
def filled_home(template: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    shutil.copytree(template[0], tmp_path / "home")
    return tmp_path / "home", template[1]


@pytest.mark.parametrize("point", [name for name in BY_COMMAND if name.startswith("rebuild.")])
def test_a_rebuild_that_is_killed_can_be_run_again_and_its_home_serves_all_it_held(
    filled_home: tuple[Path, str], tmp_path: Path, point: str
) -> None:
    home, digest = filled_home
    killed = recollect(home, "rebuild", settings={"RECOLLECT_FAIL_POINT": point})
    assert killed.returncode == SIGKILLED
    with Server(shutil.copytree(home, tmp_path / "served"), QUICK) as server:
        assert coverage(server.client)["digest"] == digest
    rebuilt = recollect_json(home, "rebuild")
    assert rebuilt["verification"]["coverage"]["default"]["digest"] == digest


@pytest.mark.parametrize("point", [name for name in BY_COMMAND if name.startswith("restore.")])
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
