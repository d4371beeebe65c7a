"""A connection to the journal's PostgreSQL: the shared SQL in its words, its rows, and its errors in ours."""

import functools
import re
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import psycopg
import psycopg.types.numeric
import psycopg.types.string
from psycopg import conninfo, pq
from psycopg.adapt import Dumper, Loader

from recollect.errors import HomeUnusable, InvalidInput, StorageUnavailable, Unavailable
from recollect.infra.journal.connector import Parameters, Row

T = TypeVar("T")
UNDER_WAY = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)
RETRY_AFTER = 5.0
"""Seconds after which a client may ask again when the database is away."""
_OLDEST_SERVER = 15
_PING_SECONDS = 2
_REFUSED_SECONDS = 1.0
_TOKEN = re.compile(
    r"'(?:[^']|'')*'|(?<![:\w]):([a-z_]\w*)( IS NULL| IS NOT NULL)?|(\?)|\bINDEXED BY \w+|%"
    r"|\b(json_array|json_group_array|casefold)\("
)
_IS_NULL = " is null"
_OURS = {
    "json_array": "json_build_array",
    "json_group_array": "json_agg",
    "casefold": "recollect_casefold",
}


@functools.lru_cache(maxsize=4000)
def in_postgres_words(sql: str) -> tuple[bytes, frozenset[str]]:
    """The statement with the driver's placeholders, and without hints to SQLite's planner.

    Whether a named parameter is NULL is a parameter of its own, since NULL alone has no type: the second value has the
    names of those that are asked that.
    """
    asked: set[str] = set()

    def token(found: re.Match[str]) -> str:
        name, is_null, mark, function = found.groups()
        if function:
            return f"{_OURS[function]}("
        if is_null:
            asked.add(name)
            return f"%({name}{_IS_NULL})s = {int(is_null == ' IS NULL')}"
        if name or mark:
            return f"%({name})s" if name else "%s"
        return "" if found[0].startswith("INDEXED") else found[0].replace("%", "%%")

    return _TOKEN.sub(token, sql).encode(), frozenset(asked)


class PostgresRow(tuple[Any, ...]):
    """Its values in order, by place and by the names of their columns."""

    __slots__ = ()
    places: ClassVar[dict[str, int]] = {}

    def __getitem__(self, key: Any, /) -> Any:
        return super().__getitem__(self.places[key] if isinstance(key, str) else key)

    def keys(self) -> Iterable[str]:
        return self.places


@functools.lru_cache(maxsize=4000)
def _row_class(names: tuple[str, ...]) -> type[PostgresRow]:
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    return type("PostgresRow", (PostgresRow,), {"places": places, "__slots__": ()})


def _rows_of(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], PostgresRow]:
    return _row_class(tuple(column.name for column in cursor.description or ()))


class _NumberDumper(Dumper):
    """Numbers and truth values are bigint, whatever their size: a statement is prepared once."""

    oid = psycopg.adapters.types["int8"].oid

    def dump(self, obj: Any) -> bytes:
        return b"%d" % obj

    def quote(self, obj: Any) -> bytes:
        return b"%d" % obj


class _WholeLoader(Loader):
    """A sum of whole numbers is one, as in SQLite."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)


def without_nul(text: str) -> str:
    """PostgreSQL's texts have no NUL, which a model may write."""
    return text.replace("\0", "\ufffd")


class _TextDumper(psycopg.types.string.StrDumper):
    def dump(self, obj: str) -> Any:
        return super().dump(without_nul(obj))


class JournalDriver(psycopg.Connection[Any]):
    """psycopg's connection, with the values of the journal as SQLite gives and takes them."""

    patience: float | None = None
    """Seconds that a statement may take; then it raises OperationalError, and the connection is of no more use.

    It may be changed by another thread, for the statement that is under way too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row_factory = _rows_of
        adapters = self.adapters
        adapters.register_dumper(str, _TextDumper)
        adapters.register_dumper(int, _NumberDumper)
        adapters.register_dumper(bool, _NumberDumper)
        adapters.register_loader("json", psycopg.types.string.TextLoader)
        adapters.register_loader("numeric", _WholeLoader)

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        return super().wait(self._in_time(gen), *args, **kwargs)

    def _in_time(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The driver takes a step at every answer, and ten times a second without one."""
        began = time.monotonic()
        try:
            waits_for = next(steps)
            while True:
                waits_for = steps.send((yield waits_for))
                if self.patience is not None and time.monotonic() - began > self.patience:
                    raise psycopg.OperationalError(f"no answer within {self.patience:g} seconds")
        except StopIteration as done:
            result: T = done.value
            return result


Driver = JournalDriver


class PostgresConnection:
    """One of the writer's, or of a reader's."""

    def __init__(self, driver: Driver, kept: dict[str, Any]) -> None:
        self.driver = driver
        self.kept = kept

    def run(self, sql: str, parameters: Parameters = (), /) -> int:
        return self._cursor(sql, parameters).rowcount

    def many(self, sql: str, rows: Iterable[Row | Sequence[Any]], /) -> None:
        bound: list[Any] = list(rows)
        if bound:
            self.driver.cursor().executemany(in_postgres_words(sql)[0], bound)

    def one(self, sql: str, parameters: Parameters = (), /) -> Any:
        return self._cursor(sql, parameters).fetchone()

    def all(self, sql: str, parameters: Parameters = (), /) -> list[Row]:
        return self._cursor(sql, parameters).fetchall()

    def _cursor(self, sql: str, parameters: Parameters) -> psycopg.Cursor[Any]:
        words, asked = in_postgres_words(sql)
        bound: Any = parameters
        if asked:
            bound = dict(bound) | {name + _IS_NULL: bound[name] is None for name in asked}
        return self.driver.execute(words, bound)


