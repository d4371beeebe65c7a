"""The last words of a conversation are remembered soon, though nobody says anything after them."""

from pathlib import Path

import pytest

from recollect.domain.model import ThreadRef
from recollect.service.remember.boundaries import QuietThreads
from tests.eventually import eventually
from tests.http_client import Home, Json
from tests.remembering import MINUTE, flush, remembering, said, tell, texts

HELLO = [("user", "Hi! My name is Ann and I live in Berlin.")]
AT_ONCE = {"pause_seconds": 0.05}


async def pass_over(home: Home, minutes: int) -> int:
    """What a look at the buffers closes after so long."""
    quiet = QuietThreads(home.app.cells, clock=lambda: home.app.clock() + minutes * MINUTE, quiet_seconds=300)
    closed = await quiet.close_quiet()
    await home.drain()
    return closed


async def chat(home: Home, thread: str, **fields: object) -> Json:
    body = {"user_id": "ann", "content": HELLO[0][1], **fields}
    answer = await home.client.post(f"/api/v1/threads/{thread}/messages", json=body)
    told: Json = answer.raise_for_status().json()
    return told


async def add_turn(home: Home, thread: str) -> None:
    body = {"user_id": "ann", "role": "user", "content": "Something else."}
    (await home.client.post(f"/api/v1/threads/{thread}/turns", json=body)).raise_for_status()


async def cells(home: Home, thread: str, user: str = "ann") -> list[tuple[tuple[str, ...], str]]:
    found = await home.app.cells.list_cells(ThreadRef("default", user, thread))
    return [(cell.turn_ids, cell.reason) for cell, _ in found]


async def waiting(home: Home, thread: str) -> Json | None:
    answer = await home.client.get(f"/api/v1/threads/{thread}", params={"user_id": "ann"})
    told: Json | None = answer.raise_for_status().json()["waiting"]
    return told


async def test_a_conversation_that_went_quiet_is_remembered_without_another_word(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize=AT_ONCE) as home:
        await tell(home, "t1", said(HELLO), user_id="ann")
        await home.drain()
        assert await texts(home, "facts") == []
        assert await pass_over(home, 31) == 1
        assert await texts(home, "facts") == ["ann lives in Berlin.", "ann's name is Ann."]
        assert await cells(home, "t1") == [(("t-1",), "gap")]
        assert await pass_over(home, 99) == 0


async def test_one_that_goes_on_is_left_open_however_old_its_messages_say_they_are(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize=AT_ONCE) as home:
        await tell(home, "t1", said(HELLO, start=0), user_id="ann")
        assert await pass_over(home, 29) == 0
        assert (await home.coverage())["buffered"] == 1


async def test_the_app_looks_for_them_with_the_gap_of_its_settings(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize={**AT_ONCE, "gap_minutes": 0.0001}) as home:
        await home.app.quiet_threads.stop()  # It looks every five seconds by itself.
        await tell(home, "t1", said(HELLO), user_id="ann")
        await home.drain()
        assert await home.app.quiet_threads.close_quiet() == 1
        await home.drain()
        assert (await home.coverage())["buffered"] == 0


async def test_a_chat_is_remembered_after_five_minutes_of_quiet(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize=AT_ONCE) as home:
        await chat(home, "t1")
        assert await pass_over(home, 4) == 0
        assert await pass_over(home, 6) == 1
        assert await cells(home, "t1") == [(("t-1", "t-2"), "gap")]


async def test_what_is_added_to_a_chat_waits_as_long_as_the_chat(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize={**AT_ONCE, "quiet_seconds": 120}) as home:
        await chat(home, "t1")
        await add_turn(home, "t1")
        assert await pass_over(home, 1) == 0
        assert await pass_over(home, 3) == 1
        assert (await home.coverage())["buffered"] == 0


@pytest.mark.parametrize("door", ["memory/add", "turns", "chat"])
async def test_the_first_message_of_the_next_thread_closes_the_one_before(tmp_path: Path, door: str) -> None:
    async with remembering(tmp_path) as home:
        await tell(home, "t1", said(HELLO), user_id="ann")
        if door == "memory/add":
            await tell(home, "t2", said(HELLO), user_id="ann")
        elif door == "turns":
            await add_turn(home, "t2")
        else:
            await chat(home, "t2")
        await eventually(lambda: cells(home, "t1"))
        assert await cells(home, "t1") == [(("t-1",), "next")]
        assert await cells(home, "t2") == []


async def test_what_memory_leaves_alone_closes_no_thread(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize=AT_ONCE) as home:
        await tell(home, "t1", said(HELLO), user_id="ann")
        await chat(home, "t2", memory=False)
        await home.drain()
        assert await cells(home, "t1") == []


async def test_neither_later_messages_nor_other_users_close_a_thread(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize=AT_ONCE) as home:
        await tell(home, "t1", said(HELLO), user_id="ann")
        await tell(home, "t2", said(HELLO), user_id="bob")
        await home.drain()
        assert (await home.coverage())["buffered"] == 2
        await tell(home, "t3", said(HELLO), user_id="ann")
        await tell(home, "t1", said(HELLO, prefix="n"), user_id="ann")
        await tell(home, "t3", said(HELLO, prefix="n"), user_id="ann")
        await home.drain()
        assert await cells(home, "t1") == [(("t-1",), "next")]
        assert await cells(home, "t2", "bob") == await cells(home, "t3") == []


async def test_a_thread_that_goes_on_beside_the_next_one_keeps_its_later_words(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize=AT_ONCE) as home:
        async with home.app.jobs.paused():
            await tell(home, "t1", said(HELLO), user_id="ann")
            await tell(home, "t2", said(HELLO), user_id="ann")
            await tell(home, "t1", said(HELLO, prefix="n"), user_id="ann")
        await home.drain()
        assert await cells(home, "t1") == [(("t-1",), "next")]
        assert (await waiting(home, "t1") or {})["messages"] == 1
        await flush(home, "t1")
        assert await cells(home, "t1") == [(("t-1",), "next"), (("t-2",), "flush")]
        assert (await home.coverage())["missing"] == 0


async def test_thread_and_receipt_say_what_waits_and_until_when(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        before = home.app.clock()
        receipt = (await chat(home, "t1"))["receipt"]
        assert receipt["waiting"]["messages"] == 2
        assert before + 5 * MINUTE <= receipt["waiting"]["until"] <= home.app.clock() + 5 * MINUTE
        assert await waiting(home, "t1") == receipt["waiting"]
        await flush(home, "t1")
        assert await waiting(home, "t1") is None
