"""Backup archives: a compressed tar with a manifest of digests as its last member."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from recollect.errors import HomeUnusable, StorageUnavailable

MANIFEST = "manifest.json"
_FORMAT = 1
_CHUNK = 1 << 20
Progress = Callable[[int, int], None]


def pack(target: Path, files: Mapping[str, Callable[[], bytes]], progress: Progress) -> int:
    """Pack what reads files, by their names; the archive appears whole or not at all. Returns how many."""
    beside = target.with_name(target.name + ".tmp")
    digests: dict[str, str] = {}
    try:
        with beside.open("wb") as raw:
            os.fchmod(raw.fileno(), 0o600)
            with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
                for done, (name, read) in enumerate(files.items(), 1):
                    try:
                        content = read()
                    except FileNotFoundError:
                        continue  # An editor renamed it away between listing and reading.
                    digests[name] = hashlib.sha256(content).hexdigest()
                    _add(tar, name, content)
                    progress(done, len(files))
                _add(tar, MANIFEST, json.dumps({"format": _FORMAT, "sha256": digests}, indent=1).encode())
            raw.flush()
            os.fsync(raw.fileno())
        beside.replace(target)
    except OSError as error:
        raise StorageUnavailable(f"the backup {target} cannot be written: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
    return len(digests)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o600
    tar.addfile(member, io.BytesIO(content))


def unpack(archive: Path, folder: Path | None, progress: Progress) -> int:
    """Check all files against the manifest; with `folder`, unpack them there. Returns the number of files.

    Raises HomeUnusable where the archive is damaged.
    """
    seen: dict[str, str] = {}
    manifest: dict[str, str] | None = None
    size = archive.stat().st_size if archive.is_file() else 0
    try:
        with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:gz") as tar:
            for member in tar:
                stream = tar.extractfile(member)
                if stream is None:
                    raise HomeUnusable(f"{archive}: {member.name} is not a plain file")
                if member.name == MANIFEST:
                    manifest = json.loads(stream.read())["sha256"]
                else:
                    seen[member.name] = _copy(stream, _target(archive, folder, member.name))
                progress(raw.tell(), size)
    except (tarfile.TarError, EOFError, ValueError, KeyError, OSError) as error:
        raise HomeUnusable(f"{archive} cannot be read as a backup: {error}") from error
    if manifest is None:
        raise HomeUnusable(f"{archive} is cut short: its manifest is missing")
    if differing := sorted(name for name in {*seen, *manifest} if seen.get(name) != manifest.get(name)):
        raise HomeUnusable(f"{archive} is damaged: {', '.join(differing[:5])}")
    return len(seen)


def _target(archive: Path, folder: Path | None, name: str) -> Path | None:
    parts = PurePosixPath(name).parts
    if PurePosixPath(name).is_absolute() or ".." in parts:
        raise HomeUnusable(f"{archive}: {name} would lie outside the home")
    return None if folder is None else folder.joinpath(*parts)


def _copy(stream: IO[bytes], target: Path | None) -> str:
    digest = hashlib.sha256()
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
    with (target or Path(os.devnull)).open("wb") as file:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        if target is not None:
            file.flush()
            os.fsync(file.fileno())
    return digest.hexdigest()
