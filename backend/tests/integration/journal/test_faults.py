"""Disks that fill up, turn read-only or go, and models that fail: real mounts, in a namespace of the server's own.

The server runs under `unshare`, which mounts a small tmpfs where the test wants it; what happens to that disk
later (filled, freed, remounted) happens through `nsenter` into the same namespace.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.disks import Disk, needs_mounts, served_on
from tests.http_client import QUICK, Json, add, contents, coverage, drained, jobs, message
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until

pytestmark = pytest.mark.slow

BACK_SECONDS = 30


def health(client: httpx2.Client) -> Json:
    answer: Json = client.get("/health").json()
    return answer


def says_degraded(client: httpx2.Client, why: str) -> None:
    """Wait until health gives this reason."""

    def given() -> bool:
        answer = health(client)
        return answer["status"] == "degraded" and why in " ".join(answer["degraded"])

    wait_until(given, f"degraded: {why}", seconds=BACK_SECONDS)


def transcript_failed(client: httpx2.Client, thread_id: str) -> bool:
    """Whether it was tried to write a thread's transcript."""
    return any(
        (job["kind"], job["thread_id"]) == ("transcribe", thread_id) and job["error"] for job in jobs(client)
    )


def caught_up(server: Server, disk: Disk) -> None:
    """Every job done, nothing dead, and all of it in the vault."""
    drained(server.client, seconds=BACK_SECONDS)
    verified = disk.command(server.home, "verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert '"pending": 0' in verified.stdout
    wait_until(lambda: health(server.client)["status"] == "ok", "a sound server", seconds=BACK_SECONDS)


@needs_mounts
class TestTheVaultsDisk:
    @pytest.fixture(params=["full", "read-only"])
    def failing(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Disk, str]]:
        """A server with one message in its vault, whose disk then fails."""
        home = tmp_path / "home"
        with served_on(home, home / "vault") as server:
            disk = Disk(server, home / "vault")
            add(server.client, "before", [message("while all was well")])
            drained(server.client)
            disk.fill() if request.param == "full" else disk.remount("ro")
            yield server, disk, request.param

    def test_adds_succeed_health_says_why_and_everything_catches_up(
        self, failing: tuple[Server, Disk, str]
    ) -> None:
        server, disk, how = failing
        for number in range(20):
            add(server.client, f"t{number % 4}", [message(f"text {number} " + "x" * 2000, number)])
        add(server.client, "before", [message("more", 1)])
        says_degraded(server.client, how)
        assert jobs(server.client, state="dead") == []
        assert coverage(server.client)["missing"] == 0
        disk.free() if how == "full" else disk.remount("rw")
        caught_up(server, disk)
        assert contents(server.client, "before") == ["while all was well", "more"]

    def test_a_stop_in_the_middle_loses_nothing(self, failing: tuple[Server, Disk, str]) -> None:
        server, _, _ = failing
        add(server.client, "t1", [message("while it failed")])
        says_degraded(server.client, "vault")
        answer = server.client.post("/api/v1/memory/flush", json={"session_id": "t1", "timeout": 1})
        # The messages are closed into memcells; what is made of them waits for its place in the vault.
        assert (answer.status_code, answer.json()["status"]) == (202, "pending")
        assert answer.json()["buffered"] == 0
        assert server.stop() == 0
        assert "Traceback" not in server.errors()
        verified = recollect(server.home, "verify", "--json")
        assert '"missing": 0' in verified.stdout

    def test_forgetting_is_finished_when_the_disk_is_back(self, failing: tuple[Server, Disk, str]) -> None:
        server, disk, how = failing
        server.client.delete("/api/v1/threads/before").raise_for_status()
        assert server.client.get("/api/v1/threads/before").status_code == 404
        disk.free() if how == "full" else disk.remount("rw")
        caught_up(server, disk)
        assert [path for path in disk.lists() if "/threads/before/" in path] == []


@needs_mounts
class TestTheJournalsDisk:
    @pytest.fixture
    def full(self, tmp_path: Path) -> Iterator[tuple[Server, Disk]]:
        """A server with one message, whose journal then has no room left."""
        home, disk_folder = tmp_path / "home", tmp_path / "journal"
        settings = {"RECOLLECT_DATABASE_URL": f"sqlite:///{disk_folder}/journal.db"}
        with served_on(home, disk_folder, settings) as server:
            disk = Disk(server, disk_folder)
            add(server.client, "t1", [message("while there was room")])
            drained(server.client)
            disk.fill()
            yield server, disk

    @staticmethod
    def add_until_refused(client: httpx2.Client) -> tuple[httpx2.Response, list[str]]:
        """The first refusal, and the texts that were taken before it: a log has some room of its own."""
        taken: list[str] = []
        for number in range(400):
            text = f"text {number} " + "x" * 20_000
            body = {"session_id": "t1", "messages": [message(text, number)]}
            answer = client.post("/api/v1/memory/add", json=body)
            if answer.is_error:
                return answer, taken
            taken.append(text)
        raise AssertionError("a full disk refused nothing")

    def test_an_add_fails_with_507_and_a_clear_message(self, full: tuple[Server, Disk]) -> None:
        refused, _ = self.add_until_refused(full[0].client)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (507, "storage_unavailable")
        assert "full" in error["message"]

    def test_nothing_is_half_stored_and_adds_succeed_when_there_is_room(
        self, full: tuple[Server, Disk]
    ) -> None:
        server, disk = full
        _, taken = self.add_until_refused(server.client)
        assert coverage(server.client)["messages"] == 1 + len(taken)
        disk.free()
        wait_until(
            lambda: (
                server.client.post(
                    "/api/v1/memory/add", json={"session_id": "t1", "messages": [message("again", 999)]}
                ).status_code
                == 202
            ),
            "an add that succeeds",
            seconds=BACK_SECONDS,
        )
        assert contents(server.client, "t1") == ["while there was room", *taken, "again"]
        drained(server.client, seconds=BACK_SECONDS)
        assert jobs(server.client, state="dead") == []

    def test_the_server_stays_alive_and_readable(self, full: tuple[Server, Disk]) -> None:
        server, _ = full
        self.add_until_refused(server.client)
        assert server.client.get("/health/live").status_code == 200
        assert contents(server.client, "t1")[0] == "while there was room"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("written") / "home"
    with Server(home, QUICK) as server:
        add(server.client, "t1", [message("written before")])
        drained(server.client)
        server.stop()
    return home


