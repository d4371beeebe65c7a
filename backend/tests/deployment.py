"""Where the homes of tests keep what they hold: in their folders or, with `--deployment=cluster`, in PostgreSQL and S3.

Tests look behind a server, and copy a home, by way of these functions.
"""

import itertools
import shutil
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

import psycopg
import pytest

from recollect.infra.index.bucket import IndexBucket
from recollect.infra.index.places import IndexFolder, Place
from recollect.infra.object_stores import objects_at
from recollect.infra.objects import INDEX, Changed
from recollect.infra.s3_objects import S3Objects
from tests import buckets
from tests.files_under import files_under
from tests.postgres import OWNER, cluster_of_session

_numbers = itertools.count()


class Folder:
    """The vault of a home as a person finds it, who saves only where nobody did since they looked."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def files(self, folder: str = "") -> dict[str, bytes]:
        """Every file below a folder of the vault, by its path in the vault."""
        found = files_under(self._root / folder)
        return {path.relative_to(self._root).as_posix(): content for path, content in found.items()}

    def read(self, path: str) -> tuple[str, Any] | None:
        """Its text, and what tells whether it was changed since; None where there is none."""
        file = self._root / path
        try:
            return file.read_text(encoding="utf-8"), file.stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def modified(self, path: str) -> int:
        return (self._root / path).stat().st_mtime_ns

    def save(self, path: str, text: str, seen: Any, *, by_renaming: bool) -> bool:
        """As editors do, in place or by renaming; returns whether it was as it was `seen`."""
        file = self._root / path
        beside = file.with_name(f".{file.name}.swp")
        try:
            beside.write_text(text, encoding="utf-8", newline="")
            if file.stat().st_mtime_ns != seen:
                beside.unlink()
                return False
            if by_renaming:
                beside.replace(file)
            else:
                beside.unlink()
                file.write_text(text, encoding="utf-8", newline="")
        except FileNotFoundError:
            return False
        return True


class Bucket(Folder):
    """The same of objects: one is saved at once, if its ETag is the one that was seen."""

    def __init__(self, url: str) -> None:
        self._objects = objects_at(url)

    def files(self, folder: str = "") -> dict[str, bytes]:
        found = ((each.path, self._objects.get(each.path)) for each in self._objects.list(folder))
        return {path: held.content for path, held in found if held is not None}

    def read(self, path: str) -> tuple[str, Any] | None:
        found = self._objects.get(path)
        return None if found is None else (found.content.decode(), found.etag)

    def modified(self, path: str) -> int:
        found = self._objects.get(path)
        return 0 if found is None else found.modified_ms

    def save(self, path: str, text: str, seen: Any, *, by_renaming: bool) -> bool:
        try:
            self._objects.put(path, text.encode(), seen)
        except Changed:
            return False
        return True

    def copy(self, url: str) -> None:
        """Everything, to a prefix that nobody has used."""
        there = S3Objects(url)
        for path, content in self.files().items():
            there.replace(path, content)


class Homes:
    """Each in its folder."""

    def settings(self, home: Path) -> dict[str, str]:
        """What a server of this home is told of where it keeps what it holds."""
        return {}

    def vault(self, home: Path) -> Folder:
        return Folder(home / "vault")

    def rows(self, home: Path, sql: str) -> list[Any]:
        """Of the journal, whoever has it open; nothing while it is made."""
        try:
            with sqlite3.connect(f"file:{home / 'journal.db'}?mode=ro", uri=True) as journal:
                return journal.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []

    def held(self, home: Path) -> dict[Path, bytes]:
        """All bytes that a home holds, by file, or by what stands for one."""
        return files_under(home)

    def index(self, folder: Path) -> Place:
        """An index of its own for this folder; again for the same one, what another process finds there."""
        return IndexFolder(folder)

    def remove_index(self, folder: Path) -> None:
        shutil.rmtree(folder)

    def copy(self, home: Path, target: Path) -> Path:
        """Of a home that nobody has open."""
        return shutil.copytree(home, target)


class ClusterHomes(Homes):
    """Each with a database and a prefix of its own, which go with the session."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[str, str]] = {}
        """By home its database and its prefix."""
        self._indexes: defaultdict[Path, str] = defaultdict(lambda: f"{buckets.new_url()}/{INDEX}")

    def settings(self, home: Path) -> dict[str, str]:
        database, files = self._places(home)
        return {"database_url": self._url(database), "files_url": files}

    def vault(self, home: Path) -> Bucket:
        return Bucket(self._places(home)[1])

    def rows(self, home: Path, sql: str) -> list[Any]:
        try:
            with self._journal(home) as journal:
                return journal.execute(sql.encode()).fetchall()
        except psycopg.errors.UndefinedTable:
            return []

    def held(self, home: Path) -> dict[Path, bytes]:
        objects = {Path("s3:", path): content for path, content in self.vault(home).files().items()}
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        rows = {Path("postgres:", name): self._bytes_of(home, name) for (name,) in self.rows(home, tables)}
        return files_under(home) | objects | rows

    def index(self, folder: Path) -> Place:
        return IndexBucket(S3Objects(self._indexes[folder]))

    def remove_index(self, folder: Path) -> None:
        objects = S3Objects(self._indexes[folder])
        objects.delete([each.path for each in objects.list()])

    def copy(self, home: Path, target: Path) -> Path:
        self._known[target] = self._new_database(f"TEMPLATE {self._places(home)[0]}"), buckets.new_url()
        self.vault(home).copy(self._known[target][1])
        return super().copy(home, target)

    def _places(self, home: Path) -> tuple[str, str]:
        if home not in self._known:
            self._known[home] = self._new_database(), buckets.new_url()
        return self._known[home]

    def _new_database(self, more: str = "") -> str:
        """Waits for whoever is still connected to a template."""
        name = f"home_{next(_numbers)}"
        with cluster_of_session().operator() as operator:
            operator.execute(f"CREATE DATABASE {name} OWNER {OWNER} {more}".encode())
        return name

    def _url(self, database: str) -> str:
        return f"postgresql://{OWNER}:hunter2@127.0.0.1:{cluster_of_session().port}/{database}"

    def _journal(self, home: Path) -> psycopg.Connection[Any]:
        return cluster_of_session().inside(self._url(self._places(home)[0]))

    def _bytes_of(self, home: Path, table: str) -> bytes:
        """Its rows in the format in which text and bytes stay as they are."""
        command = f"COPY {table} TO STDOUT (FORMAT binary)".encode()
        with self._journal(home) as journal, journal.cursor() as cursor, cursor.copy(command) as copied:
            return b"".join(copied)


HOMES: Homes = Homes()
"""Of this session: `--deployment`."""


def only_in_folders(why: str) -> None:
    """Skips the test that calls it, where homes keep nothing in their folders."""
    if isinstance(HOMES, ClusterHomes):
        pytest.skip(why)
