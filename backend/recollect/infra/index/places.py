"""Where the index is: a folder of the home or, where several servers share a journal, a prefix of the shared files."""

import json
import logging
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from recollect.infra.vault_read import sync

if TYPE_CHECKING:
    import lancedb

LIVE, DESCRIPTION, TERM, LEADER = "live.json", "generation.json", "term", "leader"
_SUFFIX = ".lance"
TABLE_PREFIX = "o_"
_NEVER_READ_AGAIN = "_transactions"
"""Only writers in other processes would need it, and there are none."""
_log = logging.getLogger("recollect.index")


class TablePlace(Protocol):
    """Where one owner's table is. For one thread at a time, as the table is."""

    fewest_files: int
    """A table of fewer is not compacted by itself."""

    def connect(self, session: Any) -> "lancedb.DBConnection": ...

    def current(self) -> str | None:
        """What LanceDB calls the table; None where there is none."""

    def is_ours(self) -> bool:
        """False for one that another process made: it is copied before anything is written."""

    def last_known_version(self) -> int: ...

    def begin(self) -> str:
        """A name for a table that is to be made. Nothing sees it before `put_in_place`."""

    def put_in_place(self, name: str) -> None:
        """What was made takes the place of what was there; durable when this returns."""

    def settle(self) -> int:
        """Make what was written durable. Returns how many files the table has."""

    def opened(self) -> None:
        """What is there now was found there, and needs no `settle`."""

    def files_in(self, folder: str, suffix: str = "") -> list[str]: ...

    def remove(self) -> None:
        """Remove the table. One that was left half-removed is removed by the next."""

    def remove_leftovers(self) -> None:
        """Of what was killed, or taken away: all but the table itself."""

    def names(self) -> list[str]:
        """Every table there is under one of its names, for whoever looks for what should be gone."""

    def is_unreachable(self, error: BaseException) -> bool:
        """Whether nothing is known of the table, because what holds it does not answer."""


class Place(Protocol):
    """All of the index. Raises OSError where a folder fails, and StorageUnavailable where nothing answers."""

    @property
    def mark(self) -> str:
        """Ends the names of generations that are made here from now on."""

    patience: float | None
    """Seconds after which a person waits for a table no more; what was begun goes on."""

    fewest_texts: int
    """Of a user who has as many, so many are embedded together: a write of few costs as much as one of many."""

    def open(self) -> None:
        """Nothing that another process still writes counts from now on."""

    def refuse_while_down(self) -> None:
        """Raises StorageUnavailable where another try a moment ago failed."""

    def went_down(self, why: str) -> None:
        """Something found that nothing answers."""

    def read(self, path: str) -> bytes | None: ...

    def replace(self, path: str, content: bytes) -> None:
        """All or nothing, durable when this returns."""

    def replace_live(self, content: dict[str, Any]) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_all(self, folder: str) -> None: ...

    def folders(self) -> list[str]: ...

    def size(self) -> tuple[int, int]:
        """Files and bytes."""

    def tables(self, generation: str) -> list[str]:
        """The owners' tables that can be searched."""

    def all_tables(self) -> list[tuple[str, str]]:
        """Generation and name of every owner's table, those half-made or left behind included."""

    def table(self, generation: str, name: str) -> TablePlace: ...


def table_names(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(TABLE_PREFIX))


