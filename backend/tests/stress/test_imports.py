"""An import that is killed in the middle, and run again: every message is there once, in its order."""

import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import deployment, forking
from tests.cache_figures import REMARK
from tests.forking import BACKEND
from tests.processes import Server, environment, recollect, recollect_json, wait_until
from tests.standins import made_exports as made
from tests.stress.utils import SIGKILLED

USER = "ann"
PREFIXES = {
    "ChatGPT": "chatgpt-conversation",
    "Claude": "claude-conversation",
    "Open WebUI": "openwebui-conversation",
    "Claude Code": "claude-code-session",
}
REAL = ("env",)
"""A process of its own, not forked from one that has imported everything: its memory is what a user sees."""
Expected = dict[str, list[tuple[str, str]]]
"""By thread, its messages: ids and texts."""


def make_export(path: Path, conversations: int, messages: int) -> Expected:
    """A quarter in each form, in one archive."""
    expected: Expected = {}
    quarter = conversations // len(PREFIXES)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for place, (form, prefix) in enumerate(PREFIXES.items()):
            numbers = range(place * quarter, (place + 1) * quarter)
            for number in numbers:
                told = [(f"c{number}-m{each}", made.words(number, each)) for each in range(messages)]
                expected[f"{prefix}-{number}"] = told
                if form == "Claude Code":
                    lines = made.lines(made.claude_code(number, messages))
                    archive.writestr(f"projects/session-{number}.jsonl", lines)
            if form in made.MAKERS:
                with archive.open(f"{form}/conversations.json", "w") as file:
                    for piece in made.written(made.MAKERS[form](number, messages) for number in numbers):
                        file.write(piece)
    return expected


def stored(home: Path) -> int:
    return sum(count for (count,) in deployment.HOMES.rows(home, "SELECT count(*) FROM turns"))


def check(home: Path, expected: Expected) -> None:
    """Every message is there once, in its thread, in its order."""
    found: Expected = {}
    for thread, message_id, text in deployment.HOMES.rows(
        home,
        "SELECT h.thread_id, t.message_id, t.content FROM turns t JOIN threads h ON h.pk = t.thread_pk"
        f" WHERE h.user_id = '{USER}' ORDER BY h.pk, t.position",
    ):
        found.setdefault(thread, []).append((message_id, text))
    assert found == expected, f"{sum(map(len, found.values()))} messages in {len(found)} threads"


def test_an_import_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "export.zip"
    expected = make_export(file, 20, 6)
    command = ("import", str(file), "--user", USER)
    killed = recollect(home, *command, settings={"RECOLLECT_FAIL_POINT": "import.added:5"})
    assert killed.returncode == SIGKILLED, killed.stderr
    first = stored(home)
    with Server(home, {"RECOLLECT_FAIL_POINT": "import.added:6"}) as server:
        refused = forking.run("recollect", *command, env=environment(home), timeout=60)
        assert (refused.returncode, "the server does not answer" in refused.stderr) == (1, True)
        server.wait_for_end()
    second = stored(home)
    assert (first, second) == (5 * 6, 11 * 6)
    report = recollect_json(home, *command)
    assert (report["messages"], report["already"]) == (20 * 6 - second, {"messages": second})
    check(home, expected)


class Command:
    """`recollect import`, as a process."""

    def __init__(self, home: Path, file: Path) -> None:
        self.began = time.perf_counter()
        self.peak = 0.0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "recollect", "import", str(file), "--user", USER, "--json"],
            cwd=BACKEND,
            env=environment(home),
            stdout=subprocess.PIPE,
            text=True,
        )

    def is_over(self) -> bool:
        if self.process.poll() is None:
            self.peak = max(self.peak, peak(self.process.pid))
            return False
        return True

    def end(self) -> Any:
        """Its report."""
        wait_until(self.is_over, "the import ends", seconds=3600, every=0.1)
        told, _ = self.process.communicate()
        assert self.process.returncode == 0, "the import failed"
        return json.loads(told)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def peak(pid: int) -> float:
    """The most memory that a process had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), 0.0)


def kill_in_the_middle(home: Path, file: Path, total: int) -> None:
    """Three times: the command, the server under it, and a command that has the home open itself."""

    def import_to(fifths: int) -> Command:
        command = Command(home, file)
        wait_until(lambda: stored(home) > total * fifths // 5, f"{fifths} fifths are there", seconds=600)
        return command

    with Server(home, prefix=REAL) as server:
        import_to(1).kill()
        command = import_to(2)
        server.kill()
        assert command.process.wait(60) == 1, "a command whose server died says so"
        command.kill()
    import_to(3).kill()


def add_rate(home: Path, expected: Expected) -> float:
    """Messages a second of a client that adds a conversation with each call."""
    with Server(home, prefix=REAL) as server:
        began = time.perf_counter()
        for thread, told in expected.items():
            messages = [
                {"message_id": name, "sender_id": USER, "role": "user", "timestamp": place, "content": text}
                for place, (name, text) in enumerate(told)
            ]
            body = {"session_id": thread, "user_id": USER, "messages": messages}
            while (answer := server.client.post("/api/v1/memory/add", json=body)).status_code == 429:
                time.sleep(float(answer.headers["Retry-After"]))
            answer.raise_for_status()
        return sum(map(len, expected.values())) / (time.perf_counter() - began)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_50_000_messages_survive_three_kills_and_take_no_more_than_they_may(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    file, total = tmp_path / "export.zip", 2000 * 25
    expected = make_export(file, 2000, 25)
    killed, imported = tmp_path / "killed", tmp_path / "imported"
    kill_in_the_middle(killed, file, total)
    with Server(killed, prefix=REAL) as server:
        report = Command(killed, file).end()
        assert report["messages"] + report["already"]["messages"] == total, report
        covered = server.client.get("/api/v1/coverage").raise_for_status().json()
        assert (covered["messages"], covered["missing"], covered["doubled"]) == (total, 0, 0), covered
    check(killed, expected)
    adding = add_rate(tmp_path / "added", expected)
    with Server(imported, prefix=REAL) as server:
        command = Command(imported, file)
        assert command.end()["messages"] == total
        rate, memory = total / (time.perf_counter() - command.began), (peak(server.pid), command.peak)
    check(imported, expected)
    told = f"{rate:.0f} messages/s, memory/add {adding:.0f}; MB of server and command: {memory}"
    record_property(REMARK, f"imports: {told}")
    assert max(memory) < 600
    assert rate >= 0.5 * adding