class TestAVaultThatIsMissingAtTheStart:
    @pytest.fixture
    def without(self, written: Path, tmp_path: Path) -> Iterator[Server]:
        home = tmp_path / "home"
        shutil.copytree(written, home)
        (home / "vault").rename(home / "elsewhere")
        with Server(home, QUICK) as server:
            yield server

    def test_the_server_is_degraded_and_makes_no_new_one(self, without: Server) -> None:
        add(without.client, "t2", [message("said meanwhile")])
        says_degraded(without.client, "vault is missing")
        wait_until(lambda: transcript_failed(without.client, "t2"), "the transcript was tried")
        assert not (without.home / "vault").exists()

    def test_everything_catches_up_when_it_is_back(self, without: Server) -> None:
        add(without.client, "t1", [message("said meanwhile", 1)])
        says_degraded(without.client, "vault")
        (without.home / "elsewhere").rename(without.home / "vault")
        drained(without.client, seconds=BACK_SECONDS)
        verified = recollect_json(without.home, "verify")
        assert (verified["ok"], verified["pending"], verified["notes"]) == (True, 0, [])

    def test_an_empty_folder_in_its_place_is_not_taken_for_it(self, without: Server) -> None:
        (without.home / "vault").mkdir()
        add(without.client, "t1", [message("said meanwhile", 1)])
        says_degraded(without.client, "vault is missing")
        assert list((without.home / "vault").iterdir()) == []

    def test_a_person_can_have_it_written_again(self, without: Server) -> None:
        repaired = recollect_json(without.home, "verify", "--repair")
        assert repaired["repaired"] == 1
        assert recollect_json(without.home, "verify")["ok"]


@needs_mounts
def test_a_vault_that_goes_while_the_server_runs_is_not_begun_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with served_on(home, home / "vault") as server:
        disk = Disk(server, home / "vault")
        add(server.client, "t1", [message("written before")])
        drained(server.client)
        disk.unmount()
        add(server.client, "t1", [message("said meanwhile", 1)])
        says_degraded(server.client, "vault is missing")
        assert disk.lists() == []


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, StandInModel]]:
    """A server that asks a model; each test has a thread of its own."""
    with StandInModel() as model:
        settings = {
            **QUICK,
            **NO_MEMORIES,
            "RECOLLECT_LLM__BASE_URL": model.base_url,
            "RECOLLECT_MEMORIZE__MODEL_TIMEOUT_SECONDS": "1",
        }
        with Server(tmp_path_factory.mktemp("asking") / "home", settings) as server:
            yield server, model


NO_MEMORIES = {"RECOLLECT_MEMORIZE__MODE": "agent"}
"""What a model that fails does to extraction is told in `test_extraction_faults.py`."""


class TestAModelThatFails:
    # The last one ends the model's process.
    @pytest.mark.parametrize("mode", ["error", "rude", "truncated", "wrong_schema", "silent", "die"])
    def test_messages_become_memcells_all_the_same(
        self, asking: tuple[Server, StandInModel], mode: str
    ) -> None:
        server, model = asking
        model.control(mode)
        add(server.client, mode, [message(f"text {n}", n) for n in range(4)])
        add(server.client, mode, [message(f"much later {n}", 7200 + n) for n in range(4)])
        answer = server.client.post("/api/v1/memory/flush", json={"session_id": mode})
        assert answer.json()["status"] == "done"
        drained(server.client, seconds=BACK_SECONDS)
        counted = coverage(server.client, session_id=mode)
        assert (counted["celled"], counted["buffered"], counted["missing"]) == (8, 0, 0)

    def test_rules_cut_at_a_gap_where_there_is_no_model(self, tmp_path: Path) -> None:
        settings = {**QUICK, **NO_MEMORIES, "RECOLLECT_LLM__BASE_URL": "http://127.0.0.1:9/v1"}
        with Server(tmp_path / "home", settings) as server:
            add(server.client, "t1", [message("morning"), message("hours later", 7200)])
            answer = server.client.post("/api/v1/memory/flush", json={"session_id": "t1"})
            cells = answer.json()["memcells"]
        assert [(len(cell["message_ids"]), cell["reason"]) for cell in cells] == [(1, "gap"), (1, "flush")]