class IndexFolder:
    """In a folder that no other process uses."""

    mark = ""
    patience: float | None = None
    fewest_texts = 1

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self) -> None:
        """Whoever has the home has its folder."""

    def refuse_while_down(self) -> None:
        """A folder that fails is tried again at once."""

    def went_down(self, why: str) -> None: ...

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            _log.warning("%s cannot be read: %s", Path(path).name, error)
            return None

    def replace(self, path: str, content: bytes) -> None:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"{file.name}.tmp")
        with beside.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(file)
        sync(file.parent)
        sync(self._root)

    def replace_live(self, content: dict[str, Any]) -> None:
        self.replace(LIVE, json.dumps(content).encode())

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def remove_all(self, folder: str) -> None:
        if (self._root / folder).is_dir():
            shutil.rmtree(self._root / folder)
            sync(self._root)

    def folders(self) -> list[str]:
        found = self._root.iterdir() if self._root.is_dir() else ()
        return sorted(path.name for path in found if path.is_dir())

    def size(self) -> tuple[int, int]:
        files = total = 0
        for folder, _, names in os.walk(self._root):  # Passes over folders that are gone by now.
            for name in names:
                with suppress(FileNotFoundError):  # Compaction was faster.
                    total += Path(folder, name).stat().st_size
                    files += 1
        return files, total

    def tables(self, generation: str) -> list[str]:
        return table_names(path.stem for path in (self._root / generation).glob(f"*{_SUFFIX}"))

    def all_tables(self) -> list[tuple[str, str]]:
        paths = self._root.glob(f"*/*{_SUFFIX}")
        return sorted({(path.parent.name, path.stem.removeprefix("new_")) for path in paths})

    def table(self, generation: str, name: str) -> "TableFolder":
        return TableFolder(self._root / generation, name)


class TableFolder:
    """LanceDB never syncs what it writes, so this does. A table is made under another name and renamed: one that has
    its name is whole.
    """

    fewest_files = 96

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._path = folder / f"{name}{_SUFFIX}"
        self._being_made = folder / f"new_{name}{_SUFFIX}"
        self._being_dropped = folder / f"dropped_{name}"
        self._synced: set[Path] = set()

    def connect(self, session: Any) -> "lancedb.DBConnection":
        import lancedb

        return lancedb.connect(self._folder, session=session)

    def current(self) -> str | None:
        return self._name if self._path.is_dir() else None

    def is_ours(self) -> bool:
        return True

    def last_known_version(self) -> int:
        """LanceDB notes it beside the versions, and otherwise takes the newest that it finds for the newest there is."""
        try:
            hint = (self._path / "_versions" / "latest_version_hint.json").read_bytes()
            return int(json.loads(hint)["version"])
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return 0  # No more than a hint: it is not synced, and may be torn.

    def begin(self) -> str:
        self.remove_leftovers()
        return self._being_made.stem

    def put_in_place(self, name: str) -> None:
        made = self._folder / f"{name}{_SUFFIX}"
        _sync({path for path in made.rglob("*") if path.is_file()})
        sync(made)
        if self._path.is_dir():
            self._path.rename(self._being_dropped)
        made.rename(self._path)
        sync(self._folder)
        self.remove_leftovers()

    def settle(self) -> int:
        files = self._all_files()
        new = {path for path in files - self._synced if path.parent.name != _NEVER_READ_AGAIN}
        _sync(new)
        if {path.parent for path in new} - {path.parent for path in self._synced}:
            sync(self._path)
        self._synced = files
        return len(files)

    def opened(self) -> None:
        self._synced = self._all_files()

    def files_in(self, folder: str, suffix: str = "") -> list[str]:
        path = self._path / folder
        return [file.name for file in path.iterdir() if file.name.endswith(suffix)] if path.is_dir() else []

    def remove(self) -> None:
        self.remove_leftovers()
        if self._path.is_dir():
            self._path.rename(self._being_dropped)
            sync(self._folder)
            self.remove_leftovers()

    def remove_leftovers(self) -> None:
        for leftover in (self._being_made, self._being_dropped):
            if leftover.exists():
                shutil.rmtree(leftover)
                sync(self._folder)

    def names(self) -> list[str]:
        return [path.stem for path in (self._path, self._being_made) if path.exists()]

    def is_unreachable(self, error: BaseException) -> bool:
        return False

    def _all_files(self) -> set[Path]:
        return {Path(folder, name) for folder, _, names in os.walk(self._path) for name in names}


def _sync(files: set[Path]) -> None:
    for path in [*files, *{path.parent for path in files}]:
        sync(path)
