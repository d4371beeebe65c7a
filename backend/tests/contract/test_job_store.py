"""What the job store and the webhooks promise on every database."""

import pytest

from recollect.domain.webhook import MEMORY_MADE, Webhook
from recollect.errors import NotFound
from recollect.infra.journal.jobs import SqlJobStore
from recollect.infra.journal.webhooks import SqlWebhookStore, has_webhooks
from tests.contract.journals import Journal

LATE = 10**14


async def test_a_job_that_no_process_runs_is_queued_again(journal: Journal) -> None:
    store = SqlJobStore(journal.database)
    await journal.add("t1", "a")
    (job, *_), _ = await store.claim(LATE, LATE + 60_000, [(["boundary"], 1)])
    assert await store.recover(but_not=[job.job_id]) == (0, {})
    assert await store.recover() == (1, {})
    found = await store.get(job.job_id)
    assert found is not None
    assert (found.state, found.interruptions) == ("queued", 1)


async def test_a_job_that_failed_too_often_is_dead_until_it_is_revived(journal: Journal) -> None:
    store = SqlJobStore(journal.database)
    await journal.add("t1", "a")
    (job, *_), _ = await store.claim(LATE, LATE + 60_000, [(["boundary"], 1)])
    assert await store.give_up(job, attempts=8, error="no")
    assert (await store.counts())["dead"] == 1
    assert (await store.revive(job.job_id, LATE)).state == "queued"
    with pytest.raises(NotFound):
        await store.revive(job.job_id, LATE)


async def test_a_transaction_knows_the_webhooks_of_those_before_it(journal: Journal) -> None:
    store = SqlWebhookStore(journal.database)
    assert not await journal.database.write(has_webhooks)
    await store.add(Webhook("w1", "default", "me", "http://127.0.0.1/", "secret", (MEMORY_MADE,), 1))
    assert await journal.database.write(has_webhooks)
