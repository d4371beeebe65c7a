"""Imports a large export that the script makes itself, with kills in the middle: `PYTHONPATH=backend python scripts/try_imports.py`.

Prints what it takes beside `memory/add` with the same messages: messages a second, and the most memory that server and
command had. It fails where a message is missing or doubled, or out of order.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.forking import BACKEND
from tests.processes import Server, environment, wait_until
from tests.standins import made_exports as made

ADD = "/api/v1/memory/add"
USER = "ann"
REAL = ("env",)
"""A process of its own, not forked from one that has imported everything: its memory is what a user sees."""
Expected = dict[str, list[tuple[str, str]]]
"""By thread, its messages: ids and texts."""


def conversations(number: int, messages: int) -> Iterator[tuple[str, str, int]]:
    """Form, thread and number of each conversation, in the order of the export."""
    prefixes = {"ChatGPT": "chatgpt", "Claude": "claude", "Open WebUI": "openwebui"}
    for each in range(number):
        form = ("ChatGPT", "Claude", "Open WebUI", "Claude Code")[each * 4 // number]
        name = (
            f"claude-code-session-{each}"
            if form == "Claude Code"
            else f"{prefixes[form]}-conversation-{each}"
        )
        yield form, name, each


def make_export(path: Path, number: int, messages: int) -> Expected:
    """A quarter in each form, in one archive."""
    expected: Expected = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        forms: dict[str, list[int]] = {}
        for form, thread, each in conversations(number, messages):
            forms.setdefault(form, []).append(each)
            expected[thread] = [(f"c{each}-m{place}", made.words(each, place)) for place in range(messages)]
        for form, numbers in forms.items():
            if form == "Claude Code":
                for each in numbers:
                    archive.writestr(
                        f"projects/session-{each}.jsonl",
                        made.lines(made.claude_code(each, messages)),
                    )
                continue
            with archive.open(f"{form}/conversations.json", "w") as file:
                for piece in made.written(made.MAKERS[form](each, messages) for each in numbers):
                    file.write(piece)
    return expected


def stored(home: Path) -> int:
    """Messages in the journal, whoever has it open."""
    if not (home / "journal.db").exists():
        return 0
    try:
        with sqlite3.connect(f"file:{home / 'journal.db'}?mode=ro", uri=True) as journal:
            return int(journal.execute("SELECT count(*) FROM turns").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def peak(pid: int) -> float:
    """The most memory that a process had, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    return 0.0


