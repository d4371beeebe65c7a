"""The seam between the journal and its database: a connection runs SQL in a transaction, and rows come back.

SQL above it is written once, in what SQLite and PostgreSQL both know. Parameters are `?` or `:name`; one of which only
`IS NULL` is asked is `:name`. Functions of SQLite that are used, and PostgreSQL is given: json_each, json_extract,
json_array, json_array_length, json_group_array, instr, casefold, and min and max of two numbers. What comes out of JSON
is text: `CAST(… AS BIGINT)` where it is a number. `INDEXED BY` is a hint. `make test-cluster` tries it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from recollect.domain.forgetting import Looked


class Row(Protocol):
    """Its values in order, by place and by the names of their columns."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def keys(self) -> Iterable[str]: ...


Parameters = dict[str, Any] | Sequence[Any] | Row


class Connection(Protocol):
    """What an operation of the journal gets: all that it runs is one transaction."""

    kept: dict[str, Any]
    """What one transaction that writes leaves for the next ones to look up without a query."""

    def run(self, sql: str, parameters: Parameters = (), /) -> int:
        """Returns how many rows it changed."""

    def many(self, sql: str, rows: Iterable[Row | Sequence[Any]], /) -> None:
        """Run one statement for each row of parameters."""

    def one(self, sql: str, parameters: Parameters = (), /) -> Any:
        """The first Row that the statement gives; None where it gives none."""

    def all(self, sql: str, parameters: Parameters = (), /) -> list[Row]:
        """All rows that the statement gives."""


T = TypeVar("T")
Operation = Callable[[Connection], T]


@dataclass(frozen=True, slots=True)
class Leader:
    """The one of several servers on a journal that writes it: where it is reached, and what lets the others' command
    lines act as its operator.
    """

    address: str
    operator: str

    def written(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, written: str) -> Self:
        return cls(**json.loads(written))


class Connector(Protocol):
    """Runs operations on a database: one transaction each."""

    name: str
    """Where the database is, for messages: without a password."""

    engine: str
    """Which database it is, and where, for an operator: without user and password."""

    @property
    def groups(self) -> int:
        """How many transactions were committed; operations that arrive together share one."""

    @property
    def operations(self) -> int: ...

    async def exists(self) -> bool:
        """Whether there is a journal already; asked before `open`, which makes one. One without a row may be none."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""

    async def close(self) -> None:
        """Finish the queued writes and close the connections."""

    def problem(self) -> str | None:
        """What kept the last write from being made, in words; None when it was made."""

    async def write(self, operation: Operation[T], *, urgent: bool = False) -> T:
        """Committed and durable when it returns. An operation that raises is undone alone.

        An urgent one goes ahead of others that wait, and never waits for more than one that has not begun.
        """

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        """Run what only reads, on every write before it; with `snapshot` all of its statements see one moment."""

    async def copy_to(self, file: Path) -> None:
        """The journal, as it is at one moment, as a new SQLite file; durable when it returns."""

    async def take(self, file: Path, *, replaces: bool = False) -> None:
        """While closed: become the journal that is in a SQLite file, which goes. There must be none yet, unless the file
        `replaces` it: whatever ends this, the old one is whole or the new one is.
        """

    async def damage(self) -> list[str]:
        """What is wrong with the database itself, in words."""

    async def overwrite(self) -> None:
        """Leave no byte of a row that was deleted."""

    async def fold_log(self) -> None:
        """Leave nothing in the log that is no longer in the tables. Raises Unavailable while somebody reads."""

    async def remains(self) -> list[Looked]:
        """Where bytes of deleted rows could be left, and whether any are."""
