"""What a memcell costs where the model's server fails: three requests at most, none that would fail again, and time
between those that may succeed later. Then the episode without a model, a receipt that says why, and a retry.
"""

import asyncio
import json
from pathlib import Path

import pytest

from recollect.domain.job import Job
from recollect.domain.strategy import STRATEGY
from recollect.service.models.call_failures import PAUSES
from tests.eventually import eventually
from tests.http_client import Home, Json
from tests.processes import end
from tests.remembering import (
    FACTS_OF_TALK,
    MortalModel,
    SkippingClock,
    entries,
    flush,
    remember,
    remembering,
    said,
    states,
    tell,
    texts,
)

pytestmark = pytest.mark.slow

IMPATIENT: Json = {"memorize": {"model_timeout_seconds": 0.6}}
STRATEGIES = ["episode", "facts", "foresight"]
HUGE = "x" * 70_000


async def cell_jobs(home: Home) -> list[Job]:
    jobs = await home.app.jobs.list_jobs(space=None, limit=1000)
    return [job for job in jobs if job.kind == STRATEGY and "cell" in job.payload]


async def receipts(home: Home) -> dict[str, Json]:
    """Of the one memcell, by strategy."""
    ((thread, cell),) = await home.app.cell_texts.cells_of("default", None, None)
    return (await home.app.cells.receipts(thread, [cell]))[cell]


async def skipped_pause(home: Home, clock: SkippingClock) -> int | None:
    """Once the job of the one memcell waits after a failure: how long, in seconds, and that time is over now.

    None once it is dead.
    """
    found: list[Job] = []

    async def has_failed() -> bool:
        found[:] = [job for job in await cell_jobs(home) if job.error and job.state != "running"]
        return bool(found) and (found[0].state == "dead" or found[0].run_at > clock())

    await eventually(has_failed, seconds=20)
    if found[0].state == "dead":
        return None
    wait = found[0].run_at - clock()
    clock.skip(wait + 1)
    home.app.jobs.notify(0)
    return round(wait / 1000)


async def given_up(home: Home, why: str) -> None:
    """The episode is made without a model, the receipts say why, and the job waits for a person."""
    told = await receipts(home)
    assert [told[name]["state"] for name in STRATEGIES] == ["extracted", "failed", "failed"]
    assert all(why in told[name]["why"] for name in STRATEGIES)
    assert [entry.entry.by for entry in await entries(home)] == ["episode, rules"]
    (dead,) = await home.app.jobs.list_jobs(space=None, state="dead")
    assert why in (dead.error or "")


async def well_after_a_retry(home: Home, model: MortalModel) -> None:
    model.control()
    before = model.asked()
    (dead,) = await home.app.jobs.list_jobs(space=None, state="dead")
    (await home.client.post(f"/api/v1/jobs/{dead.job_id}/retry")).raise_for_status()
    await home.drain()
    assert model.asked() - before == 1
    assert await texts(home, "facts") == FACTS_OF_TALK
    assert [entry.entry.by for entry in await entries(home, "episodes")] == ["episode, stand-in"]


@pytest.mark.parametrize(
    ("given", "calls", "why"),
    [
        ({"mode": "stall"}, 1, "MODEL_TIMEOUT_SECONDS"),
        ({"mode": "silent"}, 1, "MODEL_TIMEOUT_SECONDS"),
        ({"mode": "answer", "delay_seconds": 3}, 1, "MODEL_TIMEOUT_SECONDS"),
        ({"mode": "answer", "answer": HUGE}, 1, "exceeds 65536 bytes"),
        ({"mode": "error", "status": 401}, 1, "(401). Check its API key"),
        ({"mode": "error", "status": 413}, 1, "(413). The prompt is too large"),
        ({"mode": "error", "status": 400}, 3, "refused the request (400)"),
        ({"mode": "wrong_schema"}, 2, "the model's answer can't be used"),
        ({"mode": "answer", "answer": '{"facts": 7'}, 2, "the model's answer can't be used"),
    ],
    ids=["no end", "silent", "slow", "huge", "key", "size", "refused", "wrong schema", "no JSON"],
)
async def test_what_would_fail_again_is_given_up_at_once_and_sent_once(
    given: Json, calls: int, why: str, model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path, model, **(IMPATIENT if "TIMEOUT" in why else {})) as home:
        await tell(home, "t1", said(), user_id="ann")
        model.control(only="memory", **given)
        before = model.asked()
        assert (await flush(home, "t1", timeout=20))["status"] == "failed"
        sent = [json.dumps(body, sort_keys=True) for body in model.bodies()[before:]]
        assert (len(sent), len(set(sent))) == (calls, calls)
        await given_up(home, why)
        await well_after_a_retry(home, model)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"mode": "error"}, "its server failed (500)"),
        ({"mode": "error", "status": 503}, "its server failed (503)"),
        ({"mode": "rate_limit", "retry_after": "0"}, "it wants fewer requests (429)"),
        ({"mode": "early_end"}, "its answer broke off"),
        ({"mode": "rubbish"}, "its answer broke off"),
    ],
    ids=["500", "503", "429", "early end", "rubbish"],
)
async def test_what_may_pass_is_tried_three_times_with_growing_pauses(
    given: Json, why: str, model: MortalModel, tmp_path: Path
) -> None:
    clock = SkippingClock()
    async with remembering(tmp_path, model, clock=clock) as home:
        await tell(home, "t1", said(), user_id="ann")
        model.control(only="memory", **given)
        before = model.asked()
        flushed = await flush(home, "t1", timeout=0)
        pauses = [await skipped_pause(home, clock) for _ in range(3)]
        assert flushed["status"] == "pending"
        assert pauses[2] is None
        assert [PAUSES[n] - 2 <= (pauses[n] or 0) <= PAUSES[n] + 8 for n in range(2)] == [True, True]
        assert model.asked() - before == 3
        await given_up(home, why)
        await well_after_a_retry(home, model)


