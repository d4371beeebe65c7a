"""Programs of this repository, started by forking a process that has imported them: real processes, in a tenth of a second.

Starting an interpreter and importing the server takes two seconds, LanceDB nearly two more. One process for each
process of pytest (`python -m tests.forking`) imports all of it once, reads the machine's certificates, and then forks
for each program that a test starts. It uses nothing else of it, so no lock is held and no engine runs when it forks.
"""

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from recollect.infra.backends.server import tls_context
from recollect.infra.secrets import mask_secrets

BACKEND = Path(__file__).resolve().parents[1]
PRELOADED = (
    "recollect.entrypoints.cli.main", "recollect.entrypoints.http.server", "recollect.entrypoints.logs",
    "recollect.entrypoints.http.doors.mcp_server",
    "anyio._backends._asyncio", "httpcore2", "rich.progress", "rich.table", "uvicorn.lifespan.off", "uvicorn.protocols.http.httptools_impl",
    "recollect.app", "recollect.entrypoints.cli.client", "recollect.infra.index.tables",
    "recollect.infra.embedders.onnx", "recollect.infra.journal.connection", "alembic.command", "tests.standins.standin_model",
    "anyio._backends._asyncio", "uvloop", "numpy.ma",
)  # fmt: skip
_REQUEST_BYTES = 1 << 17
_DESCRIPTORS = 4


class Forked:
    """A process that runs a module as `python -m` does; to its user it is a `subprocess.Popen[str]`.

    It reads nothing, writes to a pipe and complains where we do, unless it is given other files.
    """

    stdin: IO[str] | None = None
    stdout: IO[str] | None = None
    stderr: IO[str] | None = None

    def __init__(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] = 2,
    ) -> None:
        self.args = [module, *arguments]
        self.returncode: int | None = None
        request = {"module": module, "arguments": arguments, "env": dict(os.environ if env is None else env)}
        self._reading = threading.Lock()
        self._told, told = socket.socketpair()
        with contextlib.ExitStack() as ours:
            ours.callback(told.close)
            if stdin is None:
                stdin = ours.enter_context(Path(os.devnull).open("rb"))
            if stdout is None:
                reading, stdout = os.pipe()
                ours.callback(os.close, stdout)
                self.stdout = os.fdopen(reading, encoding="utf-8")
            given = [each if isinstance(each, int) else each.fileno() for each in (stdin, stdout, stderr)]
            _forker().send(json.dumps(request).encode(), [told.fileno(), *given])
        self._answers = self._told.makefile("r")
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        ended = self._ended(timeout)
        if ended is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return ended

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # It has just ended.
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is not None:
            return self.returncode
        with selectors.DefaultSelector() as selector:
            selector.register(self._told, selectors.EVENT_READ)
            if not selector.select(timeout):
                return None
        with self._reading:
            if self.returncode is None:
                self.returncode = int(self._answers.readline())
                self._answers.close()
                self._told.close()
        return self.returncode


def run(
    module: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Run a module to its end; returns its exit code and what it wrote."""
    with contextlib.ExitStack() as files:
        given, out, errors = (
            files.enter_context(os.fdopen(os.memfd_create(name), "w+b")) for name in ("i", "o", "e")
        )
        given.write((text or "").encode())
        given.seek(0)
        process = Forked(module, *arguments, env=env, stdin=given, stdout=out, stderr=errors)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
        told = [_read(file) for file in (out, errors)]
    return subprocess.CompletedProcess(process.args, code, *told)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class _Forker:
    """Our end of the process that forks. It ends, with all that it started, when this process does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
                cwd=BACKEND,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        self._control.close()
        self._process.wait()

    def send(self, request: bytes, descriptors: Sequence[int]) -> None:
        with self._lock:
            socket.send_fds(self._control, [request], descriptors)


_made: list[_Forker] = []
_making = threading.Lock()


def _forker() -> _Forker:
    with _making:
        if not _made:
            _made.append(_Forker())
            atexit.register(_made[0].close)
        return _made[0]


# --- the process that forks ------------------------------------------------------------------------


@dataclass
class _Request:
    module: str
    arguments: list[str]
    env: dict[str, str]
    descriptors: list[int] = field(default_factory=list)

    def become(self) -> None:
        """Be the program that was asked for, in the process that was forked for it."""
        for target, descriptor in enumerate(self.descriptors):
            os.dup2(descriptor, target)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(self.env)
        time.tzset()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(line_buffering=stream.isatty() or stream is sys.stderr)
        sys.argv = [self.module, *self.arguments]
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def _serve(control: socket.socket) -> _Request | None:
    """Fork for each request. Returns the request in the new process, and None in this one when its user has gone."""
    running: dict[int, socket.socket] = {}
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    os.read(woken, 4096)
                    _tell_of_the_ended(running)
                    continue
                message, descriptors, _flags, _address = socket.recv_fds(
                    control, _REQUEST_BYTES, _DESCRIPTORS
                )
                if not message:
                    for pid in running:
                        os.kill(pid, signal.SIGKILL)
                    return None
                told, *streams = descriptors
                pid = os.fork()
                if pid == 0:
                    _forget(selector, control, running, [woken, waking, told])
                    return _Request(**json.loads(message), descriptors=streams)
                running[pid] = socket.socket(fileno=told)
                running[pid].send(f"{pid}\n".encode())
                for descriptor in streams:
                    os.close(descriptor)


def _tell_of_the_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as told, contextlib.suppress(BrokenPipeError):
            told.send(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _forget(
    selector: selectors.BaseSelector,
    control: socket.socket,
    running: dict[int, socket.socket],
    descriptors: Sequence[int],
) -> None:
    """In a new process: nothing of the one that forked it."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    selector.close()
    for each in (control, *running.values()):
        each.close()
    for descriptor in descriptors:
        os.close(descriptor)


def main() -> None:
    from recollect.entrypoints.http.server import create_api

    warnings.filterwarnings("ignore", message="lancedb fork support is experimental")
    for module in PRELOADED:
        import_module(module)
    # What each server would do at its first request and its first memory, for nearly a second.
    create_api()
    mask_secrets("")
    for trust_env in (False, True):
        tls_context(trust_env=trust_env)
    gc.freeze()  # So that a new process copies no page only because its garbage collector looked at it.
    with socket.socket(fileno=int(sys.argv[1])) as control:
        request = _serve(control)
    if request is not None:
        request.become()


if __name__ == "__main__":
    main()
