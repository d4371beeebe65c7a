"""What a person wrote in a line of their profile has the word about its attribute, as a fact of theirs would."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recollect.domain.entries.entry import KnownEntry
from tests.eventually import eventually
from tests.http_client import Home
from tests.remembering import DAY, entries, remember, remembering, said, texts
from tests.standins.where_ann_lives import (
    ANN,
    ENTRIES,
    JULY,
    POTSDAM,
    fact,
    found,
    holding,
    live_in,
    rebuild_from_vault,
    say,
    undo,
)

pytestmark = pytest.mark.slow

BERLIN, LISBON = "ann lives in Berlin.", "ann lives in Lisbon."


async def line(home: Home) -> KnownEntry:
    """The one line of the page."""
    (found,) = await entries(home, "profile")
    return found


async def on_page(home: Home) -> list[str]:
    shown = (await home.client.get("/api/v1/users/ann/profile")).raise_for_status().json()
    return [entry["text"] for entry in shown["entries"]]


@asynccontextmanager
async def corrected(tmp_path: Path) -> AsyncIterator[tuple[Home, str]]:
    """Berlin was extracted, a person made Potsdam of its line, and Lisbon was extracted later; with the line's id."""
    async with remembering(tmp_path) as home:
        await live_in(home, "Berlin")
        line_id = (await line(home)).entry_id
        await say(home, line_id)
        await live_in(home, "Lisbon", JULY)
        yield home, line_id


async def test_it_is_the_one_line_and_the_facts_are_kept_linked_and_marked(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, line_id):
        assert (await texts(home, "profile"), await holding(home)) == ([POTSDAM], [])
        for place in ("Berlin", "Lisbon"):
            extra = (await fact(home, place)).entry.extra
            assert (extra["superseded_by"], extra["until"]) == (line_id, "2026-05-08T14:03:00.000Z")
        assert await on_page(home) == [POTSDAM]


