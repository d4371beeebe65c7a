"""What `THREADS` promises of forgetting."""

import pytest

from recollect.domain.job import PURGE, Job
from recollect.domain.model import Append, Thread
from recollect.errors import NotFound
from tests.contract.journals import Journal, said
from tests.fakes import START


async def test_a_thread_that_is_not_there_cannot_be_forgotten(journal: Journal) -> None:
    with pytest.raises(NotFound):
        await journal.delete("t1")


async def test_a_turn_id_is_never_used_again(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await journal.delete("t1")
    await journal.threads.create_thread(Thread("default", "t1", "me", START, START))
    (receipt,) = await journal.add("t1", "c")
    assert receipt.turn_id == "t-3"


async def test_what_one_user_forgot_another_never_learns_of(journal: Journal) -> None:
    for user_id in ("ann", "bob"):
        append = Append("default", "t1", [said("a", "m1")], user_id)
        (receipt,) = await journal.threads.append(append)
        assert (receipt.status, receipt.turn_id) == ("accepted", "t-1")
        await journal.delete("t1")


async def test_forgetting_one_thread_leaves_its_neighbours(journal: Journal) -> None:
    await journal.threads.append(Append("default", "t1", [said("a", "m1")]))
    await journal.threads.append(Append("default", "t2", [said("a", "m1")]))
    await journal.delete("t1")
    (again,) = await journal.threads.append(Append("default", "t2", [said("a", "m1")]))
    assert again.status == "duplicate"


async def test_forgetting_takes_back_what_waits_and_queues_the_purge_for_the_owner(journal: Journal) -> None:
    await journal.add("t1", "a", user_id="ann")
    await journal.delete("t1")
    assert [(job.kind, job.payload) for job in await of_threads(journal)] == [(PURGE, {"user_id": "ann"})]


async def test_forgetting_a_second_owners_thread_leaves_the_purge_of_the_first(journal: Journal) -> None:
    for user_id in ("ann", "bob", "bob"):
        await journal.add("t1", "a", user_id=user_id)
        await journal.delete("t1")
    assert [job.payload["user_id"] for job in await of_threads(journal)] == ["ann", "bob"]


async def of_threads(journal: Journal) -> list[Job]:
    """Without the steps that make a forgotten thread's traces go from the whole home."""
    return [job for job in await journal.waiting() if "step" not in job.payload]


async def test_a_batch_that_repeats_an_id_is_taken_by_a_thread_that_forgot_others(journal: Journal) -> None:
    await journal.add("t1", "a")
    await journal.delete("t1")
    batch = Append("default", "t1", [said("b", "m1"), said("b", "m1")])
    assert [receipt.status for receipt in await journal.threads.append(batch)] == ["accepted", "duplicate"]
