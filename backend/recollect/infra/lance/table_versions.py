"""Every version of every table that is on the disk, in every generation: what a search never sees."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.errors import IndexUnavailable
from recollect.memory.forgetting import StoredVersion

_SUFFIX = ".lance"
_log = logging.getLogger("recollect.index")


class TableVersions:
    """Reads the tables that `LanceIndex` writes, and never changes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def all_versions(self) -> list[StoredVersion]:
        """Ids alone, without texts. Raises IndexUnavailable where a version cannot be read."""
        return await asyncio.to_thread(lambda: list(self._versions()))

    def _versions(self) -> Iterator[StoredVersion]:
        for path in sorted(self._folder.glob(f"*/*{_SUFFIX}")):
            try:
                yield from _versions_of(path)
            except IndexUnavailable:
                raise
            except BaseException as error:  # A panic of LanceDB's is no Exception.
                _log.warning("a version of a table of the index cannot be read: %s", error)
                raise IndexUnavailable(
                    "an old version of the index cannot be read; the log says why"
                ) from error


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
