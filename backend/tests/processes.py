"""Programs that tests start as processes of their own, and end by their process id."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Self, TypeVar

import httpx2

from tests import deployment, forking
from tests.forking import BACKEND, Forked

START_SECONDS = 60
STOP_SECONDS = 30
COMMAND_SECONDS = 90
SHORTER_THAN_THE_SERVERS = httpx2.Limits(keepalive_expiry=2)
"""A stand-in closes a connection that is idle for 5 s: a client that keeps it as long may write into a closed one."""
T = TypeVar("T")
Process = subprocess.Popen[str] | Forked


def wait_until(condition: Callable[[], T], what: str, *, seconds: float = 60, every: float = 0.02) -> T:
    """The first true value of `condition`; TimeoutError, naming `what`, when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}; last seen: {value!r}")
        time.sleep(every)


def environment(home: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process' environment with nothing of Recollect in it but the home and the given settings."""
    places = deployment.HOMES.settings(home)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    given = {f"RECOLLECT_{name.upper()}": url for name, url in places.items()} | dict(settings or {})
    if not any(name.startswith("RECOLLECT_EMBEDDING__") for name in given):
        given["RECOLLECT_EMBEDDING__KIND"] = "none"  # Tests of something else don't wait for a model.
    given.setdefault("RECOLLECT_LLM__DISCOVER", "false")
    return {**kept, "RECOLLECT_HOME": str(home), **given}


def recollect(
    home: Path,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    text: str | None = None,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run one command of the command line to its end."""
    env = environment(home, settings)
    if not prefix:
        return forking.run("recollect", *arguments, env=env, text=text, timeout=COMMAND_SECONDS)
    return subprocess.run(
        [*prefix, sys.executable, "-m", "recollect", *arguments],
        cwd=BACKEND,
        env=env,
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )


def recollect_json(home: Path, *arguments: str, settings: Mapping[str, str] | None = None) -> Any:
    """What a command prints with `--json`; it must succeed."""
    done = recollect(home, *arguments, "--json", settings=settings)
    assert done.returncode == 0, f"recollect {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


class Server:
    """`recollect serve` on a free port, for as long as the `with` block runs.

    `prefix` goes before the command (`unshare …`). `log` is the file with what it wrote to stderr. `command` may be `worker`.
    """

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str] | None = None,
        *,
        command: str = "serve",
        arguments: Sequence[str] = (),
        prefix: Sequence[str] = (),
    ) -> None:
        self.home = home
        home.parent.mkdir(parents=True, exist_ok=True)
        descriptor, log = tempfile.mkstemp(prefix="server-", suffix=".log", dir=home.parent)
        os.close(descriptor)
        self.log = Path(log)
        self.address = ""
        self._environment = environment(home, settings)
        self._program = ["recollect", command, "--port", "0", *arguments]
        self._prefix = prefix

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self.process = self._started(log)
        line = first_line(self.process)
        if not line:
            end(self.process)
            raise RuntimeError(f"the server did not start (exit code {self.exit_code}): {self.errors()}")
        self.address = line.split(" is listening on ")[1].split(" ")[0]
        self.client = httpx2.Client(base_url=self.address, timeout=60, trust_env=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        end(self.process)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        return self.process.returncode

    def errors(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)

    def wait_for_end(self, seconds: float = START_SECONDS) -> int:
        """Its exit code, once it ended by itself."""
        return self.process.wait(seconds)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def _started(self, log: IO[bytes]) -> Process:
        if not self._prefix:
            return Forked(*self._program, env=self._environment, stderr=log)
        return subprocess.Popen(
            [*self._prefix, sys.executable, "-m", *self._program],
            cwd=BACKEND,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


class ModelServer:
    """A model's server that prints its port when it is ready, for as long as the `with` block runs."""

    seconds: ClassVar[float] = 60
    """For one answer."""
    headers: ClassVar[Mapping[str, str]] = {}

    def __enter__(self) -> Self:
        self.process = self._started(0)
        self.base_url = f"http://127.0.0.1:{self._announced_port()}"
        self._client = httpx2.Client(
            base_url=self.base_url,
            timeout=self.seconds,
            trust_env=False,
            headers=self.headers,
            limits=SHORTER_THAN_THE_SERVERS,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        end(self.process)

    def _started(self, port: int) -> Process:
        raise NotImplementedError

    def _announced_port(self) -> int:
        line = first_line(self.process)
        if not line:
            end(self.process)
            raise RuntimeError(f"{type(self).__name__} did not start")
        return int(json.loads(line)["port"])


class StandInModel(ModelServer):
    """The stand-in model server of `tests.standins.standin_model`."""

    def control(self, mode: str = "answer", **settings: Any) -> None:
        """Set how the calls that follow are answered: `delay_seconds`, `answer`, `times`."""
        self._client.post("/control", json={"mode": mode, **settings}).raise_for_status()

    def calls(self, *, in_flight: int | None = None) -> dict[str, Any]:
        """What was asked so far; with `in_flight`, as soon as exactly that many calls are under way."""
        params = {} if in_flight is None else {"in_flight": in_flight}
        calls: dict[str, Any] = self._client.get("/control/calls", params=params).raise_for_status().json()
        if "timed_out" in calls:
            raise TimeoutError(f"{calls['in_flight']} calls are in flight, not {in_flight}")
        return calls

    def calls_of_chats(self) -> list[dict[str, Any]]:
        """The bodies of chats, which belong to a session; those of background work do not, and come at any time."""
        return [body for body in self.calls()["bodies"] if "session_id" in body]

    def log(self) -> list[dict[str, Any]]:
        """Of every completion so far who asked for what, without the messages."""
        answer = self._client.get("/control/calls", params={"log_only": True}).raise_for_status()
        found: list[dict[str, Any]] = answer.json()["log"]
        return found

    def _started(self, port: int) -> Process:
        return Forked("tests.standins.standin_model", "--port", str(port))


def end(process: Process) -> None:
    """Kill it if it still runs, and close its pipes."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def first_line(process: Process) -> str:
    """What a process announces when it is ready; empty when it ended, or was too slow and was ended."""
    assert process.stdout is not None
    too_slow = threading.Timer(START_SECONDS, process.kill)
    too_slow.start()
    try:
        return process.stdout.readline()
    finally:
        too_slow.cancel()
