"""A line of the profile about something of which one may have several: a person's words replace what it said for good."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recollect.domain.access import Caller
from recollect.domain.entries.entry import KnownEntry
from tests.eventually import eventually
from tests.http_client import Home
from tests.remembering import entries, remember, remembering, said, texts, vault_files
from tests.standins.where_ann_lives import ANN, ENTRIES, hear, say, undo

pytestmark = pytest.mark.slow

BERLIN, REX, TOM = "ann lives in Berlin.", "ann has a dog named Rex.", "ann has a cat named Tom."
MAX, BELLA = "Ann has a dog named Max.", "ann has a dog named Bella."
TALK = (("user", "I live in Berlin."), ("assistant", "Nice."), ("user", "I have a dog named Rex."))


async def one(home: Home, kind: str, name: str) -> KnownEntry:
    (found,) = [each for each in await entries(home, kind) if name in each.entry.text]
    return found


@asynccontextmanager
async def told(tmp_path: Path) -> AsyncIterator[tuple[Home, KnownEntry]]:
    """Ann told where she lives and of Rex; with the line about Rex."""
    async with remembering(tmp_path) as home:
        await remember(home, "t1", said(TALK), **ANN)
        await home.drain()
        yield home, await one(home, "profile", "Rex")


@asynccontextmanager
async def corrected(tmp_path: Path) -> AsyncIterator[tuple[Home, KnownEntry]]:
    async with told(tmp_path) as (home, line):
        await say(home, line.entry_id, MAX)
        yield home, line


async def delete(home: Home, line: KnownEntry) -> None:
    (await home.client.delete(f"{ENTRIES}/{line.entry_id}", params=ANN)).raise_for_status()
    await home.drain()


async def recreate(home: Home) -> None:
    await home.app.reprocessor.reprocess(Caller("default", None))
    await home.drain()


async def forget_where_she_lives(home: Home) -> None:
    """What is left of the conversation is worked on again, and all that comes of it has another place."""
    (await home.client.delete("/api/v1/threads/t1/turns/t-1", params=ANN)).raise_for_status()
    await home.drain()


async def test_the_fact_is_kept_linked_and_marked(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, line):
        rex = await one(home, "facts", "Rex")
        assert rex.entry.extra["superseded_by"] == line.entry_id
        assert await texts(home, "profile") == [MAX, BERLIN]


async def test_what_is_said_again_makes_no_line_and_others_do(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _):
        await hear(home, "I have a dog named Rex.", 1)
        await hear(home, "I have a dog named Bella.", 2)
        assert await texts(home, "profile") == [MAX, BELLA, BERLIN]
        assert len((await one(home, "facts", "Rex")).sources) == 2


async def test_made_again_everything_is_as_it_was_to_the_byte(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _):
        before = vault_files(tmp_path)
        await recreate(home)
        assert vault_files(tmp_path) == before


async def test_it_stays_though_what_was_said_before_it_is_forgotten(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _):
        await forget_where_she_lives(home)
        await recreate(home)
        assert await texts(home, "profile") == [MAX]


async def test_what_says_the_same_as_the_person_makes_no_second_line(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, _):
        await hear(home, "I have a dog named Max.", 1)
        assert await texts(home, "profile") == [MAX, BERLIN]


async def test_written_in_the_file_it_stays_too(tmp_path: Path) -> None:
    async with told(tmp_path) as (home, line):
        page = tmp_path / "vault" / line.path
        page.write_text(page.read_text().replace(f"> {REX}", f"> {MAX}"), encoding="utf-8")

        async def is_applied() -> bool:
            return not (await one(home, "facts", "Rex")).holds

        await eventually(is_applied)
        await forget_where_she_lives(home)
        await hear(home, "I have a dog named Rex.", 1)
        assert await texts(home, "profile") == [MAX]


async def test_undone_the_old_line_is_back(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, line):
        await undo(home, line.entry_id)
        assert await texts(home, "profile") == [REX, BERLIN]
        assert (await one(home, "facts", "Rex")).holds
        await undo(home, line.entry_id)
        assert await texts(home, "profile") == [MAX, BERLIN]
        assert not (await one(home, "facts", "Rex")).holds


async def test_undone_when_all_has_another_place_the_old_line_is_back(tmp_path: Path) -> None:
    async with corrected(tmp_path) as (home, line):
        await forget_where_she_lives(home)
        await undo(home, line.entry_id)
        assert await texts(home, "profile") == [REX]


async def test_others_of_the_same_message_keep_their_lines(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await hear(home, "I have a dog named Rex. I have a cat named Tom.", 0)
        await say(home, (await one(home, "profile", "Rex")).entry_id, MAX)
        await recreate(home)
        assert await texts(home, "profile") == [MAX, TOM]


class TestDeleted:
    """A line that a person took off the page."""

    async def test_it_does_not_come_back(self, tmp_path: Path) -> None:
        async with told(tmp_path) as (home, line):
            await delete(home, line)
            await recreate(home)
            await hear(home, "I have a dog named Rex.", 1)
            await hear(home, "I have a dog named Bella.", 2)
            assert await texts(home, "profile") == [BELLA, BERLIN]
            assert (await one(home, "facts", "Rex")).holds

    @pytest.mark.parametrize("by_hand", [False, True])
    async def test_it_does_not_come_back_when_all_has_another_place(
        self, by_hand: bool, tmp_path: Path
    ) -> None:
        async with told(tmp_path) as (home, line):
            if by_hand:
                page = tmp_path / "vault" / line.path
                page.write_text(re.sub(r"## Pets.*", "", page.read_text(), flags=re.DOTALL), encoding="utf-8")

                async def is_gone() -> bool:
                    return await texts(home, "profile") == [BERLIN]

                await eventually(is_gone)
            else:
                await delete(home, line)
            await forget_where_she_lives(home)
            assert await texts(home, "facts", "profile") == [REX]

    async def test_a_corrected_one_takes_what_it_said_before_along(self, tmp_path: Path) -> None:
        async with corrected(tmp_path) as (home, line):
            await delete(home, line)
            await forget_where_she_lives(home)
            await hear(home, "I have a dog named Rex.", 1)
            assert await texts(home, "profile") == []
            assert (await one(home, "facts", "Rex")).holds

    async def test_what_had_its_place_has_a_line(self, tmp_path: Path) -> None:
        async with told(tmp_path) as (home, _):
            await delete(home, await one(home, "profile", "Berlin"))
            await forget_where_she_lives(home)
            assert await texts(home, "profile") == [REX]
