"""The last words of a conversation are remembered, though nobody says anything after them."""

from pathlib import Path

from recollect.domain.model import ThreadRef
from recollect.service.remember.boundaries import QuietThreads
from tests.http_client import Home
from tests.remembering import MINUTE, remembering, said, tell, texts

HELLO = [("user", "Hi! My name is Ann and I live in Berlin.")]


async def pass_over(home: Home, minutes: int) -> int:
    """What a look at the buffers closes after so long."""
    quiet = QuietThreads(
        home.app.cells, clock=lambda: home.app.clock() + minutes * MINUTE, gap_ms=30 * MINUTE
    )
    closed = await quiet.close_quiet()
    await home.drain()
    return closed


async def test_a_conversation_that_went_quiet_is_remembered_without_another_word(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize={"pause_seconds": 0.05}) as home:
        await tell(home, "t1", said(HELLO), user_id="ann")
        await home.drain()
        assert await texts(home, "facts") == []
        assert await pass_over(home, 31) == 1
        assert await texts(home, "facts") == ["ann lives in Berlin.", "ann's name is Ann."]
        ((cell, _),) = await home.app.cells.list_cells(ThreadRef("default", "ann", "t1"))
        assert cell.reason == "gap"
        assert await pass_over(home, 60) == 0


async def test_one_that_goes_on_is_left_open_however_old_its_messages_say_they_are(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize={"pause_seconds": 0.05}) as home:
        await tell(home, "t1", said(HELLO, start=0), user_id="ann")
        assert await pass_over(home, 29) == 0
        assert (await home.coverage())["buffered"] == 1


async def test_the_app_looks_for_them_with_the_gap_of_its_settings(tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize={"pause_seconds": 0.05, "gap_minutes": 0.0001}) as home:
        await tell(home, "t1", said(HELLO), user_id="ann")
        await home.drain()
        assert await home.app.quiet_threads.close_quiet() == 1
        await home.drain()
        assert (await home.coverage())["buffered"] == 0
