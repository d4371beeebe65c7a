"""Reprocess: make the memories of memcells again, with the model and the prompts that are in force now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recollect.domain.access import Caller
from recollect.domain.job import JobSpec
from recollect.domain.model import ThreadRef
from recollect.domain.paths import agent_folder, owner_folder
from recollect.domain.strategy import STRATEGIES, STRATEGY, Tuning, memory_lane
from recollect.errors import InvalidInput
from recollect.infra.journal.cells import SqlCellTexts, SqlModelAnswers
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.threads import owned_thread

ON_CELLS = tuple(strategy for strategy in STRATEGIES if strategy.on == "memcell closed")


@dataclass(frozen=True, slots=True)
class Queued:
    """What was asked for."""

    memcells: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Reprocessor:
    """Queues the strategies again. What they write takes the place of what they wrote before; nothing is doubled."""

    threads: SqlThreadStore
    cells: SqlCellTexts
    answers: SqlModelAnswers
    entries: SqlEntryStore
    tuning: Callable[[], Tuning]

    async def reprocess(
        self,
        caller: Caller,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        strategies: Sequence[str] = (),
        ask_again: bool = False,
    ) -> Queued:
        """`strategies`: only these, also where they are switched off; none: all that are on.

        `ask_again`: kept answers of the model are dropped, so that it is asked again.
        """
        names = [strategy.name for strategy in ON_CELLS]
        unknown = [name for name in strategies if name not in names]
        if unknown:
            raise InvalidInput(
                f"there is no strategy {unknown[0]!r}; there are {', '.join(names)}", field="strategies"
            )
        user_id = caller.acting_for(user_id)
        if thread_id is not None:
            user_id = (await owned_thread(self.threads, caller, thread_id, user_id)).user_id
        wanted = strategies or [name for name in names if name in self.tuning().triggers]
        found = await self.cells.cells_of(caller.space, user_id, thread_id)
        jobs = 0
        for thread, cell in found:
            if ask_again:
                await self.answers.forget_cells(caller.space, [cell])
            jobs += await self._queue(thread, cell, wanted)
        return Queued(len(found), jobs)

    async def _queue(self, ref: ThreadRef, cell: str, strategies: Sequence[str]) -> int:
        thread = await self.threads.find(ref)
        if thread is None:
            return 0
        owners = {
            "chat": owner_folder(ref.space, ref.user_id),
            "agent": agent_folder(ref.space, thread.agent_id),
        }
        wanted = [each for each in ON_CELLS if each.name in strategies]
        jobs = [
            JobSpec(
                STRATEGY,
                memory_lane(owners[each.for_mode]),
                {"strategy": each.name, "owner": owners[each.for_mode], "cell": cell, "asked": True},
                f"{each.name}:{cell}",
            )
            for each in wanted
        ]
        await self.entries.queue(ref.space, ref, jobs)
        return len(jobs)
