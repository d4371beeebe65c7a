"""The same conversations, remembered without a kill and with kills at every step, leave the same vault, byte for byte."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import httpx2
import pytest

from tests.http_client import QUICK, Json, add, coverage, drained
from tests.processes import Server
from tests.remembering import DAY, MAY_8, TALK, MortalModel, entries, remembering, said, vault_files
from tests.standins.tool_tasks import tool_task

pytestmark = pytest.mark.slow

SIGKILLED = -9
STEPS = (
    "journal.in_transaction",
    "journal.committed",
    "jobs.claimed",
    "jobs.handled",
    "jobs.completed",
    "boundary.decided",
    "boundary.closed",
    "transcribe.planned",
    "transcribe.recorded",
    "vault.written_beside",
    "vault.synced",
    "vault.renamed",
    "remember.applied",
    "skill.announced",
    "extract.answered",
    "extract.answer_kept",
    "skill.answered",
    "skill.answer_kept",
)
TIMES = (1, 2)
"""At its n-th time in each start: the first kill comes early, the later ones ever deeper into the work."""
SETTINGS = {
    **QUICK,
    "RECOLLECT_MEMORIZE__PAUSE_SECONDS": "30",
    "RECOLLECT_STRATEGIES__PROFILE__IDLE_SECONDS": "0.2",
}


MOVED = (
    ("user", "I live in Lisbon. I have a dog called Rex."),
    ("assistant", "How is Rex?"),
    ("user", "Fine! I like long walks. I'm going to Porto on 9 August 2026."),
)
CONVERSATIONS: tuple[tuple[str, str, list[Json]], ...] = (
    ("ann", "t1", said(TALK)),
    ("ann", "t2", said(MOVED, prefix="n", start=MAY_8 + 60 * DAY)),
    ("bob", "w1", tool_task("w", MAY_8)),
    (
        "bob",
        "w2",
        tool_task("x", MAY_8 + DAY, "Free some space on the full disk of the database server"),
    ),
)


def settings_of(model: MortalModel) -> dict[str, str]:
    named = {"RECOLLECT_LLM__BASE_URL": model.base_url, "RECOLLECT_LLM__MODEL": "stand-in"}
    return {**SETTINGS, **named}


def tell_all(server: Server) -> None:
    """Every conversation, sent again where it may have been sent before, and all that is made of it."""
    for user, thread, messages in CONVERSATIONS:
        add(server.client, thread, messages, user_id=user)
        body = {"session_id": thread, "timeout": 60}
        flushed = server.client.post("/api/v1/memory/flush", json=body).raise_for_status().json()
        assert flushed["status"] == "done", flushed
    drained(server.client)


def undisturbed(home: Path, model: MortalModel) -> None:
    with Server(home, settings_of(model)) as server:
        tell_all(server)
        assert server.stop() == 0


def killed_again_and_again(home: Path, model: MortalModel, step: str, at: Sequence[int]) -> int:
    """Start, tell all and be killed, ever later, until a start survives. Returns the number of kills."""
    kills = 0
    for times in at:
        server = Server(home, {**settings_of(model), "RECOLLECT_FAIL_POINT": f"{step}:{times}"})
        try:
            with server:
                tell_all(server)
                assert server.stop() == 0
                return kills
        except (httpx2.TransportError, RuntimeError, TimeoutExpired):
            # At a request, or already at the start, which writes to the journal.
            assert server.exit_code == SIGKILLED, server.errors()[-2000:]
            kills += 1
    with Server(home, settings_of(model)) as last:
        tell_all(last)
        assert coverage(last.client)["missing"] == 0
        assert last.stop() == 0
    return kills


def known(home: Path) -> list[Any]:
    """The journal's entries; how often each was changed may differ."""

    async def read() -> list[Any]:
        async with remembering(home) as opened:
            found = await entries(opened)
        return [
            (each.entry_id, each.owner, each.kind, each.entry, each.sources, each.cell, each.path)
            for each in found
        ]

    return asyncio.run(read())


@pytest.fixture(scope="module")
def by_model(tmp_path_factory: pytest.TempPathFactory, running: MortalModel) -> Path:
    home = tmp_path_factory.mktemp("model") / "home"
    undisturbed(home, running)
    return home


def assert_same(home: Path, undisturbed_home: Path) -> None:
    mine, theirs = vault_files(home), vault_files(undisturbed_home)
    assert mine.keys() == theirs.keys()
    different = {
        path: (mine[path].decode(), theirs[path].decode()) for path in mine if mine[path] != theirs[path]
    }
    assert different == {}
    assert known(home) == known(undisturbed_home)


def test_the_conversations_make_every_kind_of_memory(by_model: Path) -> None:
    kinds = {each[2] for each in known(by_model)}
    assert kinds == {"episodes", "cases", "facts", "foresight", "profile"}
    assert [path for path in vault_files(by_model) if path.endswith("/SKILL.md")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", STEPS)
def test_by_a_model_kills_at_this_step_change_no_byte(
    tmp_path: Path, step: str, model: MortalModel, by_model: Path
) -> None:
    assert killed_again_and_again(tmp_path / "home", model, step, TIMES) > 0, f"{step} was never reached"
    assert_same(tmp_path / "home", by_model)
