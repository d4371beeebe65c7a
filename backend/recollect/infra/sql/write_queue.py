"""What waits for the journal's writer."""

import asyncio
import queue
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

GROUP_LIMIT = 256


@dataclass(slots=True)
class Pending:
    """An operation that waits, and then what came of it."""

    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    alone: bool = False
    """It runs between two groups, outside any transaction."""
    urgent: bool = False
    result: Any = None
    error: BaseException | None = None


class WriteQueue:
    """Urgent operations and others, each in the order of their arrival, and by turns while both wait.

    Any thread puts in; one thread takes out.
    """

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._urgent: deque[Pending] = deque()
        self._others: deque[Pending] = deque()
        self._were_others_last = True
        self._is_closed = False

    def put(self, pending: Pending) -> None:
        self._arrived.put(pending)

    def close(self) -> None:
        """What is in it is still taken out."""
        self._arrived.put(None)

    def next_group(self) -> list[Pending] | None:
        """Waits for one; None where none will come any more."""
        self._sort_arrived()
        while not self._urgent and not self._others:
            if self._is_closed:
                return None
            self._sort(self._arrived.get())
            self._sort_arrived()
        if self._urgent and (self._were_others_last or not self._others):
            self._were_others_last = False
            return _taken(self._urgent)
        self._were_others_last = True
        return [self._others.popleft()] if self._others[0].alone else _taken(self._others)

    def is_any_urgent(self) -> bool:
        self._sort_arrived()
        return bool(self._urgent)

    def put_back(self, rest: Sequence[Pending]) -> None:
        """Of a group of others, which is ended before its end."""
        self._others.extendleft(reversed(rest))

    def _sort_arrived(self) -> None:
        while not self._arrived.empty():
            self._sort(self._arrived.get())

    def _sort(self, pending: Pending | None) -> None:
        if pending is None:
            self._is_closed = True
        else:
            (self._urgent if pending.urgent else self._others).append(pending)


def _taken(waiting: deque[Pending]) -> list[Pending]:
    group: list[Pending] = []
    while waiting and not waiting[0].alone and len(group) < GROUP_LIMIT:
        group.append(waiting.popleft())
    return group
