"""Running strategies: each job names its own, and one that is switched off meanwhile does nothing."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from recollect.memory.job import Job
from recollect.memory.strategy import Tuning

Run = Callable[[Job], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StrategyWork:
    """The handler of all strategy jobs."""

    strategies: Mapping[str, Run]
    tuning: Callable[[], Tuning]

    async def handle(self, job: Job) -> None:
        name = str(job.payload["strategy"])
        if job.payload.get("asked") or name in self.tuning().triggers:
            await self.strategies[name](job)
