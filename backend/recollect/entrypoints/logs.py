"""Log lines: one a request, made and written off the event loop. No message contents at the default level."""

import json
import logging
import logging.handlers
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from recollect.settings import Settings


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


class _HandOver(logging.handlers.QueueHandler):
    """Hands records over as they are: the listener's thread formats them, tracebacks included."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record


@contextmanager
def logging_to_stderr(settings: Settings) -> Iterator[None]:
    """Log until the block ends; then everything is written."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(_JsonFormatter() if settings.log_format == "json" else _TextFormatter())
    lines: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    listener = logging.handlers.QueueListener(lines, writer)
    handler = _HandOver(lines)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(settings.log_level)
    for noisy in ("httpx2", "httpcore2", "alembic", "sqlalchemy", "uvicorn", "asyncio", "aiosqlite"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        listener.stop()


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