async def test_what_held_before_another_was_extracted_gives_way_too(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await live_in(home, "Berlin")
        await live_in(home, "Lisbon", JULY)
        await say(home, (await line(home)).entry_id)
        assert (await texts(home, "profile"), await holding(home)) == ([POTSDAM], [])
        berlin, lisbon = await fact(home, "Berlin"), await fact(home, "Lisbon")
        assert berlin.entry.extra["superseded_by"] == lisbon.entry_id
        assert lisbon.entry.extra["superseded_by"] == (await line(home)).entry_id


@pytest.mark.parametrize("when", ["", " in May 2026", " in July 2026"])
async def test_search_prefers_it_at_any_time_that_is_asked_about(when: str, tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _):

        async def is_known() -> bool:
            hits = await found(home, types=["facts", "profile"])
            return sorted(hit["why"].get("validity", 0) for hit in hits) == [-1, -1, 0]

        await eventually(is_known)
        query = f"Where does Ann live{when}?"
        everything, made = await found(home, query), await found(home, query, types=["facts", "profile"])
        assert [hits[0]["text"].partition("\n")[2] for hits in (everything, made)] == [POTSDAM, POTSDAM]


async def test_it_has_the_word_when_it_is_written_in_the_file(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await live_in(home, "Berlin")
        page = tmp_path / "vault" / (await line(home)).path
        page.write_text(page.read_text().replace("> ann lives in Berlin.", f"> {POTSDAM}"), encoding="utf-8")

        async def is_applied() -> bool:
            return await holding(home) == [] and "attribute: lives_in" in page.read_text()

        await eventually(is_applied)
        await live_in(home, "Lisbon", JULY)
        assert (await texts(home, "profile"), await holding(home)) == ([POTSDAM], [])


async def test_it_has_the_word_though_its_fact_is_deleted(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        berlin = await live_in(home, "Berlin")
        await say(home, (await line(home)).entry_id)
        (await home.client.delete(f"{ENTRIES}/{berlin}", params=ANN)).raise_for_status()
        await live_in(home, "Lisbon", JULY)
        assert (await texts(home, "profile"), await holding(home)) == ([POTSDAM], [])


async def test_what_says_the_same_later_is_a_fact_of_its_own(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, line_id):
        potsdam = await live_in(home, "Potsdam", JULY + DAY)
        assert await texts(home, "profile") == [POTSDAM]
        (await home.client.delete(f"{ENTRIES}/{line_id}", params=ANN)).raise_for_status()
        await home.drain()
        assert [each.entry_id for each in await entries(home, "facts") if each.holds] == [potsdam]


async def test_a_pin_is_no_word_and_comes_back_with_what_it_is_on(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await live_in(home, "Berlin")
        pinned = (await line(home)).entry_id
        (await home.client.patch(f"{ENTRIES}/{pinned}", json={**ANN, "pinned": True})).raise_for_status()
        lisbon = await live_in(home, "Lisbon", JULY)
        assert await on_page(home) == [LISBON]
        assert await texts(home, "profile") == [BERLIN, LISBON]
        (await home.client.delete(f"{ENTRIES}/{lisbon}", params=ANN)).raise_for_status()
        await home.drain()
        assert await on_page(home) == [BERLIN]
        assert (await line(home)).is_pinned


async def test_it_comes_back_from_the_vault(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _):
        before = {each.entry_id: each.entry for each in await entries(home)}
    rebuild_from_vault(tmp_path)
    async with remembering(tmp_path) as home:
        assert {each.entry_id: each.entry for each in await entries(home)} == before
        await live_in(home, "Porto", JULY + DAY)
        assert (await texts(home, "profile"), await holding(home)) == ([POTSDAM], [])


async def test_undoing_what_only_followed_its_deletion_leaves_one_answer(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, line_id):
        (await home.client.delete(f"{ENTRIES}/{line_id}", params=ANN)).raise_for_status()
        await undo(home, (await fact(home, "Berlin")).entry_id)
        assert (await holding(home), await texts(home, "profile")) == ([BERLIN], [])
        assert (await fact(home, "Berlin")).is_edited


class TestWithoutIt:
    """What was extracted holds again."""

    async def test_when_it_is_deleted(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, line_id):
            lisbon = (await fact(home, "Lisbon")).entry_id
            gone = await home.client.delete(f"{ENTRIES}/{line_id}", params=ANN)
            assert lisbon in gone.raise_for_status().json()["changed"]
            await home.drain()
            assert (await holding(home), await texts(home, "profile")) == ([LISBON], [LISBON])

    async def test_when_its_section_is_removed_from_the_file(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, _):
            page = tmp_path / "vault" / (await line(home)).path
            page.write_text(re.sub(r"## Home.*", "", page.read_text(), flags=re.DOTALL), encoding="utf-8")

            async def holds_again() -> bool:
                return await texts(home, "profile") == [LISBON]

            await eventually(holds_again)

    async def test_when_the_message_it_came_from_is_forgotten(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, _):
            (await home.client.delete("/api/v1/threads/in-Berlin/turns/t-1", params=ANN)).raise_for_status()
            await home.drain()
            assert (await holding(home), await texts(home, "profile")) == ([LISBON], [LISBON])

    async def test_when_the_correction_is_undone(self, tmp_path: Path) -> None:
        async with remembering(tmp_path) as home:
            await live_in(home, "Berlin")
            line_id = (await line(home)).entry_id
            await say(home, line_id)
            await undo(home, line_id)
            assert (await holding(home), await texts(home, "profile")) == ([BERLIN], [BERLIN])
            await undo(home, line_id)
            assert (await holding(home), await texts(home, "profile")) == ([], [POTSDAM])

    async def test_when_the_correction_is_undone_after_another_was_extracted(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, line_id):
            await undo(home, line_id)
            assert (await holding(home), await texts(home, "profile")) == ([LISBON], [LISBON])


async def test_what_comes_into_the_place_of_its_fact_has_a_line_too(tmp_path: Path) -> None:
    talk = [("user", "I have a cat named Tom."), ("user", "I live in Berlin."), ("user", "I like chess.")]
    async with remembering(tmp_path) as home:
        await remember(home, "t1", said(talk), **ANN)
        await home.drain()
        (home_line,) = [each for each in await entries(home, "profile") if each.entry.text == BERLIN]
        await say(home, home_line.entry_id)
        (await home.client.delete("/api/v1/threads/t1/turns/t-1", params=ANN)).raise_for_status()
        await home.drain()
        assert await texts(home, "profile") == [POTSDAM, "ann likes chess."]
