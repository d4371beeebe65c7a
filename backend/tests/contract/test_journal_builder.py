"""What taking whole threads into a journal promises."""

from recollect.domain.job import BOUNDARY
from recollect.domain.model import Append, Memcell, Thread, ThreadRef, Turn
from recollect.domain.vault_file import StoredPart
from tests.contract.journals import Journal, said
from tests.fakes import START

THREAD = Thread("default", "t1", "ann", START, START, "guide", "Marta", ("family",), "calm", "big")
TURNS = [
    Turn("t-1", "m1", "user", "ann", "My sister is moving!", START),
    Turn("t-2", "m2", "assistant", "bot", "Where to?", START + 1, model="qwen3-8b", reasoning="ask"),
    Turn("t-3", "m3", "system", "app", "be kind", START + 2, skip_reason="system message"),
    Turn("t-5", "m5", "user", "ann", "Porto", START + 9, tool_calls=[{"id": "c1"}]),
]
CELL = Memcell("c-1", ("t-1", "t-2"), "gap")
PART = StoredPart(1, 1, 5, 1, digest="abc")


async def build(journal: Journal) -> None:
    await journal.builder.add_thread(THREAD, TURNS, [CELL], [PART])


async def test_a_turn_that_two_cells_claim_goes_to_the_first(journal: Journal) -> None:
    second = Memcell("c-2", ("t-2", "t-5"), "gap")
    await journal.builder.add_thread(THREAD, TURNS, [CELL, second], [PART])
    cells = [cell.turn_ids for cell, _ in await journal.cells.list_cells(ThreadRef("default", "ann", "t1"))]
    assert cells == [("t-1", "t-2"), ("t-5",)]
    assert (await journal.coverage.coverage(space="default")).doubled == 0


async def test_a_cell_whose_turns_are_not_there_is_left_out(journal: Journal) -> None:
    await journal.builder.add_thread(THREAD, TURNS, [Memcell("c-9", ("t-99",), "gap")], [PART])
    assert await journal.cells.list_cells(ThreadRef("default", "ann", "t1")) == []
    assert await journal.coverage.inconsistencies() == []


async def test_a_message_that_came_back_is_a_duplicate(journal: Journal) -> None:
    await build(journal)
    turn = said("My sister is moving!", "m1")
    (receipt,) = await journal.threads.append(Append("default", "t1", [turn]))
    assert (receipt.status, receipt.turn_id, receipt.detail) == ("duplicate", "t-1", None)


async def test_boundaries_are_looked_for_in_what_came_back(journal: Journal) -> None:
    await build(journal)
    assert (BOUNDARY, "t1", START) in [
        (job.kind, job.thread_id, job.run_at) for job in await journal.waiting()
    ]


async def test_a_number_that_is_neither_turn_nor_tombstone_is_missing(journal: Journal) -> None:
    await build(journal)
    found = await journal.coverage.coverage(space="default")
    assert (found.missing, found.missing_turns) == (1, ((ThreadRef("default", "ann", "t1"), "1 turns"),))
