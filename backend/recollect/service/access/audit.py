"""The audit log: who used an operator's powers, or took data away. Ids only, never a text."""

import asyncio
import json
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from recollect.domain.access import Caller
from recollect.errors import RecollectError
from recollect.infra.journal.audit_lines import SqlAuditLines
from recollect.infra.journal.database import Database
from recollect.service.coordination import Clock
from recollect.settings import Settings

LOG_NAME = "audit.log"
LOG_BYTES = 10_000_000
LOGS_KEPT = 5
"""With the one that is written to."""
_log = logging.getLogger("recollect.audit")


class AuditLog:
    """One JSON object a line. `append` keeps it, durably or not, and raises OSError or RecollectError where it can't."""

    def __init__(self, append: Callable[[str], Awaitable[None]], clock: Clock) -> None:
        self._append = append
        self._clock = clock
        self._problem: str | None = None

    def problem(self) -> str | None:
        """What kept the last line from being written, in words; None when it was written."""
        return self._problem

    async def write(self, caller: Caller, what: str, **fields: object) -> None:
        """Append a line: it is kept when this returns, or `problem` and the log say why not."""
        time = datetime.fromtimestamp(self._clock() / 1000, UTC).isoformat(timespec="milliseconds")
        who = "local operator" if caller.local_operator else caller.key_id or "no key"
        line = {"time": time.replace("+00:00", "Z"), "who": who, "what": what, "space": caller.space} | fields
        written = json.dumps(line)
        try:
            await self._append(written)
            self._problem = None
        except (OSError, RecollectError) as error:
            why = error.strerror if isinstance(error, OSError) else error.message
            self._problem = f"the audit log cannot be written: {why}"
            _log.error("%s; lost: %s", self._problem, written)


class AuditFile:
    """`<home>/audit.log`, which its owner alone can read.

    At `max_bytes` the file becomes `audit.log.1`, and so on up to LOGS_KEPT files; the oldest is deleted.
    """

    def __init__(self, home: Path, *, max_bytes: int = LOG_BYTES) -> None:
        self._path = home / LOG_NAME
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    async def append(self, line: str) -> None:
        await asyncio.to_thread(self._append, f"{line}\n".encode())

    def _append(self, line: bytes) -> None:
        with self._lock:
            if self._path.exists() and self._path.stat().st_size + len(line) > self._max_bytes:
                self._rotate()
            with open(self._path, "ab", opener=_private) as file:
                file.write(line)

    def _rotate(self) -> None:
        for number in range(LOGS_KEPT - 1, 0, -1):
            source = self._numbered(number - 1)
            if source.exists():
                source.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{LOG_NAME}.{number}") if number else self._path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def audit_log(settings: Settings, database: Database, clock: Clock) -> AuditLog:
    """In the journal where the server is one of several, because its home may be lost; else in the home."""
    is_alone = settings.member_url is None
    return AuditLog((AuditFile(settings.home) if is_alone else SqlAuditLines(database)).append, clock)
