"""Running strategies: each job names its own, and one that is switched off meanwhile says so and does nothing else."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from recollect.memory.job import Job
from recollect.memory.model import JsonObject
from recollect.memory.strategy import Cause, Tuning, causes_of
from recollect.service.ports import EntryStore
from recollect.service.strategy_receipts import leave_receipts

Run = Callable[[Job], Awaitable[None]]
_OFF: JsonObject = {"state": "off", "why": "the strategy is switched off"}


@dataclass(frozen=True, slots=True)
class StrategyWork:
    """The handler of all strategy jobs."""

    strategies: Mapping[str, Run]
    tuning: Callable[[], Tuning]
    entries: EntryStore

    async def handle(self, job: Job) -> None:
        name = str(job.payload["strategy"])
        if job.payload.get("asked") or name in self.tuning().triggers:
            await self.strategies[name](job)
        else:
            told = [(cause, _OFF) for cause in _about(job)]
            await leave_receipts(self.entries, job.space, str(job.payload["owner"]), name, told)


def _about(job: Job) -> list[Cause]:
    cell = job.payload.get("cell")
    return [Cause(str(job.thread_id), str(cell))] if cell is not None else causes_of(job.payload)
