"""What the buffer and the memcells promise: a turn is in exactly one of them."""

from collections.abc import Sequence

import pytest

from recollect.domain.chat import ChatRequest
from recollect.domain.job import BOUNDARY, FLUSH, TRANSCRIBE, JobSpec
from recollect.domain.model import Append, Memcell, NewTurn, ThreadRef, Turn
from recollect.domain.strategy import ClosedCell
from recollect.errors import InvalidInput, NotFound
from recollect.service.threads import add_turn
from tests.contract.journals import BOUNDARY_EVERY, PAUSE_MS, Journal, cell_of
from tests.fakes import START


async def filled(journal: Journal, *texts: str) -> list[Turn]:
    await journal.add("t1", *texts)
    return await journal.history("t1")


async def buffered(journal: Journal, limit: int = 100) -> list[str]:
    return [turn.content for turn in await journal.cells.look(ThreadRef("default", "me", "t1"), limit)]


async def test_the_buffer_holds_what_no_memcell_holds_in_order(journal: Journal) -> None:
    a, _, _ = await filled(journal, "a", "b", "c")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a)], "rules")
    assert await buffered(journal) == ["b", "c"]


async def test_a_look_shows_the_oldest_turns_up_to_its_limit(journal: Journal) -> None:
    await filled(journal, "a", "b", "c")
    assert await buffered(journal, 2) == ["a", "b"]


async def test_a_look_ends_before_a_turn_that_is_still_being_written(journal: Journal) -> None:
    turns = [
        NewTurn("user", "a", START, "ann"),
        NewTurn("assistant", "b", START, "bot", status="streaming"),
        NewTurn("user", "c", START, "ann"),
    ]
    await journal.threads.append(Append("default", "t1", turns))
    assert await buffered(journal) == ["a"]
    assert await journal.cells.count_buffered(ThreadRef("default", "me", "t1")) == 3


async def test_after_a_look_messages_are_counted_again(journal: Journal) -> None:
    await filled(journal, *"x" * (BOUNDARY_EVERY - 1))
    await journal.cells.look(ThreadRef("default", "me", "t1"), 100)
    await journal.add("t1", "x")
    (waiting,) = [job for job in await journal.waiting() if job.kind == BOUNDARY]
    assert waiting.run_at == START + PAUSE_MS


async def test_closing_takes_exactly_those_turns(journal: Journal) -> None:
    _, b, c, _ = await filled(journal, "a", "b", "c", "d")
    cell = cell_of(b, c)
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell], "rules")
    assert await buffered(journal) == ["a", "d"]
    assert await journal.cells.list_cells(ThreadRef("default", "me", "t1")) == [
        (cell, (b.message_id, c.message_id))
    ]


async def test_a_cell_whose_work_cannot_be_queued_leaves_its_turns_in_the_buffer(journal: Journal) -> None:
    def failing(closed: ClosedCell, now: int) -> Sequence[JobSpec]:
        raise InvalidInput("no strategies")

    a, b = await filled(journal, "a", "b")
    with pytest.raises(InvalidInput):
        await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a, b)], "rules", failing)
    assert await buffered(journal) == ["a", "b"]
    assert await journal.cells.list_cells(ThreadRef("default", "me", "t1")) == []


async def test_several_cells_close_together_oldest_first(journal: Journal) -> None:
    a, b, c = await filled(journal, "a", "b", "c")
    cells = [cell_of(a), cell_of(b, c, reason="topic")]
    await journal.cells.close(ThreadRef("default", "me", "t1"), cells, "model")
    assert [cell for cell, _ in await journal.cells.list_cells(ThreadRef("default", "me", "t1"))] == cells
    assert await journal.cells.count_buffered(ThreadRef("default", "me", "t1")) == 0


async def test_what_is_closed_or_skipped_or_of_another_space_cannot_be_closed(journal: Journal) -> None:
    a, b = await filled(journal, "a", "b")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a)], "rules")
    skipped, _ = await add_turn(
        journal.threads, ThreadRef("default", "me", "t1"), NewTurn("system", "be kind", START, "app")
    )
    await journal.add("t1", "here", space="other")
    again, both, system = cell_of(a), cell_of(a, b), cell_of(skipped)
    for space, cell in (("default", again), ("default", both), ("default", system), ("other", cell_of(b))):
        with pytest.raises(NotFound):
            await journal.cells.close(ThreadRef(space, "me", "t1"), [cell], "rules")
    assert await buffered(journal) == ["b"]
    assert len(await journal.cells.list_cells(ThreadRef("default", "me", "t1"))) == 1


async def test_one_cell_that_cannot_be_closed_leaves_all_of_them_open(journal: Journal) -> None:
    a, b = await filled(journal, "a", "b")
    never = Memcell("c-0", ("t-99",), "gap")
    with pytest.raises(NotFound):
        await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a, b), never], "rules")
    assert await buffered(journal) == ["a", "b"]
    assert await journal.cells.list_cells(ThreadRef("default", "me", "t1")) == []


async def test_two_cells_that_claim_one_turn_are_both_refused(journal: Journal) -> None:
    a, b = await filled(journal, "a", "b")
    with pytest.raises(NotFound):
        await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a), cell_of(a, b)], "rules")
    assert await buffered(journal) == ["a", "b"]


async def test_a_forgotten_turn_cannot_be_closed(journal: Journal) -> None:
    (a,) = await filled(journal, "a")
    await journal.delete("t1")
    with pytest.raises(NotFound):
        await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a)], "rules")
    await journal.add("t1", "b")
    with pytest.raises(NotFound):
        await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a)], "rules")
    assert await journal.cells.list_cells(ThreadRef("default", "me", "t1")) == []


async def test_closing_queues_the_transcript(journal: Journal) -> None:
    (a,) = await filled(journal, "a")
    before = len(await journal.waiting())
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a)], "rules")
    kinds = [job.kind for job in await journal.waiting()]
    assert TRANSCRIBE in kinds
    assert len(kinds) == before


async def test_a_flush_takes_the_place_of_the_look_that_waits(journal: Journal) -> None:
    await filled(journal, "a")
    job_id = await journal.cells.request_flush(ThreadRef("default", "me", "t1"))
    lane = [job for job in await journal.waiting() if job.lane.startswith("cells:")]
    assert [(job.job_id, job.kind, job.run_at) for job in lane] == [(job_id, FLUSH, START)]


async def test_two_flushes_that_wait_are_one(journal: Journal) -> None:
    await filled(journal, "a")
    first = await journal.cells.request_flush(ThreadRef("default", "me", "t1"))
    assert await journal.cells.request_flush(ThreadRef("default", "me", "t1")) == first


async def test_a_chat_that_is_being_answered_is_not_closed(journal: Journal) -> None:
    question = NewTurn("user", "How are you?", START, "")
    await journal.chats.accept("default", ChatRequest("chat", (question,), user_id="ann"))
    await journal.add("another", "Hello.", user_id="ann")
    assert await journal.cells.close_quiet(2**62, 10) == 1
    assert [job.thread_id for job in await journal.waiting() if job.kind == FLUSH] == ["another"]


async def test_threads_are_closed_in_the_order_of_their_times_a_few_at_a_time(journal: Journal) -> None:
    for name in ("c", "a", "b"):
        await journal.add(name, "Hello.", user_id=name)
        journal.clock.advance(1000)
    for _ in range(4):
        await journal.cells.close_quiet(journal.clock(), 1)
    closing = [job.thread_id for job in await journal.waiting() if job.kind == FLUSH]
    assert closing[:3] == ["c", "a", "b"]
