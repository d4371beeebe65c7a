"""Extraction with a model that is right, and with one that is wrong in every way there is.

Whatever it does: no message is lost, nothing stands there twice, nothing is called a success that was none, the number
of calls is bounded, and once it is well again all is made up for, unasked or by a retry.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.access import Caller
from tests.http_client import Home, Json
from tests.remembering import (
    DAY,
    FACTS_OF_TALK,
    MAY_8,
    PLAN_OF_TALK,
    TALK,
    MortalModel,
    entries,
    flush,
    remember,
    remembering,
    said,
    states,
    tell,
    texts,
    vault_files,
)

pytestmark = pytest.mark.slow

STRATEGIES = ["episode", "facts", "foresight"]


async def nothing_lost(home: Home, messages: int = len(TALK)) -> None:
    """Every message is in a memcell, and its words in the vault."""
    counted = await home.coverage()
    assert (counted["messages"], counted["celled"], counted["missing"], counted["doubled"]) == (
        messages,
        messages,
        0,
        0,
    )
    written = b"".join(vault_files(home.app.settings.home).values())
    assert all(text.encode() in written for _, text in TALK)


async def all_is_remembered(home: Home) -> None:
    """As a model that is right tells it, each statement once."""
    assert await texts(home, "facts") == FACTS_OF_TALK
    assert await texts(home, "foresight") == [PLAN_OF_TALK]
    assert len(await entries(home, "episodes")) == 1


async def well_again(home: Home, model: MortalModel) -> None:
    """From here on the model answers; the queue drains, and all is there once."""
    model.control()
    await home.drain()
    assert await home.app.jobs.list_jobs(space=None) == []
    await nothing_lost(home)
    await all_is_remembered(home)


async def test_one_call_serves_all_strategies_of_a_memcell(model: MortalModel, tmp_path: Path) -> None:
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said(), user_id="ann")
        await nothing_lost(home)
        await all_is_remembered(home)
    told = states(flushed)
    assert flushed["status"] == "done"
    assert [(name, told[name]["state"]) for name in STRATEGIES] == [
        (name, "extracted") for name in STRATEGIES
    ]
    assert {told[name]["detail"]["by"] for name in STRATEGIES} == {"stand-in"}
    assert ["cost" in told[name]["detail"] for name in STRATEGIES] == [True, False, False]
    assert model.asked() - before == 1


async def test_a_memcell_with_nothing_in_it_is_told_as_that(model: MortalModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        small = [("user", "Good morning!"), ("assistant", "Good morning!")]
        flushed = await remember(home, "t1", said(small), user_id="ann")
        assert await entries(home) == []
    assert [each["state"] for each in states(flushed).values()] == ["nothing worth keeping"] * 3


@pytest.mark.parametrize("mode", ["rude", "refuse_schema"])
async def test_what_is_wrong_with_the_form_alone_costs_nothing(
    mode: str, model: MortalModel, tmp_path: Path
) -> None:
    model.control(mode, only="memory")
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said(), user_id="ann")
        await all_is_remembered(home)
    assert flushed["status"] == "done"


async def test_a_refused_schema_is_tried_once_and_then_left_out(model: MortalModel, tmp_path: Path) -> None:
    model.control("refuse_schema", only="memory")
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        for number in range(3):
            messages = said(prefix=f"{number}-", start=MAY_8 + number * DAY)
            await remember(home, f"t{number}", messages, user_id="ann")
    assert ["response_format" in body for body in model.bodies()[before:]] == [True, False, False, False]


async def test_a_cut_off_answer_counts_as_far_as_it_goes_and_says_so(
    model: MortalModel, tmp_path: Path
) -> None:
    model.control("truncated", only="memory")
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said(), user_id="ann")
        await nothing_lost(home)
        found = await texts(home, "facts")
    cut_off = [each["detail"].get("refused") for each in states(flushed).values()]
    assert {"the answer is cut off here": 1} in cut_off
    assert set(found) < set(FACTS_OF_TALK)
    assert states(flushed)["foresight"]["state"] == "failed"
    assert "nothing worth keeping" not in [states(flushed)[name]["state"] for name in STRATEGIES]


@pytest.mark.parametrize("by", ["retry", "reprocess"])
async def test_an_answer_that_stays_cut_off_is_asked_for_again_by_a_person_and_by_nobody_else(
    by: str, model: MortalModel, tmp_path: Path
) -> None:
    model.control("truncated", only="memory")
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said(), user_id="ann")
        told = [(each["strategy"], each["state"]) for each in flushed["memcells"][0]["strategies"]]
        assert sorted(told)[:3] == [("episode", "extracted"), ("facts", "extracted"), ("foresight", "failed")]
        assert (flushed["status"], model.asked() - before) == ("failed", 2)
        (dead,) = await home.app.jobs.list_jobs(space=None, state="dead")
        assert "cut off" in (dead.error or "")
        model.control()
        if by == "retry":
            await home.app.jobs.retry(dead.job_id)
        else:
            await home.app.reprocessor.reprocess(Caller("default", None))
        await home.drain()
        await all_is_remembered(home)
        assert await home.app.jobs.list_jobs(space=None, state="dead") == []
        assert model.asked() - before == 3


async def test_a_cut_off_answer_gets_a_second_chance_and_the_receipt_counts_both(
    model: MortalModel, tmp_path: Path
) -> None:
    model.control("truncated", only="memory", times=1)
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said(), user_id="ann")
        await all_is_remembered(home)
    assert model.asked() - before == 2
    cost = states(flushed)["episode"]["detail"]["cost"]["prompt_tokens"]
    assert cost > 2 * 300


async def test_an_answer_of_the_wrong_shape_gets_a_second_chance(model: MortalModel, tmp_path: Path) -> None:
    model.control("wrong_schema", only="memory", times=1)
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said(), user_id="ann")
        await all_is_remembered(home)
    assert flushed["status"] == "done"
    assert model.asked() - before == 2


async def test_what_was_given_up_is_not_asked_again_after_a_restart_and_is_by_reprocess(
    model: MortalModel, tmp_path: Path
) -> None:
    model.control("wrong_schema", only="memory")
    async with remembering(tmp_path, model) as home:
        await remember(home, "t1", said(), user_id="ann")
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        await home.drain()
        assert model.asked() == before
        model.control()
        await home.app.reprocessor.reprocess(Caller("default", None))
        await home.drain()
        await all_is_remembered(home)
        assert [entry.entry.by for entry in await entries(home, "episodes")] == ["episode, stand-in"]


async def test_what_a_model_made_stays_when_it_is_asked_again_in_vain(
    model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path, model) as home:
        await remember(home, "t1", said(), user_id="ann")
        await home.drain()
        before = await entries(home)
        model.control("wrong_schema", only="memory")
        await home.app.reprocessor.reprocess(Caller("default", None), ask_again=True)
        await home.drain()
        assert await entries(home) == before


async def test_a_model_that_thinks_away_its_room_is_asked_three_times_with_more_room(
    model: MortalModel, tmp_path: Path
) -> None:
    model.control("thinking", only="memory")
    before = model.asked()
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said(), user_id="ann")
        await nothing_lost(home)
        assert [entry.entry.by for entry in await entries(home)] == ["episode, rules"]
    assert flushed["status"] == "failed"
    assert "used up its room for thinking" in states(flushed)["facts"]["detail"]["why"]
    rooms = [body["max_tokens"] for body in model.bodies()[before:]]
    assert len(rooms) == 3
    assert sorted(set(rooms)) == rooms


async def test_a_model_that_dies_mid_stream_is_asked_again_when_it_lives(tmp_path: Path) -> None:
    with MortalModel() as model:
        async with remembering(tmp_path, model) as home:
            await tell(home, "t1", said(), user_id="ann")
            model.control("die", only="memory")
            flushed = await flush(home, "t1", timeout=3)
            assert flushed["status"] == "pending"
            assert "waiting" in {each["state"] for each in states(flushed).values()}
            assert await entries(home) == []
            await asyncio.to_thread(model.revive)
            await well_again(home, model)
            assert model.asked() == 1


async def test_one_users_hanging_model_keeps_no_other_user_waiting(
    model: MortalModel, tmp_path: Path
) -> None:
    with MortalModel() as hanging:
        hanging.control("silent", only="memory")
        backends = {"hanging": {"base_url": hanging.base_url, "model": "stand-in", "gate_group": "elsewhere"}}
        async with remembering(tmp_path, model, backends=backends) as home:
            anns: Json = {"thread_id": "a1", "user_id": "ann", "backend": "hanging"}
            (await home.client.post("/api/v1/threads", json=anns)).raise_for_status()
            await tell(home, "a1", said(), user_id="ann")
            assert (await flush(home, "a1", timeout=0.5))["status"] == "pending"
            await asyncio.to_thread(hanging.calls, in_flight=1)
            started = time.monotonic()
            flushed = await remember(home, "b1", said(prefix="b", user="bob"), user_id="bob")
            assert flushed["status"] == "done"
            assert time.monotonic() - started < 10
            owners = {entry.owner for entry in await entries(home)}
            assert owners == {"default/users/bob"}
            hanging.control()


async def test_a_chat_is_answered_in_time_while_extraction_hangs(model: MortalModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        await tell(home, "t1", said(), user_id="ann")
        model.control("silent", only="memory")
        assert (await flush(home, "t1", timeout=0.5))["status"] == "pending"
        seconds: list[float] = []
        for number in range(3):
            started = time.monotonic()
            asked = {"user_id": "ann", "content": f"Tell me about Paris, {number}."}
            answer: Any = await home.client.post("/api/v1/threads/chat/messages", json=asked)
            assert answer.json()["assistant_turn"]["status"] == "complete"
            seconds.append(time.monotonic() - started)
        assert max(seconds) < 5, seconds
        model.control()
        await home.drain()
        assert set(FACTS_OF_TALK) <= set(await texts(home, "facts"))
