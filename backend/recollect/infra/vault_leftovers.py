"""The names of files that writes put beside their targets, and what a kill leaves of them.

| name | holds |
| --- | --- |
| `0001.md.<random>.tmp` | what is being written: ours, perhaps half of it |
| `0001.md.<new>-<old>-<random>.tmp` | what was written, or, once that is in place, what stood there before |

`new` and `old` are the beginnings of the digests of our text and of what we saw in its place. What has another digest
was saved by a person in the moment between that look and the exchange.
"""

import hashlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

BESIDE = ".tmp"
_NOTHING = "0" * 8
_RANDOM = "[0-9a-f]{8}"
_is_unfinished = re.compile(rf".+\.{_RANDOM}{re.escape(BESIDE)}").fullmatch
_exchanged = re.compile(rf"(.+)\.([0-9a-f]{{8}})-([0-9a-f]{{8}})-{_RANDOM}{re.escape(BESIDE)}").fullmatch


def name_while_written(target: Path) -> Path:
    """Used once, so that no attempt disturbs another."""
    return target.with_name(f"{target.name}.{secrets.token_hex(4)}{BESIDE}")


def name_for_exchange(target: Path, new: str | None, old: str | None) -> Path:
    """For the digests of our text and of what we saw in its place."""
    marks = "-".join([(new or _NOTHING)[:8], (old or _NOTHING)[:8], secrets.token_hex(4)])
    return target.with_name(f"{target.name}.{marks}{BESIDE}")


def leftovers_below(folder: Path) -> Iterator[Path]:
    """Files with names that only our own writes give: a person may have files that end like ours."""
    return filter(_is_ours, folder.rglob(f"*{BESIDE}"))


def leftovers_in(folder: Path) -> Iterator[Path]:
    return filter(_is_ours, folder.glob(f"*{BESIDE}"))


def _is_ours(path: Path) -> bool:
    return bool(_is_unfinished(path.name) or _exchanged(path.name))


def persons_save(path: Path) -> tuple[Path, str] | None:
    """The target and the digest of what a person saved there, if a leftover is that; else None. Raises OSError."""
    found = _exchanged(path.name)
    if found is None or path.is_symlink():
        return None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return None if digest[:8] in found.groups()[1:] else (path.with_name(found[1]), digest)