class Command:
    """`recollect import`, as a process."""

    def __init__(self, home: Path, file: Path, settings: Mapping[str, str]) -> None:
        self.began = time.perf_counter()
        self.peak = 0.0
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "recollect",
                "import",
                str(file),
                "--user",
                USER,
                "--json",
            ],
            cwd=BACKEND,
            env=environment(home, settings),
            stdout=subprocess.PIPE,
            text=True,
        )

    def is_over(self) -> bool:
        if self.process.poll() is None:
            self.peak = max(self.peak, peak(self.process.pid))
            return False
        return True

    def end(self, seconds: float) -> dict[str, Any]:
        """Its report."""
        wait_until(self.is_over, "the import ends", seconds=seconds, every=0.1)
        told, _ = self.process.communicate()
        assert self.process.returncode == 0, "the import failed"
        report: dict[str, Any] = json.loads(told)
        return report

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def kill_in_the_middle(home: Path, file: Path, settings: Mapping[str, str], total: int) -> list[int]:
    """Three times: the command, the server under it, and a command that has the home open itself."""
    seen = []
    with Server(home, settings, prefix=REAL) as server:
        command = Command(home, file, settings)
        wait_until(lambda: stored(home) > total // 5, "a fifth is there", seconds=600)
        command.kill()
        seen.append(stored(home))
        command = Command(home, file, settings)
        wait_until(lambda: stored(home) > total * 2 // 5, "two fifths are there", seconds=600)
        server.kill()
        seen.append(stored(home))
        assert command.process.wait(60) == 1, "a command whose server died says so"
        command.kill()
    command = Command(home, file, settings)
    wait_until(lambda: stored(home) > total * 3 // 5, "three fifths are there", seconds=600)
    command.kill()
    return [*seen, stored(home)]


def check(home: Path, expected: Expected) -> None:
    """Every message is there once, in its thread, in its order."""
    found: Expected = {}
    with sqlite3.connect(f"file:{home / 'journal.db'}?mode=ro", uri=True) as journal:
        for thread, message_id, text in journal.execute(
            "SELECT h.thread_id, t.message_id, t.content FROM turns t JOIN threads h ON h.pk = t.thread_pk"
            " WHERE h.user_id = ? ORDER BY h.pk, t.position",
            (USER,),
        ):
            found.setdefault(thread, []).append((message_id, text))
    assert found == expected, f"{sum(map(len, found.values()))} messages in {len(found)} threads"


def add_rate(home: Path, settings: Mapping[str, str], expected: Expected) -> tuple[float, float]:
    """Messages a second of a client that adds a conversation with each call, and the server's memory."""
    with Server(home, settings, prefix=REAL) as server:
        began = time.perf_counter()
        for thread, messages in expected.items():
            body = {
                "session_id": thread,
                "user_id": USER,
                "messages": [
                    {
                        "message_id": name,
                        "sender_id": USER,
                        "role": "user",
                        "timestamp": place,
                        "content": text,
                    }
                    for place, (name, text) in enumerate(messages)
                ],
            }
            while (answer := server.client.post(ADD, json=body)).status_code == 429:
                time.sleep(float(answer.headers["Retry-After"]))
            answer.raise_for_status()
        seconds = time.perf_counter() - began
        return sum(map(len, expected.values())) / seconds, peak(server.pid)


def import_rate(
    home: Path, settings: Mapping[str, str], file: Path, total: int
) -> tuple[float, float, float]:
    """Messages a second of the whole command, the server's memory, and the command's."""
    with Server(home, settings, prefix=REAL) as server:
        command = Command(home, file, settings)
        assert command.end(3600)["messages"] == total
        return (
            total / (time.perf_counter() - command.began),
            peak(server.pid),
            command.peak,
        )


def run(folder: Path, number: int, messages: int, settings: Mapping[str, str]) -> dict[str, Any]:
    """Raises AssertionError where something is missing or doubled."""
    file, total = folder / "export.zip", number * messages
    expected = make_export(file, number, messages)
    killed = folder / "killed"
    seen = kill_in_the_middle(killed, file, settings, total)
    with Server(killed, settings, prefix=REAL) as server:
        report = Command(killed, file, settings).end(3600)
        assert report["messages"] + report["already"]["messages"] == total, report
        covered = server.client.get("/api/v1/coverage").raise_for_status().json()
        assert (covered["messages"], covered["missing"], covered["doubled"]) == (
            total,
            0,
            0,
        ), covered
    check(killed, expected)
    adding, adding_memory = add_rate(folder / "added", settings, expected)
    rate, server_memory, command_memory = import_rate(folder / "imported", settings, file, total)
    check(folder / "imported", expected)
    return {
        "conversations": number, "messages": total, "megabytes": round(file.stat().st_size / 1e6, 1),
        "stored at the kills": seen,
        "memory/add, messages/s": round(adding), "import, messages/s": round(rate), "share": round(rate / adding, 2),
        "server, MB": round(server_memory), "server after memory/add, MB": round(adding_memory),
        "command, MB": round(command_memory),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=25, help="in each conversation")
    parser.add_argument("--embedder", help="folder of an ONNX model; without it, search goes by words")
    given = parser.parse_args()
    settings = (
        {} if given.embedder is None else {"RECOLLECT_EMBEDDING__FOLDER": str(Path(given.embedder).resolve())}
    )
    with tempfile.TemporaryDirectory() as folder:
        print(
            json.dumps(
                run(Path(folder), given.conversations, given.messages, settings),
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
