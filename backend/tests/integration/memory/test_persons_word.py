"""What a person wrote about an attribute wins over what is extracted about it: everywhere, and for ever."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recollect.domain.access import Caller
from tests.eventually import eventually
from tests.http_client import Home
from tests.remembering import DAY, entries, remember, remembering, said, texts, vault_files
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


async def indexed_with_marks(home: Home) -> None:
    """Until search knows both facts, and that one of them does not hold."""

    async def is_known() -> bool:
        hits = await found(home, types=["facts"])
        return sorted(hit["why"].get("validity", 0) for hit in hits) == [-1, 0]

    await eventually(is_known)


@asynccontextmanager
async def corrected(tmp_path: Path) -> AsyncIterator[tuple[Home, str, str]]:
    """Berlin was extracted, a person made Potsdam of it, and Lisbon was extracted later; with both ids."""
    async with remembering(tmp_path) as home:
        potsdam = await live_in(home, "Berlin")
        await say(home, potsdam)
        yield home, potsdam, await live_in(home, "Lisbon", JULY)


async def test_it_holds_and_what_is_extracted_later_is_kept_linked_and_marked(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, potsdam, _):
        lisbon = await fact(home, "Lisbon")
        assert lisbon.entry.extra["superseded_by"] == potsdam
        assert lisbon.entry.extra["until"] == "2026-05-08T14:03:00.000Z"
        assert (await holding(home), await texts(home, "profile")) == ([POTSDAM], [POTSDAM])


async def test_its_section_of_the_file_stays_as_it_was(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        potsdam = await live_in(home, "Berlin")
        await say(home, potsdam)
        file = tmp_path / "vault" / (await fact(home, "Potsdam")).path
        before = file.read_text()
        await live_in(home, "Lisbon", JULY)
        assert file.read_text() == before


@pytest.mark.parametrize("when", ["", " in May 2026", " in July 2026", " in 2026"])
async def test_search_prefers_it_at_any_time_that_is_asked_about(when: str, tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _, _):
        await indexed_with_marks(home)
        query = f"Where does Ann live{when}?"
        everything, facts = await found(home, query), await found(home, query, types=["facts"])
        assert (everything[0]["text"], facts[0]["text"]) == (POTSDAM, POTSDAM)
        assert [hit["why"]["validity"] for hit in facts[1:]] == [-1.0]


async def test_what_had_been_superseded_holds_in_a_persons_words(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        berlin = await live_in(home, "Berlin")
        await live_in(home, "Lisbon", JULY)
        await say(home, berlin)
        assert (await holding(home), await texts(home, "profile")) == ([POTSDAM], [POTSDAM])
        assert "supersedes" not in (await fact(home, "Lisbon")).entry.extra


async def test_it_holds_when_it_is_written_in_the_file(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await live_in(home, "Berlin")
        await live_in(home, "Lisbon", JULY)
        file = tmp_path / "vault" / (await fact(home, "Berlin")).path
        file.write_text(file.read_text().replace("in Berlin", "in Potsdam"), encoding="utf-8")

        async def is_shown() -> bool:
            return await texts(home, "profile") == ["ann lives in Potsdam."]

        await eventually(is_shown)
        await home.drain()
        assert await holding(home) == ["ann lives in Potsdam."]
        assert "superseded_by" not in file.read_text()


async def test_it_holds_when_they_leave_out_the_lines_about_it(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        potsdam = await live_in(home, "Berlin")
        file = tmp_path / "vault" / (await fact(home, "Berlin")).path
        header, _, body = file.read_text().replace("in Berlin", "in Potsdam").partition("\n## ")
        lines = [line for line in body.splitlines() if not line.startswith("- ") or "when:" in line]
        file.write_text("\n".join([header, f"## {lines[0]}", *lines[1:], ""]), encoding="utf-8")

        async def is_applied() -> bool:
            return await texts(home, "facts") == ["ann lives in Potsdam."]

        await eventually(is_applied)
        await home.app.reprocessor.reprocess(Caller("default", None))
        await home.drain()
        assert await texts(home, "facts", "profile") == ["ann lives in Potsdam."] * 2
        await home.client.delete("/api/v1/threads/in-Berlin")
        assert await home.app.entry_store.get("default", potsdam) is None


async def test_what_is_said_again_in_vain_is_kept_once(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _, lisbon):
        await remember(
            home, "again", said([("user", "I live in Lisbon.")], start=JULY + DAY, prefix="a"), **ANN
        )
        again = await fact(home, "Lisbon")
        assert (again.entry_id, len(again.sources)) == (lisbon, 2)


async def test_made_again_everything_is_as_it_was_to_the_byte(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _, _):
        before = vault_files(tmp_path)
        await home.app.reprocessor.reprocess(Caller("default", None))
        await home.drain()
        assert vault_files(tmp_path) == before


async def test_it_comes_back_from_the_vault(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _, _):
        before = {each.entry_id: each.entry for each in await entries(home)}
    rebuild_from_vault(tmp_path)
    async with remembering(tmp_path) as home:
        assert {each.entry_id: each.entry for each in await entries(home)} == before
        await live_in(home, "Porto", JULY + DAY)
        assert await holding(home) == [POTSDAM]


class TestWithoutIt:
    """What was extracted holds again."""

    async def test_when_it_is_deleted(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, potsdam, lisbon):
            preview = await home.client.get(f"{ENTRIES}/{potsdam}/deletion", params=ANN)
            gone = await home.client.delete(f"{ENTRIES}/{potsdam}", params=ANN)
            assert lisbon in gone.raise_for_status().json()["changed"]
            assert lisbon in preview.text
            await home.drain()
            assert (await holding(home), await texts(home, "profile")) == (["ann lives in Lisbon."],) * 2

    async def test_when_its_file_is_removed(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, _, _):
            (tmp_path / "vault" / (await fact(home, "Potsdam")).path).unlink()

            async def holds_again() -> bool:
                return await texts(home, "profile") == ["ann lives in Lisbon."]

            await eventually(holds_again)

    async def test_when_the_message_it_came_from_is_forgotten(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, _, _):
            (await home.client.delete("/api/v1/threads/in-Berlin/turns/t-1", params=ANN)).raise_for_status()
            await home.drain()
            assert (await holding(home), await texts(home, "profile")) == (["ann lives in Lisbon."],) * 2

    async def test_when_the_correction_is_undone(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, potsdam, lisbon):
            await undo(home, potsdam)
            assert await texts(home, "profile") == ["ann lives in Lisbon."]
            assert (await fact(home, "Berlin")).entry.extra["superseded_by"] == lisbon
            await undo(home, potsdam)
            assert await texts(home, "profile") == [POTSDAM]


async def test_undoing_the_mark_on_a_later_one_makes_that_one_the_persons(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        berlin = await live_in(home, "Berlin")
        lisbon = await live_in(home, "Lisbon", JULY)
        await say(home, berlin)
        history = (await home.client.get(f"{ENTRIES}/{lisbon}/history", params=ANN)).json()["versions"]
        assert history[-1]["actor"] == "consolidation"
        await undo(home, lisbon)
        assert await texts(home, "profile") == ["ann lives in Lisbon."]
        assert (await fact(home, "Lisbon")).is_edited


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize(
    ("old", "new", "query"),
    [
        ("我住在柏林。", "我住在里斯本。", "我住在哪里"),
        ("我住在柏林。", "我最近搬家了。我现在住在里斯本。", "我住在哪里"),
        ("I live in Berlin.", "I live in Lisbon.", "Where do I live?"),
    ],
)
async def test_by_words_alone_what_was_said_of_where_one_lives_now_comes_first(
    old: str, new: str, query: str, mode: str, tmp_path: Path
) -> None:
    async with remembering(tmp_path) as home:
        await remember(home, "t1", said([("user", old)]), **ANN)
        await remember(home, "t2", said([("user", new)], start=JULY, prefix="n"), **ANN)
        await home.drain()

        async def is_known() -> bool:
            hits = await found(home, query, types=["facts"])
            return [hit["why"].get("validity", 0) for hit in hits] == [0, -1]

        await eventually(is_known)
        assert [hit["text"] for hit in await found(home, query, mode=mode)] == [new, old]
