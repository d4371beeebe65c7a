"""What a person wrote is their word at that moment: it wins over what was said before, and gives way to what comes later."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.http_client import Home
from tests.remembering import DAY, entries, remembering, texts, vault_files
from tests.standins.where_ann_lives import (
    ANN,
    ENTRIES,
    JULY,
    POTSDAM,
    fact,
    holding,
    live_in,
    rebuild_from_vault,
    say,
    undo,
    write_home,
)

pytestmark = pytest.mark.slow

BERLIN, LISBON = "ann lives in Berlin.", "ann lives in Lisbon."
LATER = 4_000_000_000_000
"""After any correction."""


async def on_page(home: Home) -> list[str]:
    shown = (await home.client.get("/api/v1/users/ann/profile")).raise_for_status().json()
    return [entry["text"] for entry in shown["entries"]]


@asynccontextmanager
async def corrected(tmp_path: Path, how: str = "fact") -> AsyncIterator[tuple[Home, str]]:
    """Berlin was extracted, and a person made Potsdam of the fact or of its line; with the fact's id."""
    async with remembering(tmp_path, alone=True) as home:
        berlin = await live_in(home, "Berlin")
        (line,) = await entries(home, "profile")
        if how in ("fact", "line"):
            await say(home, berlin if how == "fact" else line.entry_id)
        else:
            file = tmp_path / "vault" / ((await fact(home, "Berlin")).path if how == "file" else line.path)
            file.write_text(re.sub(BERLIN, POTSDAM, file.read_text()), encoding="utf-8")

            async def is_applied() -> bool:
                return await holding(home) == [POTSDAM]

            await eventually(is_applied)
            await home.drain()
        yield home, berlin


@pytest.mark.parametrize("how", ["fact", "line", "file", "page"])
class TestHoweverItIsWritten:
    async def test_it_wins_over_what_was_said_before(self, how: str, tmp_path: Path) -> None:
        async with corrected(tmp_path, how) as (home, potsdam):
            await live_in(home, "Lisbon", JULY, [potsdam])
            lisbon = await fact(home, "Lisbon")
            assert lisbon.entry.extra["superseded_by"] == potsdam
            assert lisbon.ends == (await fact(home, "Potsdam")).said
            assert (await holding(home), await on_page(home)) == ([POTSDAM], [POTSDAM])

    async def test_it_gives_way_to_what_is_said_later_and_undo_brings_it_back(
        self, how: str, tmp_path: Path
    ) -> None:
        async with corrected(tmp_path, how) as (home, potsdam):
            lisbon = await live_in(home, "Lisbon", LATER, [potsdam])
            over = await fact(home, "Potsdam")
            assert (over.entry.extra["superseded_by"], over.ends, over.is_edited) == (lisbon, LATER, True)
            assert (await holding(home), await on_page(home)) == ([LISBON], [LISBON])
            history = (await home.client.get(f"{ENTRIES}/{potsdam}/history", params=ANN)).json()["versions"]
            assert [each["actor"] for each in history] == [None, "person", "extraction"]
            await undo(home, potsdam)
            assert (await holding(home), await on_page(home)) == ([POTSDAM], [POTSDAM])


async def test_made_again_everything_is_as_it_was_to_the_byte(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, potsdam):
        lisbon = await live_in(home, "Lisbon", JULY, [potsdam])
        await live_in(home, "Porto", LATER, [potsdam])
        before = vault_files(tmp_path)
        await write_home(home, "Berlin")
        await write_home(home, "Lisbon", JULY, [potsdam])
        await write_home(home, "Porto", LATER, [potsdam])
        assert vault_files(tmp_path) == before
        assert (await fact(home, "Lisbon")).entry_id == lisbon


async def test_it_comes_back_from_the_vault_with_its_time(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, potsdam):
        await live_in(home, "Lisbon", JULY, [potsdam])
        before = {each.entry_id: each.entry for each in await entries(home)}
    rebuild_from_vault(tmp_path)
    async with remembering(tmp_path, alone=True) as home:
        assert {each.entry_id: each.entry for each in await entries(home)} == before
        await live_in(home, "Porto", JULY + DAY, [potsdam])
        assert await holding(home) == [POTSDAM]
        await live_in(home, "Rome", LATER, [potsdam])
        assert await holding(home) == ["ann lives in Rome."]


class TestWithoutIt:
    """What it had overruled holds again."""

    async def test_when_it_is_deleted(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, potsdam):
            lisbon = await live_in(home, "Lisbon", JULY, [potsdam])
            gone = await home.client.delete(f"{ENTRIES}/{potsdam}", params=ANN)
            assert lisbon in gone.raise_for_status().json()["changed"]
            await home.drain()
            assert (await holding(home), await on_page(home)) == ([LISBON], [LISBON])

    async def test_when_the_message_it_came_from_is_forgotten(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, potsdam):
            await live_in(home, "Lisbon", JULY, [potsdam])
            (await home.client.delete("/api/v1/threads/in-Berlin/turns/t-1", params=ANN)).raise_for_status()
            await home.drain()
            assert (await holding(home), await on_page(home)) == ([LISBON], [LISBON])

    async def test_when_its_line_is_removed_from_the_page_it_stays_a_fact(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, _):
            (line,) = await entries(home, "profile")
            page = tmp_path / "vault" / line.path
            page.write_text(re.sub(r"## .*", "", page.read_text(), flags=re.DOTALL), encoding="utf-8")

            async def is_off() -> bool:
                return await texts(home, "profile") == []

            await eventually(is_off)
            await home.drain()
            assert (await holding(home), await on_page(home)) == ([POTSDAM], [])


async def test_a_persons_own_property_of_a_line_is_kept_with_its_fact_until_they_remove_it(
    tmp_path: Path,
) -> None:
    async with corrected(tmp_path) as (home, potsdam):
        (line,) = await entries(home, "profile")
        page, facts = (tmp_path / "vault" / each.path for each in (line, await fact(home, "Potsdam")))
        written = page.read_text()
        page.write_text(re.sub(r"(## .*\n)", r"\1- mood: calm\n", written), encoding="utf-8")

        async def is_kept() -> bool:
            return "- mood: calm" in facts.read_text()

        await eventually(is_kept)
        await home.drain()
        await live_in(home, "Lisbon", JULY, [potsdam])
        assert ["- mood: calm" in file.read_text() for file in (page, facts)] == [True, True]
        rest = page.read_text().replace("- mood: calm\n", "")
        page.write_text(rest, encoding="utf-8")

        async def is_removed() -> bool:
            return not await is_kept()

        await eventually(is_removed)
        await home.drain()
        assert "mood" not in page.read_text()
