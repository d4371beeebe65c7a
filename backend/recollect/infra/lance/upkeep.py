"""How compaction fares, for operators."""

import logging
from pathlib import Path

_log = logging.getLogger("recollect.index")


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