async def test_while_a_job_waits_its_receipt_says_why_and_until_when(
    model: MortalModel, tmp_path: Path
) -> None:
    clock = SkippingClock()
    async with remembering(tmp_path, model, clock=clock) as home:
        await tell(home, "t1", said(), user_id="ann")
        model.control("rate_limit", only="memory", retry_after="120", times=1)
        flushed = await flush(home, "t1", timeout=2)
        told = states(flushed)
        assert [told[name]["state"] for name in STRATEGIES] == ["waiting"] * 3
        assert "wants fewer requests (429)" in told["episode"]["detail"]["error"]
        assert "calls left: 2" in told["episode"]["detail"]["error"]
        assert told["episode"]["detail"]["next_try"] > clock() + 100_000
        assert 110 <= (await skipped_pause(home, clock) or 0) <= 130
        await home.drain()
        assert await texts(home, "facts") == FACTS_OF_TALK


async def test_while_a_backend_rests_no_other_memcell_uses_up_its_calls(
    model: MortalModel, tmp_path: Path
) -> None:
    clock = SkippingClock()
    users = ["ann", "bob", "eve"]
    async with remembering(tmp_path, model, clock=clock) as home:
        model.control("rate_limit", only="memory", retry_after="120")
        before = model.asked()
        for user in users:
            for number in range(3):
                messages = said(prefix=f"{user}{number}-", user=user)
                await tell(home, f"{user}{number}", messages, user_id=user)
                await flush(home, f"{user}{number}", timeout=0)

        async def all_wait() -> bool:
            jobs = await cell_jobs(home)
            in_front = {job.user_id: job for job in reversed(jobs)}
            waiting = [job.user_id for job in in_front.values() if job.error and job.run_at > clock()]
            return sorted(waiting, key=str) == users

        await eventually(all_wait, seconds=20)
        assert model.asked() - before == 1
        model.control()
        clock.skip(130_000)
        home.app.jobs.notify(0)
        await home.drain()
        assert model.asked() - before == 1 + 9
        assert [job.state for job in await cell_jobs(home)] == []


async def test_a_refused_schema_and_an_unusable_answer_cost_three_requests(
    model: MortalModel, tmp_path: Path
) -> None:
    model.control("refuse_schema", only="memory", answer="I would rather not.")
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        await remember(home, "t1", said(), user_id="ann")
        assert ["response_format" in body for body in model.bodies()[before:]] == [True, False, False]
        await given_up(home, "the model's answer can't be used")


async def test_a_server_that_cannot_be_reached_gets_no_call_and_costs_none(tmp_path: Path) -> None:
    with MortalModel() as model:
        async with remembering(tmp_path, model) as home:
            await tell(home, "t1", said(), user_id="ann")
            end(model.process)
            flushed = await flush(home, "t1", timeout=3)
            assert states(flushed)["facts"]["state"] == "waiting"
            assert "nobody answers" in states(flushed)["facts"]["detail"]["error"]
            await asyncio.to_thread(model.revive)
            await home.drain()
            assert await texts(home, "facts") == FACTS_OF_TALK
            assert model.asked() == 1


LIKES = [f"I like {each}." for each in ("tea", "rye", "ale", "mead", "port", "milk", "rum", "gin")]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"mode": "error"}, "its server failed (500)"),
        ({"mode": "answer", "answer": "hi"}, "the model's answer can't be used"),
        ({"mode": "thinking"}, "used up its room for thinking"),
    ],
    ids=["500", "garbage", "thoughts"],
)
async def test_the_profiles_call_is_not_sent_again_and_its_receipt_says_that_it_failed(
    given: Json, why: str, model: MortalModel, tmp_path: Path
) -> None:
    model.control(only="profile", **given)
    before = model.asked("profile")
    async with remembering(tmp_path, model, strategies={"profile": {"idle_seconds": 0}}) as home:
        await remember(home, "t1", said([("user", " ".join(LIKES))]), user_id="ann")
        await home.drain()
        told = (await receipts(home))["profile"]
        assert len(await entries(home, "profile")) == len(LIKES)
    sent = [json.dumps(body, sort_keys=True) for body in model.bodies("profile")[before:]]
    assert len(set(sent)) == len(sent) == (2 if given["mode"] == "thinking" else 1)
    assert told["by"] == "rules"
    assert why in told["why"]
