"""What was deleted stays deleted, people of one name stay two, and plans end when they are called off."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.http_client import Home
from tests.processes import StandInModel
from tests.remembering import DAY, MAY_8, entries, remember, remembering, said, states, texts, vault_files
from tests.standins.where_ann_lives import ANN, ENTRIES, rebuild_from_vault

pytestmark = pytest.mark.slow

PORTO = ["Ann lives in Porto.", "user", "home", "in Porto"]
ROME = ["Ann is in Rome from 1 to 7 June 2026.", "2026-06-01", "2026-06-07", "to Rome"]


@pytest.fixture(scope="module")
def model() -> Iterator[StandInModel]:
    with StandInModel() as model:
        yield model


@asynccontextmanager
async def opened(tmp_path: Path, model: StandInModel) -> AsyncIterator[Home]:
    async with remembering(tmp_path, model) as home:
        yield home


async def hear(home: Home, model: StandInModel, text: str, day: int, **made: Any) -> Any:
    """Ann says it that many days later, and the model makes that of it. Returns what each strategy tells."""
    model.control(table=[{"messages": [["ann", text]], "episode": None, **made}])
    messages = said([("user", text)], start=MAY_8 + day * DAY, prefix=f"d{day}-")
    told = states(await remember(home, f"day-{day}", messages, **ANN))
    await home.drain()
    return told


async def delete(home: Home, text: str) -> None:
    (known,) = [each for each in await entries(home, "facts") if each.entry.text == text]
    (await home.client.delete(f"{ENTRIES}/{known.entry_id}", params=ANN)).raise_for_status()
    await home.drain()


async def test_a_deleted_fact_is_made_again_only_from_a_later_message(
    tmp_path: Path, model: StandInModel
) -> None:
    async with opened(tmp_path, model) as home:
        await hear(home, model, "We are in Porto", 30, facts=[PORTO])
        await hear(home, model, "Still in Porto", 40, facts=[PORTO])
        await delete(home, PORTO[0])
        told = await hear(home, model, "Hello from in Porto", 1, facts=[PORTO])
        assert told["facts"]["detail"]["kept_out"] == 1
        await hear(home, model, "Yes, in Porto", 35, facts=[PORTO])
        assert await texts(home, "facts", "profile") == []
    for file, content in vault_files(tmp_path).items():
        assert b"lives in Porto" not in content, file
    rebuild_from_vault(tmp_path)
    async with opened(tmp_path, model) as home:
        await hear(home, model, "Ages ago: in Porto", 2, facts=[PORTO])
        assert await texts(home, "facts", "profile") == []
        await hear(home, model, "Back in Porto", 41, facts=[PORTO])
        assert await texts(home, "facts", "profile") == [PORTO[0]] * 2


async def test_two_people_of_one_name_stay_two(tmp_path: Path, model: StandInModel) -> None:
    friend, boss = (
        ["Anna likes tea.", f"Anna ({who})", "people", "Both Annas"] for who in ("friend", "boss")
    )
    async with opened(tmp_path, model) as home:
        await hear(home, model, "Both Annas like tea", 0, facts=[friend, boss])
        assert {each.subject for each in await entries(home, "facts")} == {"anna (friend)", "anna (boss)"}
        assert len(await entries(home, "profile")) == 2
        ends = {"ends": ["Anna (boss): Anna likes tea."]}
        off = ["Anna is off tea.", "Anna (boss)", "people", "off tea", ends]
        await hear(home, model, "Anna, my boss, is off tea", 1, facts=[off])
        held = [each.subject for each in await entries(home, "facts") if each.holds]
        assert held == ["anna (friend)", "anna (boss)"]
        assert [each.subject for each in await entries(home, "facts") if not each.holds] == ["anna (boss)"]


async def test_a_plan_that_is_called_off_ends_then(tmp_path: Path, model: StandInModel) -> None:
    off = ["Ann's trip to Rome is off.", "user", "event", "is off", {"ends": [f"planned: {ROME[0]}"]}]
    async with opened(tmp_path, model) as home:
        await hear(home, model, "I go to Rome in June", 0, plans=[ROME])
        told = await hear(home, model, "The trip is off", 3, facts=[off])
        (plan,) = await entries(home, "foresight")
        (fact,) = await entries(home, "facts")
        assert told["facts"]["detail"]["superseded"] == [plan.entry_id]
        assert (plan.holds, plan.ends) == (False, MAY_8 + 3 * DAY)
        assert plan.entry.extra["superseded_by"] == fact.entry_id
        history = (await home.client.get(f"{ENTRIES}/{plan.entry_id}/history", params=ANN)).json()["versions"]
        assert [each["actor"] for each in history] == [None, "extraction"]
        before = vault_files(tmp_path)
        body = {**ANN, "thread_id": "day-3", "ask_again": True}
        (await home.client.post("/api/v1/memory/reprocess", json=body)).raise_for_status()
        await home.drain()
        assert vault_files(tmp_path) == before
        (await home.client.delete(f"{ENTRIES}/{fact.entry_id}", params=ANN)).raise_for_status()
        await home.drain()
        assert [each.holds for each in await entries(home, "foresight")] == [True]


async def test_a_plan_takes_the_place_of_another_though_a_fact_ends_that_too(
    tmp_path: Path, model: StandInModel
) -> None:
    july = ["Ann is in Rome in July 2026.", "2026-07", None, "July", {"replaces": [ROME[0]]}]
    off = ["Ann's June trip is off.", "user", "event", "not in June", {"ends": [ROME[0]]}]
    async with opened(tmp_path, model) as home:
        await hear(home, model, "I go to Rome in June", 0, plans=[ROME])
        await hear(home, model, "Rome is in July, not in June", 3, plans=[july], facts=[off])
        assert [(each.entry.text, each.holds) for each in await entries(home, "foresight")] == [
            (ROME[0], False),
            (july[0], True),
        ]
        assert [each.holds for each in await entries(home, "facts")] == [True]


async def test_a_plan_ends_a_fact_and_its_line_goes(tmp_path: Path, model: StandInModel) -> None:
    move = ["Ann moves to Bonn.", "2026-06-01", None, "moving to Bonn", {"ends": [PORTO[0]]}]
    async with opened(tmp_path, model) as home:
        await hear(home, model, "We are in Porto", 0, facts=[PORTO])
        assert await texts(home, "profile") == [PORTO[0]]
        await hear(home, model, "I left and am moving to Bonn", 3, plans=[move])
        assert await texts(home, "profile") == []


async def test_a_plan_whose_time_is_over_is_listed_no_longer(tmp_path: Path, model: StandInModel) -> None:
    async with opened(tmp_path, model) as home:
        await hear(home, model, "I go to Rome in June", 0, plans=[ROME])
        for day, is_listed in ((20, True), (60, False)):
            await hear(home, model, f"Nothing new on day {day}", day)
            prompt = str(model.calls()["bodies"][-1])
            assert (f"planned: {ROME[0]}" in prompt) == is_listed


async def test_the_digest_of_a_deleted_fact_goes_with_its_user(tmp_path: Path, model: StandInModel) -> None:
    async with opened(tmp_path, model) as home:
        await hear(home, model, "We are in Porto", 0, facts=[PORTO])
        await delete(home, PORTO[0])
        (deletion,) = await home.app.entry_store.deletions("default", "default/users/ann")
        assert holding_bytes(tmp_path, deletion.statement)
        (await home.client.delete("/api/v1/users/ann")).raise_for_status()
        await home.drain()
        assert holding_bytes(tmp_path, deletion.statement) == []


def holding_bytes(home: Path, digest: str) -> list[str]:
    """The files under a home that hold these characters."""
    return [str(each) for each in home.rglob("*") if each.is_file() and digest.encode() in each.read_bytes()]
