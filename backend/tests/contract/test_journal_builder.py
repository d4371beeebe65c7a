"""What taking whole threads into a journal promises."""

from dataclasses import replace

from recollect.domain.forgetting import TombstoneFile
from recollect.domain.identity import message_key, thread_key
from recollect.domain.job import BOUNDARY
from recollect.domain.model import Append, Memcell, Thread, Turn
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


async def test_a_thread_comes_back_with_its_header(journal: Journal) -> None:
    await build(journal)
    assert await journal.threads.get_thread("t1") == replace(THREAD, updated=START + 9, turn_count=4)


async def test_turns_come_back_as_they_were(journal: Journal) -> None:
    await build(journal)
    assert await journal.threads.get_history("t1") == TURNS


async def test_cells_come_back_and_the_rest_is_buffered_or_skipped(journal: Journal) -> None:
    await build(journal)
    assert await journal.cells.list_cells("default", "t1") == [(CELL, ("m1", "m2"))]
    assert [turn.turn_id for turn in await journal.cells.look("default", "t1", 9)] == ["t-5"]


async def test_parts_come_back_as_ours_and_not_stale(journal: Journal) -> None:
    await build(journal)
    state = await journal.transcripts.state("default", "t1")
    assert state is not None
    assert (state.last_part, state.stale_parts) == (PART, ())


async def test_a_turn_that_two_cells_claim_goes_to_the_first(journal: Journal) -> None:
    second = Memcell("c-2", ("t-2", "t-5"), "gap")
    await journal.builder.add_thread(THREAD, TURNS, [CELL, second], [PART])
    cells = [cell.turn_ids for cell, _ in await journal.cells.list_cells("default", "t1")]
    assert cells == [("t-1", "t-2"), ("t-5",)]
    assert (await journal.coverage.coverage(space="default")).doubled == 0


async def test_a_cell_whose_turns_are_not_there_is_left_out(journal: Journal) -> None:
    await journal.builder.add_thread(THREAD, TURNS, [Memcell("c-9", ("t-99",), "gap")], [PART])
    assert await journal.cells.list_cells("default", "t1") == []
    assert await journal.coverage.inconsistencies() == []


async def test_the_thread_goes_on_counting(journal: Journal) -> None:
    await build(journal)
    (receipt,) = await journal.add("t1", "more")
    assert receipt.turn_id == "t-6"


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


async def test_a_message_whose_tombstone_came_back_is_forgotten(journal: Journal) -> None:
    key = thread_key("default", "t1")
    await journal.builder.add_tombstones(TombstoneFile("default", "ann", key, ((4, message_key("m4")),)))
    await build(journal)
    (receipt,) = await journal.threads.append(Append("default", "t1", [said("x", "m4")]))
    assert receipt.status == "forgotten"


async def test_with_its_tombstones_a_thread_misses_nothing(journal: Journal) -> None:
    key = thread_key("default", "t1")
    await journal.builder.add_tombstones(TombstoneFile("default", "ann", key, ((4, message_key("m4")),)))
    await build(journal)
    found = await journal.coverage.coverage(space="default")
    assert (found.messages, found.celled, found.buffered) == (5, 2, 1)
    assert (found.skipped, found.forgotten, found.missing) == (1, 1, 0)


async def test_a_number_that_is_neither_turn_nor_tombstone_is_missing(journal: Journal) -> None:
    await build(journal)
    found = await journal.coverage.coverage(space="default")
    assert (found.missing, found.missing_turns) == (1, (("t1", "1 turns"),))
