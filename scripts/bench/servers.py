"""The two servers under measurement, as processes of their own, and what the kernel says of them."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
_PAGE = os.sysconf("SC_PAGE_SIZE")


@contextmanager
def recollect(home: Path) -> Iterator[tuple[int, int, float]]:
    """(port, pid, seconds from start to ready) of a real server on `home`."""
    home.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RECOLLECT_")}
    with (home.parent / f"{home.name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "recollect", "serve", "--port", "0", "--home", str(home)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
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
def bare(database: Path) -> Iterator[int]:
    """The port of the bare route."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "bare_route:app", "--port", str(port), "--log-level", "warning",
         "--no-access-log"],
        cwd=HERE,
        env={**os.environ, "BARE_DB": str(database)},
    )  # fmt: skip
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json").close()
                break
            except OSError:
                if process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * _PAGE / 1e6


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
