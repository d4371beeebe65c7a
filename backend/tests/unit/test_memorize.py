"""Memorize takes messages in and says what happened to each; no model is in its path."""

import pytest

from recollect.domain.model import Append, NewTurn
from recollect.errors import NotFound
from recollect.service.threads import memorize
from tests.contract.journals import Journal
from tests.fakes import START


def said(text: str, message_id: str | None = None) -> NewTurn:
    return NewTurn("user", text, START, "ann", message_id)


async def test_each_message_gets_its_receipt_in_order(journal: Journal) -> None:
    await memorize(journal.threads, Append("default", "t1", [said("a", "m1"), said("b", "m2")]))
    await journal.threads.clear_thread("t1")
    await memorize(journal.threads, Append("default", "t1", [said("c", "m3")]))
    batch = [said("c", "m3"), said("a", "m1"), said("d", "m4")]
    receipts = await memorize(journal.threads, Append("default", "t1", batch))
    assert [(receipt.message_id, receipt.status) for receipt in receipts] == [
        ("m3", "duplicate"),
        ("m1", "forgotten"),
        ("m4", "accepted"),
    ]


async def test_what_is_accepted_is_covered_before_any_job_runs(journal: Journal) -> None:
    await memorize(journal.threads, Append("default", "t1", [said("a"), said("b")]))
    found = await journal.coverage.coverage(space="default")
    assert (found.messages, found.buffered, found.missing) == (2, 2, 0)


async def test_the_work_that_follows_is_queued_for_the_thread(journal: Journal) -> None:
    await memorize(journal.threads, Append("default", "t1", [said("a")]))
    jobs = await journal.jobs.list_jobs(space="default")
    assert {(job.kind, job.thread_id) for job in jobs} == {("boundary", "t1"), ("transcribe", "t1")}


async def test_duplicates_queue_no_work(journal: Journal) -> None:
    append = Append("default", "t1", [said("a", "m1")])
    await memorize(journal.threads, append)
    before = await journal.jobs.list_jobs(space="default")
    await memorize(journal.threads, append)
    assert await journal.jobs.list_jobs(space="default") == before


async def test_anothers_thread_is_not_found(journal: Journal) -> None:
    await memorize(journal.threads, Append("default", "t1", [said("a")], "ann"))
    with pytest.raises(NotFound):
        await memorize(journal.threads, Append("default", "t1", [said("b")], "bob"))
