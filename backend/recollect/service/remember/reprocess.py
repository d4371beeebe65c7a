"""Reprocess: make the memories of memcells again, with the model and the prompts that are in force now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recollect.domain.access import Caller
from recollect.domain.model import ThreadRef
from recollect.domain.strategy import ON_CELLS, Tuning, cell_job
from recollect.errors import InvalidInput
from recollect.infra.journal.cells import SqlCellTexts, SqlModelAnswers
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.threads import owned_thread


@dataclass(frozen=True, slots=True)
class Queued:
    """What was asked for."""

    memcells: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Reprocessor:
    """Queues the memcells' jobs again. What they write takes the place of what they wrote before; nothing is doubled."""

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
            # Where no answer could be used, the model is asked again in any case.
            await self.answers.forget_cells(caller.space, [cell], only_failed=not ask_again)
            jobs += await self._queue(thread, cell, wanted)
        return Queued(len(found), jobs)

    async def _queue(self, ref: ThreadRef, cell: str, strategies: Sequence[str]) -> int:
        if not strategies or await self.threads.find(ref) is None:
            return 0
        names = [each.name for each in ON_CELLS if each.name in strategies]
        await self.entries.queue(ref.space, ref, [cell_job(ref.space, ref.user_id, cell, names, asked=True)])
        return 1
