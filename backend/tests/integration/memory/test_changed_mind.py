"""Somebody changes their mind: what they like no longer is kept, linked, and neither shown nor preferred."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.domain.entries.entry import EntryChange, KnownEntry
from tests.eventually import eventually
from tests.http_client import Home
from tests.remembering import DAY, MAY_8, entries, remember, remembering, said, texts
from tests.standins.where_ann_lives import ANN, ENTRIES, found, hear, holding, say, undo

pytestmark = pytest.mark.slow

LIKES, NOT = "ann likes coffee.", "ann does not like coffee."


async def one(home: Home, text: str, kind: str = "facts") -> KnownEntry:
    (found,) = [each for each in await entries(home, kind) if each.entry.text == text]
    return found


async def shown(home: Home) -> tuple[list[str], list[str]]:
    """What holds, and what stands on the page."""
    return await holding(home), await texts(home, "profile")


@asynccontextmanager
async def changed_mind(tmp_path: Path) -> AsyncIterator[Home]:
    async with remembering(tmp_path) as home:
        await hear(home, "I like coffee.", 0)
        await hear(home, "I don't like coffee anymore.", 30)
        yield home


async def test_the_newer_word_holds_both_ways_and_the_older_is_kept_and_linked(tmp_path: Path) -> None:
    async with changed_mind(tmp_path) as home:
        assert await shown(home) == ([NOT], [NOT])
        likes, dislikes = await one(home, LIKES), await one(home, NOT)
        body = (await home.client.get(f"{ENTRIES}/{likes.entry_id}", params=ANN)).raise_for_status().json()
        assert dislikes.entry_id in str(body)
        assert likes.entry.extra["superseded_by"] == dislikes.entry_id
        assert likes.entry.extra["until"] == "2026-06-07T14:03:00.000Z"

        async def is_known() -> bool:
            hits = await found(home, "Does Ann like coffee?", types=["facts"])
            return [(hit["text"], hit["why"].get("validity", 0)) for hit in hits] == [(NOT, 0), (LIKES, -1)]

        await eventually(is_known)
        await hear(home, "I love coffee again.", 60)
        assert await shown(home) == (["ann loves coffee."],) * 2


async def like_much_else(home: Home) -> None:
    """More than is compared by its words, and on later days."""
    coffee = await one(home, LIKES)
    things = [f"{chr(97 + number % 26) * 5}{number}" for number in range(250)]
    change = EntryChange(
        coffee.space,
        coffee.owner,
        "extraction",
        "a test",
        put=tuple(
            replace(
                coffee,
                revision=0,
                entry=replace(
                    coffee.entry,
                    entry_id=f"fa-other-{thing}",
                    title=f"ann likes {thing}.",
                    text=f"ann likes {thing}.",
                    when=coffee.entry.when + number + 1,
                    extra={**coffee.entry.extra, "value": thing},
                ),
            )
            for number, thing in enumerate(things)
        ),
    )
    await home.app.entry_store.apply(change)
    await home.drain()


async def test_however_much_else_was_liked_since(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await hear(home, "I like coffee.", 0)
        await like_much_else(home)
        await hear(home, "I don't like coffee anymore.", 30)
        assert LIKES not in await holding(home)
        assert len(await holding(home)) == 251
        assert (await one(home, LIKES)).entry.extra["superseded_by"] == (await one(home, NOT)).entry_id


async def test_what_was_denied_holds_again_when_a_person_makes_something_else_of_the_denial(
    tmp_path: Path,
) -> None:
    async with changed_mind(tmp_path) as home:
        await say(home, (await one(home, NOT)).entry_id, "ann does not like tea.")
        assert await holding(home) == ["ann does not like tea.", LIKES]


async def test_what_a_person_pinned_stays_on_the_page_however_much_else_was_liked_since(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path) as home:
        await hear(home, "I like coffee.", 0)
        await like_much_else(home)
        fact = await one(home, LIKES)
        pinned = {**ANN, "pinned": True}
        (await home.client.patch(f"{ENTRIES}/{fact.entry_id}", json=pinned)).raise_for_status()
        await hear(home, "I like tea.", 30)
        page = await texts(home, "profile")
        assert {LIKES, "ann likes tea."} <= set(page)
        assert len(page) == 20


async def test_when_the_newer_word_is_forgotten_the_older_holds_again(tmp_path: Path) -> None:
    async with changed_mind(tmp_path) as home:
        (await home.client.delete("/api/v1/threads/day-30", params=ANN)).raise_for_status()
        await home.drain()
        assert await shown(home) == ([LIKES], [LIKES])


@pytest.mark.parametrize(
    ("before", "after"),
    [("I live in Berlin.", "I live in Lisbon."), ("I like coffee.", "I don't like coffee.")],
)
async def test_the_newer_word_holds_though_what_was_said_before_it_is_forgotten(
    before: str, after: str, tmp_path: Path
) -> None:
    """Then all that is left of the conversation has another place."""
    async with remembering(tmp_path) as home:
        await hear(home, before, 0)
        talk = [("user", "I work as a nurse."), ("assistant", "Nice."), ("user", after)]
        await remember(home, "t1", said(talk, start=MAY_8 + 30 * DAY), **ANN)
        await home.drain()
        (await home.client.delete("/api/v1/threads/t1/turns/t-1", params=ANN)).raise_for_status()
        await home.drain()
        older, newer = await entries(home, "facts")
        assert (older.entry.extra["superseded_by"], newer.holds) == (newer.entry_id, True)


async def test_a_persons_word_wins_until_it_is_undone(tmp_path: Path) -> None:
    async with changed_mind(tmp_path) as home:
        likes = await one(home, LIKES)
        await say(home, likes.entry_id, "Ann still likes coffee.")
        assert await shown(home) == (["Ann still likes coffee."],) * 2
        await undo(home, likes.entry_id)
        assert await shown(home) == ([NOT], [NOT])
        assert (await one(home, LIKES)).entry.extra["superseded_by"] == (await one(home, NOT)).entry_id


async def test_of_two_words_of_theirs_the_page_shows_the_newer(tmp_path: Path) -> None:
    async with changed_mind(tmp_path) as home:
        likes, dislikes = await one(home, LIKES), await one(home, NOT)
        await say(home, likes.entry_id, "Ann still likes coffee.")
        await say(home, dislikes.entry_id, "Ann does not like coffee at all.")
        assert await texts(home, "profile") == ["Ann does not like coffee at all."]
        await undo(home, dislikes.entry_id)
        assert await texts(home, "profile") == ["Ann still likes coffee."]


@pytest.mark.parametrize("ends", ["undone", "deleted", "forgotten"])
async def test_so_does_their_line_of_the_profile(ends: str, tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await hear(home, "I like coffee.", 0)
        line = await one(home, LIKES, "profile")
        await say(home, line.entry_id, "Ann likes coffee very much.")
        await hear(home, "I don't like coffee.", 30)
        assert await shown(home) == ([], ["Ann likes coffee very much."])
        if ends == "undone":
            await undo(home, line.entry_id)
        else:
            gone = f"{ENTRIES}/{line.entry_id}" if ends == "deleted" else "/api/v1/threads/day-0"
            (await home.client.delete(gone, params=ANN)).raise_for_status()
            await home.drain()
        assert await shown(home) == ([NOT], [NOT])


async def test_of_what_one_message_says_the_last_word_holds(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        for day, place in enumerate(["Lisbon", "Porto", "Faro", "Braga"]):
            await hear(home, f"I live in Berlin. I live in {place}.", day)
            assert await holding(home) == [f"ann lives in {place}."]
