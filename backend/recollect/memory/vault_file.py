"""A file of the vault as it was found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Tells, without reading, whether a file may have changed since it was read."""

    modified_ns: int
    size: int


@dataclass(frozen=True, slots=True)
class VaultFile:
    """What a file held when it was read."""

    text: str
    """What is not UTF-8 has marks in its place."""
    digest: str
    """SHA-256 of the bytes that were read."""
    modified: int
    """When it was last written, in UTC milliseconds."""
    stamp: FileStamp | None = None
    """None where the file is so new that the same stamp could yet come to stand for other words."""
    is_whole: bool = True
    """False where bytes were no UTF-8, or the file is longer than what was read."""
