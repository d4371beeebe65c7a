"""Disks of a server's own that fill up, turn read-only or go: real mounts, in a namespace that only the server has."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.http_client import QUICK
from tests.processes import Server, recollect

SMALL_DISK = "4m"


def may_mount() -> bool:
    """Whether this machine lets a test have disks of its own."""
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        return False
    tried = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, timeout=30
    )
    return tried.returncode == 0


needs_mounts = pytest.mark.skipif(
    not may_mount(), reason="user namespaces are not permitted here, so no disk of one's own can be mounted"
)


class Disk:
    """A small disk under a server, in a mount namespace that the server brought with it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._inside = ["nsenter", "-t", str(server.pid), "-U", "-m", "--preserve-credentials"]
        self._folder = folder

    def fill(self) -> None:
        """Until not a byte more fits."""
        self._run(f"dd if=/dev/zero of='{self._folder}/ballast' bs=4096 2>/dev/null; true")

    def free(self) -> None:
        self._run(f"rm '{self._folder}/ballast'")

    def remount(self, how: str) -> None:
        self._run(f"mount -o remount,{how} '{self._folder}'")

    def unmount(self) -> None:
        self._run(f"umount -l '{self._folder}'")

    def lists(self) -> list[str]:
        return self._run(f"find '{self._folder}' -type f").splitlines()

    def command(self, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the command line that sees the same disk."""
        return recollect(home, *arguments, prefix=self._inside)

    def _run(self, script: str) -> str:
        done = subprocess.run([*self._inside, "sh", "-c", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


def served_on(
    home: Path, folder: Path, settings: Mapping[str, str] | None = None, *, size: str = SMALL_DISK
) -> Server:
    """A server whose `folder` is a small disk of its own."""
    script = f"mkdir -p '{folder}' && mount -t tmpfs -o size={size} tmpfs '{folder}' && exec \"$@\""
    return Server(home, {**QUICK, **(settings or {})}, prefix=["unshare", "-rm", "sh", "-c", script, "sh"])
