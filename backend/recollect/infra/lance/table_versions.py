"""Every version of every table that is on the disk, in every generation: what a search never sees."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from recollect.errors import IndexUnavailable
from recollect.infra.lance.index import LanceIndex
from recollect.memory.forgetting import StoredVersion

_SUFFIX = ".lance"
_log = logging.getLogger("recollect.index")


class TableVersions:
    """Reads the tables that `LanceIndex` writes, each while that leaves it alone, and never changes them."""

    def __init__(self, folder: Path, index: LanceIndex) -> None:
        self._folder = folder
        self._index = index

    async def all_versions(self) -> list[StoredVersion]:
        """Ids alone, without texts. Raises IndexUnavailable where a version cannot be read."""
        paths = await asyncio.to_thread(lambda: sorted(self._folder.glob(f"*/*{_SUFFIX}")))
        found: list[StoredVersion] = []
        for path in paths:
            found += await self._index.in_lane(path.parent.name, path.stem, partial(_versions, path))
        return found


def _versions(path: Path) -> list[StoredVersion]:
    if not path.exists():  # Dropped since the folder was listed.
        return []
    try:
        return list(_versions_of(path))
    except BaseException as error:  # A panic of LanceDB's is no Exception.
        _log.warning("a version of a table of the index cannot be read: %s", error)
        raise IndexUnavailable("an old version of the index cannot be read; the log says why") from error


def _versions_of(path: Path) -> Iterator[StoredVersion]:
    import lancedb

    table: Any = lancedb.connect(path.parent).open_table(path.stem)
    for version in table.list_versions():
        table.checkout(version["version"])
        read = table.search().select(["row_id", "owner", "sources"]).to_arrow()
        owners = read["owner"].to_pylist()
        rows = zip(read["row_id"].to_pylist(), read["sources"].to_pylist(), strict=True)
        yield StoredVersion(
            path.parent.name,
            owners[0] if owners else "",
            tuple((row_id, tuple(sources or ())) for row_id, sources in rows),
        )
