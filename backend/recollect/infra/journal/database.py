"""What the journal's stores hold: SQL and operations, which the connector to its database runs."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from recollect.errors import HomeUnusable
from recollect.failpoints import FailPoints
from recollect.infra.journal.connector import Connection, Connector, Leader, Parameters, Row
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.infra.journal.postgres_leader import Leadership

T = TypeVar("T")
P = ParamSpec("P")


class Database:
    """`write` is durable when it returns; `read`, `one` and `query` see every write before it."""

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self.open = connector.open
        self.close = connector.close
        self.write = connector.write
        """Run an operation in a transaction; it is committed and durable when this returns."""
        self.query = connector.read
        """Run an operation on a connection that can only read; it sees one moment, and every write before it."""

    async def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Write by one statement; returns how many rows it changed."""
        return await self.write(lambda connection: connection.run(sql, parameters))

    async def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write by one statement, once for each row, in one transaction."""
        bound = list(rows)
        await self.write(lambda connection: connection.many(sql, bound))

    async def read(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """What one statement finds."""
        return await self.query(lambda connection: connection.all(sql, parameters), snapshot=False)

    async def one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row that one statement finds."""
        return next(iter(await self.read(sql, parameters)), None)


class _Store(Protocol):
    _database: Database


Store = TypeVar("Store", bound=_Store)
Method = Callable[Concatenate[Store, Connection, P], T]
AsyncMethod = Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]


def write_transaction(method: Method[Store, P, T]) -> AsyncMethod[Store, P, T]:
    """Makes a store's method awaitable: it runs in `Database.write`, which gives it the connection."""

    @wraps(method)
    async def run(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._database.write(lambda connection: method(store, connection, *args, **kwargs))  # noqa: SLF001

    return run


def read_transaction(method: Method[Store, P, T]) -> AsyncMethod[Store, P, T]:
    """Makes a store's method awaitable: it runs in `Database.query`, which gives it the connection."""

    @wraps(method)
    async def run(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._database.query(lambda connection: method(store, connection, *args, **kwargs))  # noqa: SLF001

    return run


def journal_connector(
    settings: Settings, fail_points: FailPoints | None = None, leader: Leader | None = None
) -> Connector:
    """To the database that the settings name. `leader`: what other servers on it are told of this process."""
    if settings.postgres_url is None:
        return SqliteConnector(
            settings.journal_path, synchronous=settings.synchronous, fail_points=fail_points
        )
    with _told_of_the_driver():
        from recollect.infra.journal.postgres import PostgresConnector
    return PostgresConnector(
        settings.postgres_url,
        durable=settings.synchronous == "FULL",
        wait_seconds=settings.database_wait_seconds,
        fail_points=fail_points,
        leader=leader,
    )


def leadership_of(settings: Settings) -> "Leadership":
    """Who leads the servers on the journal that the settings name."""
    if settings.postgres_url is None or settings.files_url is None:
        raise HomeUnusable(
            "RECOLLECT_MEMBER_URL makes this one of several servers, which share a journal in PostgreSQL and their"
            " files: set RECOLLECT_DATABASE_URL=postgresql://… and RECOLLECT_FILES_URL=s3://… or file:///…, too"
        )
    with _told_of_the_driver():
        from recollect.infra.journal.postgres import name_of
        from recollect.infra.journal.postgres_leader import Leadership
    return Leadership(settings.postgres_url, name_of(settings.postgres_url))


@contextmanager
def _told_of_the_driver() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise HomeUnusable(
            "RECOLLECT_DATABASE_URL names PostgreSQL, whose driver is not installed: pip install 'recollect[postgres]'"
        ) from error
