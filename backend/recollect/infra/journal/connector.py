"""The seam between the journal and its database: a connection runs SQL in a transaction, and rows come back.

SQL above it is written once, in what SQLite and PostgreSQL both know. Parameters are `?` or `:name`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Row(Protocol):
    """Its values in order, by place and by the names of their columns."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def keys(self) -> Iterable[str]: ...


Parameters = dict[str, Any] | Sequence[Any] | Row


class Connection(Protocol):
    """What an operation of the journal gets: all that it runs is one transaction."""

    def run(self, sql: str, parameters: Parameters = (), /) -> int:
        """Returns how many rows it changed."""

    def many(self, sql: str, rows: Iterable[Row | Sequence[Any]], /) -> None:
        """Run one statement for each row of parameters."""

    def one(self, sql: str, parameters: Parameters = (), /) -> Any:
        """The first Row that the statement gives; None where it gives none."""

    def all(self, sql: str, parameters: Parameters = (), /) -> list[Row]:
        """All rows that the statement gives."""
