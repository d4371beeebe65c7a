"""The strategies that make memories: which are on, and how each job runs its own."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from recollect.domain.job import Job
from recollect.domain.strategy import STRATEGIES, Trigger, Tuning, causes_of, strategies_of, tuning_of
from recollect.errors import HomeUnusable
from recollect.infra.journal.entries import SqlEntryStore
from recollect.service.remember.consolidate import OFF, leave_receipts
from recollect.setting_groups import StrategySettings, TimedStrategySettings
from recollect.settings import TOML_NAME, Settings, load_settings

_LOOK_SECONDS = 1.0
_log = logging.getLogger("recollect.settings")


class LiveTuning:
    """Reads the settings again when their file has changed. What can't be read changes nothing, and is shown."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home
        self._path = settings.home / TOML_NAME
        self._stamp = self._stamped()
        self._looked = time.monotonic()
        self._tuning = _tuning(settings)
        self._problem: str | None = None

    def __call__(self) -> Tuning:
        if (now := time.monotonic()) - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._look()
        return self._tuning

    @property
    def problem(self) -> str | None:
        """Why the settings as they are now are not in force, in words."""
        self()
        return self._problem

    def _look(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._tuning = _tuning(load_settings(home=self._home))
            self._problem = None
            _log.info("the strategies follow the changed settings")
        except HomeUnusable as error:
            self._problem = f"the changed settings are not in force: {error.message}"
            _log.error("%s", self._problem)

    def _stamped(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


def _tuning(settings: Settings) -> Tuning:
    chosen = {
        each.name: _trigger(getattr(settings.strategies, each.name), each.trigger) for each in STRATEGIES
    }
    return tuning_of(chosen, settings.memorize.mode)


def _trigger(given: StrategySettings, default: Trigger) -> Trigger | None:
    if not given.enabled:
        return None
    if not isinstance(given, TimedStrategySettings):
        return default
    return Trigger(
        every=default.every if given.every is None else given.every,
        idle_seconds=default.idle_seconds if given.idle_seconds is None else given.idle_seconds,
        at=given.at,
    )


Run = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StrategyWork:
    """The handler of all strategy jobs."""

    on_memcell: Run
    """All strategies of a memcell."""
    strategies: Mapping[str, Run]
    """The others, by their names."""
    tuning: Callable[[], Tuning]
    entries: SqlEntryStore

    async def handle(self, job: Job) -> None:
        if "cell" in job.payload:
            await self.on_memcell(job)
            return
        (name,) = strategies_of(job)
        if job.payload.get("asked") or name in self.tuning().triggers:
            await self.strategies[name](job)
        else:
            told = [(cause, OFF) for cause in causes_of(job)]
            await leave_receipts(self.entries, job.space, str(job.payload["owner"]), name, told)
