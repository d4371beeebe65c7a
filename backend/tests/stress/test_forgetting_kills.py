"""A real server, killed with SIGKILL at every step of a forgetting: after a restart the word is nowhere."""

from pathlib import Path

import pytest

from tests import deployment
from tests.forgetting import files_with_the_word, fill, settings
from tests.http_client import drained
from tests.processes import Server, StandInModel, recollect_json
from tests.stress.utils import SIGKILLED, used_until_killed

ANYWHERE = (
    "journal.in_transaction", "journal.committed", "jobs.claimed", "jobs.handled:2", "vault.written_beside",
    "vault.renamed", "vault.renamed:2", "vault.renamed:3", "index.removed", "index.removed:2", "index.compacting",
    "index.compacted", "index.compacted:2",
)  # fmt: skip
OF_TURNS = (
    "forget.tombstones_written", "forget.transcript_rewritten", "forget.late_ones_gone", "forget.settled",
    "forget.overwritten",
)  # fmt: skip
TURN = "/api/v1/threads/t1/turns/t-1?answers=true"
CASES = [
    *((TURN, point) for point in (*OF_TURNS, *ANYWHERE)),
    *(
        ("/api/v1/threads/t1", point)
        for point in ("forget.folder_removed", "forget.late_ones_gone", "forget.settled", "index.removed:2")
    ),
    *(
        ("/api/v1/users/ann", point)
        for point in ("forget.folder_removed", "forget.tombstones_written", "forget.folder_removed:2", "vault.renamed")
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, running: StandInModel) -> Path:
    """A stopped home in which the word is everywhere."""
    home = tmp_path_factory.mktemp("filled") / "home"
    with Server(home, settings(running)) as server:
        fill(server.client, running)
        assert server.stop() == 0
    return home


@pytest.mark.parametrize(("path", "point"), CASES)
def test_killed_at_this_step_nothing_is_left_after_a_restart(
    filled: Path, model: StandInModel, tmp_path: Path, path: str, point: str
) -> None:
    home = tmp_path / "home"
    deployment.HOMES.copy(filled, home)
    assert files_with_the_word(home)
    given = {**settings(model), "RECOLLECT_FAIL_POINT": point}
    assert used_until_killed(home, given, lambda server: server.client.delete(path)) == SIGKILLED
    with Server(home, settings(model)) as server:
        assert server.client.delete(path).status_code in (200, 404)
        drained(server.client)
        assert files_with_the_word(home) == []
        assert recollect_json(home, "verify", "--forgotten")["problems"] == []
