"""Knowing long conversations, and many of them, in a real journal."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recollect.domain.chat import AnswerText, ChatRequest
from recollect.domain.history_matching import Sighting, said_digest
from recollect.domain.model import Append, NewTurn
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.database import Database
from recollect.infra.journal.history_matching import AT_ONCE, BEHIND, MOST_SIGHTINGS, SqlChainStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.journal.turns import Schedule
from tests.fakes import START, FakeClock

SCHEDULE = Schedule(boundary_every=4, boundary_delay_ms=0, pause_ms=0, transcript_delay_ms=0)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "journal.db")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def threads(database: Database) -> SqlThreadStore:
    return SqlThreadStore(database, clock=FakeClock(), schedule=SCHEDULE)


def exchanges(count: int, about: str = "") -> list[NewTurn]:
    return [
        turn
        for number in range(count)
        for turn in (
            NewTurn("user", f"q{number} {about}", START, "ann"),
            NewTurn("assistant", f"a{number} {about}", START, "assistant", model="m"),
        )
    ]


def digests(turns: list[NewTurn]) -> list[bytes]:
    return [said for turn in turns if (said := said_digest(turn)) is not None]


async def begun(database: Database, turns: list[NewTurn]) -> list[Sighting]:
    store = SqlChainStore(database)
    return await store.from_the_beginning("default", "ann", digests(turns))


async def test_a_thread_longer_than_one_transaction_takes_in_is_known_to_its_tip(
    database: Database, threads: SqlThreadStore
) -> None:
    said = exchanges(AT_ONCE)
    await threads.append(Append("default", "t1", said, "ann"))
    (tip,) = await begun(database, [*said, *exchanges(1, "new")])
    assert (tip.turn_id, tip.known, tip.is_tip) == (f"t-{2 * AT_ONCE}", 2 * AT_ONCE, True)
    (early,) = await begun(database, [*said[:301], *exchanges(250, "other")])
    assert (early.turn_id, early.known) == ("t-301", 301)
    store = SqlChainStore(database)
    (dropped,) = await store.in_the_middle("default", "ann", digests([*said[100:], *exchanges(1, "new")]))
    assert (dropped.turn_id, dropped.known) == (f"t-{2 * AT_ONCE}", 2 * AT_ONCE - 100)


async def test_an_opening_that_thousands_of_threads_share_costs_a_few_rows(
    database: Database, threads: SqlThreadStore
) -> None:
    for number in range(200):
        await threads.append(Append("default", f"t{number}", exchanges(1), "ann"))
    found = await begun(database, exchanges(1)[:1])
    assert len(found) == MOST_SIGHTINGS
    assert found[0].thread_id == "t199"


async def test_more_threads_than_one_transaction_takes_in_are_all_known(
    database: Database, threads: SqlThreadStore
) -> None:
    many = AT_ONCE + 1
    for number in range(many):
        await threads.append(Append("default", f"t{number}", exchanges(1, str(number)), "ann"))
    for number in (0, many // 2, many - 1):
        assert [each.thread_id for each in await begun(database, exchanges(1, str(number)))] == [f"t{number}"]
    assert await behind(database) == []


async def test_what_was_taken_in_is_not_read_again(database: Database, threads: SqlThreadStore) -> None:
    await threads.append(Append("default", "t1", exchanges(3), "ann"))
    assert await behind(database) == ["t1"]
    await begun(database, exchanges(3))
    assert await behind(database) == []


async def test_an_answer_under_way_is_waited_for_without_looking_at_its_thread_each_time(
    database: Database, threads: SqlThreadStore
) -> None:
    chats = SqlChatStore(database, clock=FakeClock(), schedule=SCHEDULE)
    asked = NewTurn("user", "q", START, "ann")
    accepted = await chats.accept("default", ChatRequest("t1", (asked,), user_id="ann"))
    (sighting,) = await begun(database, [asked])
    assert (sighting.turn_id, await behind(database)) == ("t-1", [])
    await chats.finish("default", "t1", accepted, [AnswerText("a")], status="complete", model="m")
    answer = NewTurn("assistant", "a", START, "assistant")
    assert [each.turn_id for each in await begun(database, [asked, answer])] == ["t-2"]


async def test_a_question_under_way_elsewhere_makes_nobody_wait_for_a_turn_to_write(
    database: Database, threads: SqlThreadStore
) -> None:
    for about in ("mine", "theirs"):
        await threads.append(Append("default", about, exchanges(2, about), "ann"))
    await begun(database, exchanges(2, "mine"))
    chats = SqlChatStore(database, clock=FakeClock(), schedule=SCHEDULE)
    await chats.accept("default", ChatRequest("theirs", tuple(exchanges(1, "asked")[:1]), user_id="ann"))
    written = database.operations
    (sighting,) = await begun(database, [*exchanges(2, "mine"), *exchanges(1, "new")[:1]])
    assert (sighting.thread_id, sighting.turn_id, sighting.is_tip) == ("mine", "t-4", True)
    assert database.operations == written


async def behind(database: Database) -> list[str]:
    found = {row["thread_pk"] for row in await database.read(BEHIND, {"space": "default", "user_id": "ann"})}
    names = await database.read("SELECT pk, thread_id FROM threads")
    return [row["thread_id"] for row in names if row["pk"] in found]


async def test_what_was_said_leaves_no_digest_behind(database: Database, threads: SqlThreadStore) -> None:
    await threads.append(Append("default", "t1", exchanges(3), "ann"))
    await begun(database, exchanges(3))
    assert await database.read("SELECT count(*) AS n FROM chains") == [{"n": 6}]
    await threads.delete_thread("t1")
    assert await database.read("SELECT count(*) AS n FROM chains") == [{"n": 0}]