_UNLESS_NAMED = {
    "connect_timeout": "5",
    "target_session_attrs": "read-write",
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""Of several servers the primary is taken, and a line that is dead is noticed within 20 seconds."""


def parsed(url: str) -> dict[str, Any]:
    """What libpq makes of an address. Raises HomeUnusable, without a word of it, where no server can be found by it.

    A password with special characters can end up as the host, the port or the database.
    """
    try:
        parts: dict[str, Any] = dict(conninfo.conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        parts = {"host": "@"}
    places = "".join(str(parts.get(part, "")) for part in ("host", "hostaddr", "dbname"))
    ports = str(parts.get("port") or "0").split(",")
    if "@" in places or not all(port.isdecimal() or not port for port in ports):
        raise HomeUnusable(
            "RECOLLECT_DATABASE_URL cannot be read; write postgresql://user:password@host:5432/database,"
            " with special characters of the password percent-encoded"
        )
    return parts


def connected(url: str, name: str, *, application: str, settings: str = "", is_start: bool = False) -> Driver:
    """A connection in which each statement is a transaction, unless one is begun.

    Raises psycopg.OperationalError as long as a server may still come, and HomeUnusable where waiting does not help.
    """
    place = _UNLESS_NAMED | parsed(url) | {"application_name": application}
    try:
        driver = JournalDriver.connect(**place, autocommit=True)
    except psycopg.OperationalError:
        if not is_start or not _answers(url):
            raise
        time.sleep(_REFUSED_SECONDS)
        driver = _connected_or_refused(place, url, name)
    try:
        _refuse_unfit(driver, name)
        driver.execute(settings.encode())
    except BaseException:
        driver.close()
        raise
    return driver


def _connected_or_refused(place: dict[str, Any], url: str, name: str) -> Driver:
    """The second try of a start: the first may have met a server that is about to be ready, or has no connection free."""
    try:
        return JournalDriver.connect(**place, autocommit=True)
    except psycopg.OperationalError as error:
        if not _answers(url):
            raise
        raise HomeUnusable(
            f"PostgreSQL refuses a connection to {name}: {in_a_line(error)}. Check user, password and database in"
            " RECOLLECT_DATABASE_URL; create the database with: createdb -E UTF8 -O <user> <database>"
        ) from error


def _refuse_unfit(driver: Driver, name: str) -> None:
    version = driver.info.server_version // 10_000
    if version < _OLDEST_SERVER:
        raise HomeUnusable(
            f"the server of {name} is PostgreSQL {version}; Recollect needs {_OLDEST_SERVER} or newer. Upgrade it."
        )
    encoding = driver.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise HomeUnusable(
            f"the database {name} is encoded as {encoding}; Recollect needs UTF8. Create another one with:"
            " createdb -E UTF8 -T template0 <database>"
        )


def _answers(url: str) -> bool:
    """Whether a server takes connections at all; told by its protocol, not by its language."""
    asked = conninfo.make_conninfo(url, connect_timeout=_PING_SECONDS)  # Nothing else runs meanwhile.
    return pq.PGconn.ping(asked.encode()) == pq.Ping.OK


def in_a_line(error: BaseException) -> str:
    """What the server said; of an address that `parsed` takes, libpq repeats no password."""
    return " ".join(str(error).split()).removesuffix(".")


def is_lost(driver: Driver, error: Exception) -> bool:
    """The connection broke, or the server ended it: what the transaction did is undone, or was committed unheard.

    One to a server that is no primary any more is lost as well.
    """
    return driver.closed or _broke(error) or getattr(error, "sqlstate", None) == _READ_ONLY


def _broke(error: Exception) -> bool:
    state = getattr(error, "sqlstate", None)
    by_state = state is None or state[:2] == "08" or state[:3] == "57P"
    return isinstance(error, psycopg.OperationalError) and by_state


_READ_ONLY = "25006"
_TOO_LONG = "54000"
_DISK = {
    "53100": "its disk is full. Free some space",
    _READ_ONLY: "it is read-only, as a standby is. Name the primary in RECOLLECT_DATABASE_URL",
    "42501": "its user may not do that. Make it the owner of the database or of a schema in it",
    "58030": "its disk fails. See the log of PostgreSQL",
    "XX001": "it is damaged. See the log of PostgreSQL, and restore a backup",
    "XX002": "it is damaged. See the log of PostgreSQL, and restore a backup",
}
_BUSY = {"53300", "53200", "55P03", "40P01", "40001", "57014"}


def translated(error: Exception, name: str) -> Exception:
    """What an operator can mend, in words; what is our own mistake, without the row that the server quotes with it."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        error.args = (error.diag.message_primary,)
    state = getattr(error, "sqlstate", None)
    if state in _DISK:
        return StorageUnavailable(f"the journal at {name} cannot be written: {_DISK[state]}.")
    if state in _BUSY:
        return Unavailable(f"the journal at {name} is busy: {in_a_line(error)}", retry_after=RETRY_AFTER)
    if state == _TOO_LONG:
        return InvalidInput(
            "ids are too long: PostgreSQL finds a row by at most 2,600 bytes, of all ids of a message or thread together"
        )
    return away(name) if _broke(error) else error


def away(name: str) -> Unavailable:
    return Unavailable(
        f"the journal's PostgreSQL at {name} does not answer; it is asked again and again. Is it running?"
        " A standby, which can only be read, is not taken.",
        retry_after=RETRY_AFTER,
    )
