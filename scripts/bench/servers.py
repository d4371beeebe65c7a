"""Servers and load generators as processes of their own, and what the kernel says of them."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

HERE = Path(__file__).resolve().parent
BACKEND = HERE.parents[1] / "backend"
_PAGE = os.sysconf("SC_PAGE_SIZE")
UNBOUNDED = dict.fromkeys(("RECOLLECT_LIMITS__BACKLOG", "RECOLLECT_LIMITS__UNSEARCHED"), "1000000000")
"""What is measured is the work, not how adders are slowed."""


@contextmanager
def recollect(
    home: Path, settings: Mapping[str, str] | None = None, at: int = 0
) -> Iterator[tuple[int, int, float]]:
    """(port, pid, seconds from start to ready) of a real server on `home`, with these settings alone; without any, with the real embedder."""
    home.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RECOLLECT_")}
    with (home.parent / f"{home.name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "recollect", "serve", "--port", str(at), "--home", str(home)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**environment, **UNBOUNDED, **(real_embedder() if settings is None else settings)},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = int(line.split("http://127.0.0.1:")[1].split()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
                assert json.load(answer)["status"] == "ok"
            yield port, process.pid, time.perf_counter() - started
        finally:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def small_server(kind: str, *argument: str) -> Iterator[str]:
    """The address of one of `small_servers`."""
    with _answering("small_servers.py", kind, *argument) as process:
        yield f"http://127.0.0.1:{_line(process)}"


@contextmanager
def standin_embedder() -> Iterator[dict[str, str]]:
    """The settings that make a server ask the stand-in for its vectors."""
    with small_server("embedder") as address:
        yield {
            "RECOLLECT_EMBEDDING__KIND": "openai",
            "RECOLLECT_EMBEDDING__BASE_URL": f"{address}/v1",
            "RECOLLECT_EMBEDDING__MODEL": "standin",
        }


@contextmanager
def standin_model() -> Iterator[dict[str, str]]:
    """The settings that make a server ask the stand-in model, which answers at once."""
    with _answering("-m", "tests.standins.standin_model", "--port", "0", cwd=BACKEND) as process:
        yield {
            "RECOLLECT_LLM__BASE_URL": f"http://127.0.0.1:{json.loads(_line(process))['port']}",
            "RECOLLECT_LLM__MODEL": "stand-in",
            "RECOLLECT_STRATEGIES__PROFILE__IDLE_SECONDS": "0.5",
        }


def load(kind: str, **wanted: object) -> dict[str, float]:
    """The figures of one run of a load generator, in a process of its own."""
    command = [sys.executable, str(HERE / "load.py"), kind, json.dumps(wanted)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def real_embedder() -> dict[str, str]:
    """The settings of the embedder that this machine uses, else of the one in the package."""
    given = {key: value for key, value in os.environ.items() if key.startswith("RECOLLECT_EMBEDDING__")}
    return given or {"RECOLLECT_EMBEDDING__KIND": "onnx"}


Ask = Callable[[dict[str, int]], dict[str, float]]


@contextmanager
def raw_lance(folder: Path, messages: int, seed: int) -> Iterator[Ask]:
    """Measures LanceDB's own calls over so many rows: ask it as often as needed."""
    with _answering("raw_lance.py", str(folder), str(messages), str(seed)) as process:
        assert _line(process) == "ready"

        def ask(wanted: dict[str, int]) -> dict[str, float]:
            assert process.stdin is not None
            process.stdin.write(json.dumps(wanted) + "\n")
            process.stdin.flush()
            figures: dict[str, float] = json.loads(_line(process))
            return figures

        yield ask


@contextmanager
def _answering(*arguments: str, cwd: Path = HERE) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
    return line


def resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * _PAGE / 1e6


def most_resident_megabytes(pid: int) -> float:
    """The most that the process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def precise_cpu_seconds(pid: int) -> float:
    """Of the threads that run, to the nanosecond: the clock of whole processes is too coarse for one request."""
    found = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in found) / 1e9


def files_and_bytes(folder: Path) -> tuple[int, int]:
    """Files may go while they are counted: what is gone takes no room."""
    files = size = 0
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if S_ISREG(status.st_mode):
            files += 1
            size += status.st_size
    return files, size
