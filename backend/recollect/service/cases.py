"""Cases: what an agent tried with its tools, from memcells and from chat turns."""

from dataclasses import dataclass

from recollect.memory.extraction.case import has_trajectory
from recollect.memory.job import Job, NotYet
from recollect.memory.known_entry import CASES
from recollect.memory.model import JsonObject
from recollect.memory.remembered import Origin
from recollect.memory.stored_cell import StoredCell
from recollect.memory.vault_paths import agent_folder
from recollect.service.extract import Extracted, Extractor
from recollect.service.ports import CellTexts, EntryStore, PeopleStore
from recollect.service.remember import Remembering
from recollect.service.strategy_receipts import NOTHING

CASE = "case"
_KNOWN: JsonObject = {"state": "known", "why": "there is a case of these turns"}


@dataclass(frozen=True, slots=True)
class Cases:
    """Each stretch of work with tools makes one case, whether its memcell or its chat turn comes first."""

    cells: CellTexts
    entries: EntryStore
    people: PeopleStore
    extractor: Extractor
    remembering: Remembering

    async def handle(self, job: Job) -> None:
        """For jobs of the strategy case."""
        stored = await self.cells.cell(job.space, str(job.thread_id), str(job.payload["cell"]))
        if stored is None:
            return  # Forgotten meanwhile.
        told = await self._learn(stored)
        if "by" not in told:
            owner = agent_folder(job.space, stored.thread.agent_id)
            await self.remembering.leave_receipt(stored, owner, CASE, told)

    async def from_turns(self, job: Job) -> JsonObject:
        """For the work on skills that follows a chat turn: its receipt."""
        turn_ids = [str(turn_id) for turn_id in job.payload["turns"]]
        stored = await self.cells.stretch(job.space, str(job.thread_id), turn_ids)
        return {"state": "forgotten"} if stored is None else await self._learn(stored)

    async def _learn(self, stored: StoredCell) -> JsonObject:
        space, thread = stored.thread.space, stored.thread
        preferences = await self.people.preferences(space, thread.user_id)
        if not preferences.auto_skills:
            return {"state": "off", "why": "auto_skills is off"}
        cell = stored.text(thread.user_id, preferences.time_zone)
        if not has_trajectory(cell):
            return {"state": NOTHING, "why": "no tool was used"}
        if not stored.is_written:
            raise NotYet("its transcript is being written")
        if await self._is_known(stored):
            return _KNOWN
        extracted = await self.extractor.case(stored, cell)
        origin = Origin(space, agent_folder(space, thread.agent_id), CASE, extracted.by, stored)
        # While the model was asked, another stretch may have come first.
        outcome = await self.remembering.write_case(
            origin, extracted.extraction.of("cases"), _told(extracted), lambda: self._is_known(stored)
        )
        if outcome is None:
            return _KNOWN
        return {"state": "extracted" if outcome.put else NOTHING, **outcome.as_json(), "by": extracted.by}

    async def _is_known(self, stored: StoredCell) -> bool:
        """Another stretch made a case of the calls in this one."""
        calls = [turn.turn_id for turn in stored.turns if turn.tool_calls]
        citing = await self.entries.citing(stored.thread.space, stored.thread.thread_id, calls)
        return any(each.kind == CASES and each.cell != stored.memcell_id for each in citing)


def _told(extracted: Extracted) -> JsonObject:
    refused = len(extracted.extraction.refused)
    told: JsonObject = {"by": extracted.by, "cost": extracted.cost, "refused": refused}
    return {name: value for name, value in told.items() if value}
