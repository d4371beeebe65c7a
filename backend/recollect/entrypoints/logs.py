"""Log lines: one a request, made and written off the event loop. No message contents at the default level."""

import collections
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from recollect.settings import Settings

_BATCH_SECONDS = 0.1
_MOST_RECORDS = 100_000


class _TextFormatter(logging.Formatter):
    """`2026-05-08T14:03:00.123Z INFO recollect.access request method=POST status=202`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname} {record.name} {_one_line(record.getMessage())}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _BufferedHandler(logging.Handler):
    """Takes records as they are and lets a thread of its own format and write them, a batch at a time.

    Handing over costs next to nothing; what is at least a warning is written at once.
    """

    def __init__(self, writer: logging.Handler) -> None:
        super().__init__()
        self._writer = writer
        self._records: collections.deque[logging.LogRecord] = collections.deque(maxlen=_MOST_RECORDS)
        self._hurry = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._write_batches, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)
        if record.levelno >= logging.WARNING:
            self._hurry.set()

    def stop(self) -> None:
        self._stopped = True
        self._hurry.set()
        self._thread.join()

    def _write_batches(self) -> None:
        while not self._stopped:
            self._hurry.wait(_BATCH_SECONDS)
            self._hurry.clear()
            self._write_all()
        self._write_all()

    def _write_all(self) -> None:
        while self._records:
            self._writer.handle(self._records.popleft())


@contextmanager
def logging_to_stderr(settings: Settings) -> Iterator[None]:
    """Log until the block ends; then everything is written."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(_JsonFormatter() if settings.log_format == "json" else _TextFormatter())
    handler = _BufferedHandler(writer)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(settings.log_level)
    for noisy in ("watchfiles", "httpx2", "httpcore2", "alembic", "sqlalchemy", "uvicorn", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.stop()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _shown(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()
