"""The folders of generations, which of them is live, and how their compaction went."""

import json
import logging
import os
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recollect.domain.recall.rows import Generation
from recollect.failpoints import FailPoints
from recollect.infra.vault_read import sync

UNKNOWN_FORMAT = 0
"""Of a folder whose `generation.json` is missing or damaged: what is in it can only be discarded."""

_LIVE = "live.json"
_DESCRIPTION = "generation.json"
_BESIDE = ".tmp"
_log = logging.getLogger("recollect.index")


class GenerationFiles:
    """`<folder>/<name>/generation.json` for each generation, and `<folder>/live.json`. Blocking."""

    def __init__(self, folder: Path, fail_points: FailPoints) -> None:
        self.folder = folder
        self._fail_points = fail_points

    def path(self, name: str) -> Path:
        if not _is_name(name):
            raise ValueError(f"{name!r} cannot be the name of a generation")
        return self.folder / name

    def read(self, name: str) -> Generation | None:
        """None where there is no such generation, or its description is damaged."""
        described = _read_object(self.path(name) / _DESCRIPTION)
        if described is None:
            return None
        try:
            generation = Generation(
                name=name,
                format=int(described["format"]),
                model=None if described["model"] is None else str(described["model"]),
                dimensions=int(described["dimensions"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("the description of index generation %s is damaged: %r", name, error)
            return None
        return generation if described.get("name") == name else None

    def list_all(self) -> list[Generation]:
        if not self.folder.is_dir():
            return []
        names = sorted(path.name for path in self.folder.iterdir() if path.is_dir() and _is_name(path.name))
        return [self.read(name) or Generation(name, UNKNOWN_FORMAT) for name in names]

    def live_name(self) -> str | None:
        live = _read_object(self.folder / _LIVE)
        if live is None:
            return None
        name = live.get("generation")
        if isinstance(name, str) and _is_name(name):
            return name
        _log.warning("%s names no generation", _LIVE)
        return None

    def live(self) -> Generation | None:
        name = self.live_name()
        if name is None:
            return None
        generation = self.read(name)
        if generation is None:
            _log.warning("the live index generation %s is missing or damaged", name)
        return generation

    def create(self, generation: Generation) -> None:
        """The same again is fine; another of the same name is a ValueError."""
        there = self.read(generation.name)
        if there not in (None, generation):
            raise ValueError(f"there is another generation {generation.name!r}")
        self.describe(generation)

    def describe(self, generation: Generation) -> None:
        folder = self.path(generation.name)
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / _DESCRIPTION, asdict(generation))
        sync(self.folder)

    def promote(self, name: str) -> None:
        if self.read(name) is None:
            raise ValueError(f"there is no generation {name!r}")
        self._fail_points.reach("index.promoting")
        _replace(self.folder / _LIVE, {"generation": name})
        self._fail_points.reach("index.promoted")

    def begin_discard(self, name: str) -> None:
        """From here on nothing takes it for a generation that can be used."""
        if self.live_name() == name:
            raise ValueError("the live generation cannot be discarded")
        (self.path(name) / _DESCRIPTION).unlink(missing_ok=True)

    def finish_discard(self, name: str) -> None:
        if self.path(name).is_dir():
            shutil.rmtree(self.path(name))
            sync(self.folder)

    def size(self) -> tuple[int, int]:
        """How many files there are, and their bytes together."""
        files = total = 0
        for folder, _, names in os.walk(self.folder):  # Passes over folders that are gone by now.
            for name in names:
                with suppress(FileNotFoundError):  # Compaction was faster.
                    total += Path(folder, name).stat().st_size
                    files += 1
        return files, total


def _is_name(name: str) -> bool:
    return name == Path(name).name and name != "" and not name.startswith(".")


def _read_object(path: Path) -> dict[str, Any] | None:
    """None where the file is missing, unreadable or no JSON object; all but the first is logged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read: %s", path.name, error)
        return None
    if isinstance(found, dict):
        return found
    _log.warning("%s is damaged", path.name)
    return None


def _replace(path: Path, content: dict[str, Any]) -> None:
    """All or nothing, durable when this returns."""
    beside = path.with_name(path.name + _BESIDE)
    with beside.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync(path.parent)


class Upkeep:
    """Failures so far, and which tables still wait for a compaction that succeeds."""

    def __init__(self) -> None:
        self.failures = 0
        self._problems: dict[Path, str] = {}

    @property
    def last_problem(self) -> str | None:
        return next(reversed(list(self._problems.values())), None)

    def failed(self, table: Path, error: BaseException) -> None:
        self.failures += 1
        self._problems[table] = f"the index could not be compacted: {type(error).__name__}"
        _log.warning("a table of the index could not be compacted: %s", error)

    def succeeded(self, table: Path) -> None:
        self._problems.pop(table, None)

    def discarded(self, folder: Path) -> None:
        """What was wrong with tables that are gone is no problem any more."""
        self._problems = {table: said for table, said in self._problems.items() if table.parent != folder}
