"""What the index takes: memory while it is used, and disk while it grows by small writes."""

from pathlib import Path
from stat import S_ISREG
from typing import Any

import servers
import texts
from driving import Server, fill
from reporting import progress, row

MEGABYTES = 600
FILES = 300
TIMES_TEXT_AND_VECTORS = 5
SMALL_WRITE = 20
_SEED = 11


def measure_memory(folder: Path, messages: int) -> list[dict[str, Any]]:
    """With the real model: all indexed, all embedded, and searched."""
    with servers.recollect(folder / "resident", servers.real_embedder()) as (port, pid, _ready):
        empty = servers.resident_megabytes(pid)
        server = Server(port)
        fill(server, "ann", texts.texts(messages, _SEED))
        for query in texts.queries(100, _SEED):
            found = server.search("ann", query)
            if found["degraded"]:
                raise RuntimeError(f"not the whole search was measured: {found['degraded']}")
        full, most = servers.resident_megabytes(pid), servers.most_resident_megabytes(pid)
    name = f"resident MB with {messages:,} messages embedded and searched"
    return [
        row(f"{name} / empty", full, empty, full / empty, f"under {MEGABYTES} MB", full < MEGABYTES),
        row(f"{name}, at its most / empty", most, empty, most / empty, "", None),
    ]


def measure_soak(folder: Path, messages: int) -> list[dict[str, Any]]:
    """One owner, each small write in the index before the next is sent: the index can't take many as one."""
    some = texts.texts(messages, _SEED)
    home = folder / "soak"
    sizes = []
    with (
        servers.standin_embedder() as embedding,
        servers.recollect(home, embedding) as (port, _pid, _ready),
    ):
        server = Server(port)
        for first in range(0, messages, SMALL_WRITE):
            written = some[first : first + SMALL_WRITE]
            server.add("ann", written, first)
            server.wait_until("indexed", "ann", first + len(written))
            sizes.append(_files_and_bytes(home / "index"))
            progress("soaking", first, messages)
        server.wait_until("embedded", "ann", messages)
        sizes.append(_files_and_bytes(home / "index"))
    if not sizes[-1][0]:
        raise RuntimeError(f"there is no index at {home / 'index'}")
    payload = (sum(len(text.encode()) for text in some) + messages * texts.DIMENSIONS * 4) / 1e6
    most_files = max(files for files, _ in sizes)
    most_bytes, end_bytes = max(size for _, size in sizes) / 1e6, sizes[-1][1] / 1e6
    name = f"index after {messages:,} messages in writes of {SMALL_WRITE}"
    wanted = f"under {TIMES_TEXT_AND_VECTORS}"
    return [
        row(f"{name}: files, at most / at the end", most_files, sizes[-1][0], most_files / sizes[-1][0],
            f"under {FILES} files", most_files < FILES),
        row(f"{name}: MB at the end / text and vectors", end_bytes, payload, end_bytes / payload, wanted,
            end_bytes < TIMES_TEXT_AND_VECTORS * payload),
        row(f"{name}: MB at most / text and vectors", most_bytes, payload, most_bytes / payload, wanted,
            most_bytes < TIMES_TEXT_AND_VECTORS * payload),
    ]  # fmt: skip


def _files_and_bytes(folder: Path) -> tuple[int, int]:
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
