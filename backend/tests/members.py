"""Several servers on one journal in PostgreSQL and one prefix in S3, each a process with a home of its own."""

import re
import shutil
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx2

from tests.processes import Server, wait_until

TAKEN_OVER_SECONDS = 20
"""For another server to lead, on a machine that is busy."""


class Members:
    """`serve` by its name or `worker`, on ports that stay theirs. Ended with the `with` block."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._settings = settings
        self._ports: dict[str, int] = {}
        self._ends = ExitStack()
        self.running: dict[str, Server] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def start(self, name: str) -> Server:
        """A name that begins with `worker` is one. After a kill its home is gone, too."""
        port = self._ports.setdefault(name, _free_port())
        home = self._folder / name
        shutil.rmtree(home, ignore_errors=True)
        settings = {**self._settings, "RECOLLECT_MEMBER_URL": f"http://127.0.0.1:{port}"}
        command = "worker" if name.startswith("worker") else "serve"
        server = Server(home, settings, command=command, arguments=["--port", str(port)])
        self.running[name] = self._ends.enter_context(server)
        return server

    def kill(self, name: str) -> None:
        self.running.pop(name).kill()

    def role(self, name: str) -> str | None:
        """None where it does not answer."""
        try:
            told = self.running[name].client.get("/health/live", timeout=5)
        except httpx2.TransportError:
            return None
        role: str = told.json()["role"]
        return role

    def leader(self) -> str:
        """Who leads, as soon as somebody does."""

        def look() -> str | None:
            return next((name for name in self.running if self.role(name) == "leads"), None)

        found = wait_until(look, "a server leads", seconds=TAKEN_OVER_SECONDS, every=0.1)
        assert found is not None
        return found

    def crashes(self) -> str:
        """What the servers, killed ones too, logged of errors that nobody foresaw."""
        logs = [log.read_text(encoding="utf-8") for log in self._folder.glob("server-*.log")]
        return "\n".join(
            log[found.start() :][:3000] for log in logs if (found := re.search("unexpected error", log))
        )

    def standby(self) -> Server:
        leader = self.leader()
        return next(server for name, server in self.running.items() if name != leader)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
