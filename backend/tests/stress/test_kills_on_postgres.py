"""A server whose journal is in PostgreSQL: killed again and again, and its database ended under it."""

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.failpoints import FAIL_POINTS
from tests.http_client import add, contents, drained, message
from tests.postgres import Cluster, own_cluster
from tests.processes import Server
from tests.remembering import MortalModel
from tests.searching import with_server
from tests.stress.lives import ArmedServer, Life
from tests.stress.test_kills import DIED, WORK
from tests.stress.utils import SIGKILLED, covered

KILLS = 20
WORKS = [work for work in WORK if work != "forgetting"]
STEPS = [step for step in FAIL_POINTS if step.partition(".")[0] in ("journal", "jobs")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture
def settings(model: MortalModel, cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    return {
        **with_server(model.base_url),
        "RECOLLECT_DATABASE_URL": cluster.url(str(tmp_path)),
        "RECOLLECT_LLM__BASE_URL": model.base_url,
        "RECOLLECT_LLM__MODEL": "stand-in",
        "RECOLLECT_TRANSCRIPT_DELAY_MS": "0",
        "RECOLLECT_STRATEGIES__PROFILE__IDLE_SECONDS": "0.2",
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_kills_lose_double_and_mix_up_nothing(settings: dict[str, str], tmp_path: Path) -> None:
    """Of the server, in the middle of its work."""
    life, chance = Life(tmp_path / "home", random.Random(7)), random.Random(7)
    server = ArmedServer(life.home, settings)
    server.arm("")
    with server:
        for life.number in range(3):
            life.extract(server)
            drained(server.client)
            life.write(server)
        drained(server.client)
        server.kill()
    kills = 0
    for life.number in range(3, 3 * KILLS):
        server = ArmedServer(life.home, settings)
        server.arm("")
        try:
            with server:
                (life.check if life.number % 6 == 0 else life.check_acknowledged)(server)
                server.arm(f"{chance.choice(STEPS)}:{chance.randint(1, 8)} {life.number}")
                WORK[chance.choice(WORKS)](life, server)
                drained(server.client)
        except DIED:
            assert server.exit_code == SIGKILLED, (server.exit_code, server.errors()[-3000:])
            kills += 1
        if kills == KILLS:
            break
    server = ArmedServer(life.home, settings)
    server.arm("")
    with server:
        life.check(server)
        life.threads_hold(server.client, list(life.said))
    assert kills == KILLS


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGQUIT,
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_restart_of_the_database_costs_retries_and_no_message(
    settings: dict[str, str], cluster: Cluster, tmp_path: Path, how: signal.Signals
) -> None:
    with Server(tmp_path / "home", settings) as server:
        told: list[str] = []
        for number in range(12):
            if number % 4 == 1:
                cluster.stop(how)
                cluster.start()
            told.append(f"tea{number}")
            add(server.client, "t1", [message(told[-1], number, message_id=f"m{number}")])
        assert contents(server.client, "t1") == told
        covered(server.client)
        assert server.client.get("/health").status_code == 200


def test_without_its_database_a_server_is_not_ready_and_says_when_to_come_again(
    settings: dict[str, str], cluster: Cluster, tmp_path: Path
) -> None:
    with Server(tmp_path / "home", settings | {"RECOLLECT_DATABASE_WAIT_SECONDS": "0.5"}) as server:
        cluster.stop()
        try:
            health = server.client.get("/health")
            assert health.status_code == 503
            assert "PostgreSQL" in health.text
            assert "hunter2" not in health.text
            body = {"session_id": "t1", "messages": [message("lost", message_id="m1")]}
            refused = server.client.post("/api/v1/memory/add", json=body)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        finally:
            cluster.start()
        add(server.client, "t1", [message("kept", message_id="m2")])
        assert contents(server.client, "t1") == ["kept"]
        assert "hunter2" not in server.errors()
