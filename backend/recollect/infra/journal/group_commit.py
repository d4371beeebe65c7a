"""Group commit: one thread writes, and operations that arrive during a commit share the next one."""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

from recollect.errors import Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.connector import Connection

T = TypeVar("T")
GROUP_LIMIT = 256
_log = logging.getLogger("recollect.journal")


@dataclass(slots=True)
class Pending:
    """An operation that waits, and then what came of it."""

    operation: Callable[[Any], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    alone: bool = False
    """It runs between two groups, outside any transaction."""
    urgent: bool = False
    result: Any = None
    error: BaseException | None = None
    arrived: float = field(default_factory=time.monotonic)


class Outcome(Enum):
    """What became of a transaction in which the driver raised an error."""

    UNDONE = "undone"
    COMMITTED = "committed"
    AGAIN = "again"
    """It is undone, and worth another try at once."""


class Transactions(Protocol):
    """The connection that writes, as the group commit drives it, on one thread."""

    errors: type[Exception]
    """What the driver raises."""

    @property
    def connection(self) -> Connection: ...

    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def roll_back(self) -> None:
        """Does nothing outside a transaction."""

    def is_open(self) -> bool:
        """Whether a transaction is under way: some errors end it by themselves."""

    def mark(self) -> None:
        """Begin an operation that can be undone alone."""

    def release(self) -> None: ...
    def undo(self) -> None: ...

    def translated(self, error: Exception) -> Exception:
        """What an operator can mend, in words; what is our own mistake, as it is."""

    def settle(self, error: Exception, group: list[Pending]) -> Outcome:
        """End the transaction of `group` in which the driver raised `error`, and find out what became of it.

        It may take out of the group what must not wait any longer, answered.
        """


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


class GroupCommit:
    """Runs operations on the writer's thread. Any number that wait become one transaction, so a commit costs its
    fsync once per group and not per message.
    """

    def __init__(self, fail_points: FailPoints | None = None) -> None:
        self._fail_points = fail_points or FailPoints()
        self._waiting = WriteQueue()
        self._thread: threading.Thread | None = None
        self._last_failure: str | None = None
        self.groups = 0
        self.operations = 0

    def start(self, transactions: Transactions) -> None:
        self._waiting = WriteQueue()
        self._thread = threading.Thread(
            target=self._write_groups, args=(transactions,), name="journal-writer", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """After what waits has been written."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.close()
            await asyncio.to_thread(thread.join)

    def problem(self) -> str | None:
        """What kept the last write from being made, in words; None when it was made."""
        return self._last_failure if self._thread is not None else "the journal is closed"

    async def submit(self, operation: Callable[[Any], T], *, alone: bool = False, urgent: bool = False) -> T:
        """What `operation` returns, as soon as it is committed and durable.

        An operation that raises is undone alone; its neighbours in the group are not affected. An urgent one goes
        ahead of others that wait, and never waits for more than one of them that has not begun. One that is `alone`
        runs outside any transaction.
        """
        if self._thread is None:
            raise Unavailable("the journal is closed")
        loop = asyncio.get_running_loop()
        pending = Pending(operation, loop.create_future(), loop, alone, urgent)
        self._waiting.put(pending)
        result: T = await pending.future
        return result

    def _write_groups(self, transactions: Transactions) -> None:
        while (group := self._waiting.next_group()) is not None:
            if group[0].alone:
                self._run_outside(transactions, group[0])
            else:
                self._write_or_fail(transactions, group)

    def _write_or_fail(self, transactions: Transactions, group: list[Pending]) -> None:
        """Whatever happens, everybody gets an answer and the writer lives on."""
        try:
            self._write_group(transactions, group)
        except Exception as error:  # noqa: BLE001 - raised where the callers wait
            _log.exception("unexpected error in the journal's writer")
            for pending in group:
                pending.error = pending.error or error
            answer(group)

    def _run_outside(self, transactions: Transactions, pending: Pending) -> None:
        try:
            pending.result = pending.operation(transactions.connection)
        except transactions.errors as error:
            pending.error = transactions.translated(error)
        except Exception as error:  # noqa: BLE001 - raised where the caller waits
            pending.error = error
        answer([pending])

    def _write_group(self, transactions: Transactions, group: list[Pending]) -> None:
        outcome = Outcome.AGAIN
        while group and outcome is Outcome.AGAIN:
            try:
                self._run_group(transactions, group)
                outcome = Outcome.COMMITTED
            except transactions.errors as error:
                failure = transactions.translated(error)
                if isinstance(failure, Unavailable):
                    self._last_failure = failure.message
                outcome = transactions.settle(error, group)
                if outcome is Outcome.UNDONE:
                    failure = transactions.translated(error)
                    for pending in group:
                        pending.error = failure
        if outcome is Outcome.COMMITTED:
            self._last_failure = None
        self.groups += 1
        self.operations += len(group)
        answer(group)

    def _run_group(self, transactions: Transactions, group: list[Pending]) -> None:
        """Until it is committed. What the driver raises outside a marked operation ends all of it."""
        transactions.begin()
        for place, pending in enumerate(group):
            if place and not pending.urgent and self._waiting.is_any_urgent():
                self._waiting.put_back(group[place:])
                del group[place:]
                break
            pending.result = pending.error = None
            if len(group) == 1:
                _run_only(transactions, pending)
            else:
                _run_among_others(transactions, pending)
        self._fail_points.reach("journal.in_transaction")
        if transactions.is_open():
            transactions.commit()
        self._fail_points.reach("journal.committed")


def _run_only(transactions: Transactions, pending: Pending) -> None:
    try:
        pending.result = pending.operation(transactions.connection)
    except transactions.errors:
        raise
    except Exception as error:  # noqa: BLE001 - raised where the caller waits
        transactions.roll_back()
        pending.error = error


def _run_among_others(transactions: Transactions, pending: Pending) -> None:
    transactions.mark()
    try:
        pending.result = pending.operation(transactions.connection)
    except Exception as error:
        if not transactions.is_open():
            raise  # The database has undone the whole group, as SQLite does when the disk is full.
        own = isinstance(error, transactions.errors)
        pending.error = transactions.translated(error) if own else error
        transactions.undo()
    transactions.release()


def answer(group: Sequence[Pending]) -> None:
    """Tell everybody in a group, on their loop, what came of their operation."""
    if group and not (loop := group[0].loop).is_closed():
        loop.call_soon_threadsafe(_answer, tuple(group))


def _answer(group: Sequence[Pending]) -> None:
    for pending in group:
        if pending.future.cancelled():
            continue
        if pending.error is None:
            pending.future.set_result(pending.result)
        else:
            pending.future.set_exception(pending.error)
