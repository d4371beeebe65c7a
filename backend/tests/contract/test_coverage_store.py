"""What counting promises, also after any sequence of writes."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.domain.job import JobSpec
from recollect.domain.model import Append, NewTurn, ThreadRef
from recollect.domain.strategy import STRATEGY
from recollect.errors import RecollectError
from recollect.infra.journal import forgotten_proof
from recollect.infra.journal.connection import SqliteConnection
from recollect.infra.journal.connector import Parameters, Row
from recollect.infra.journal.forgotten_proof import SqlForgottenProof
from recollect.infra.journal.sqlite import SqliteConnector
from tests.contract.journals import Journal, cell_of, said
from tests.fakes import START

SYSTEM = NewTurn("system", "be kind", START, "app")


async def test_every_message_is_counted_where_it_is(journal: Journal) -> None:
    await journal.threads.append(Append("default", "t1", [said("a"), said("b"), said("c"), SYSTEM]))
    a, *_ = await journal.history("t1")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a)], "rules")
    await journal.add("t2", "d", "e")
    await journal.delete("t2")
    found = await journal.coverage.coverage(space="default")
    assert (found.messages, found.buffered, found.celled, found.skipped) == (6, 2, 1, 1)
    assert (found.forgotten, found.missing, found.doubled, found.missing_turns) == (2, 0, 0, ())


async def test_what_a_strategy_has_still_to_work_on_is_not_extracted(journal: Journal) -> None:
    await journal.add("t1", "a", "b", "c")
    await journal.add("t2", "d")
    a, b, c = await journal.history("t1")
    (d,) = await journal.history("t2")
    waiting, worked = cell_of(a, b), cell_of(c)
    await journal.cells.close(ThreadRef("default", "me", "t1"), [waiting, worked], "rules")
    await journal.cells.close(ThreadRef("default", "me", "t2"), [cell_of(d, thread_id="t2")], "rules")
    await journal.queue(
        "t1",
        JobSpec(
            STRATEGY, "memory", {"strategy": "facts", "owner": "default/users/me", "cell": waiting.memcell_id}
        ),
    )
    all_of_it = await journal.coverage.coverage(space="default")
    other = await journal.coverage.coverage(space="default", thread_id="t2")
    assert (all_of_it.celled, all_of_it.extracted) == (4, 2)
    assert (other.celled, other.extracted) == (1, 1)


async def test_a_session_a_user_and_a_space_are_counted_alone(journal: Journal) -> None:
    await journal.add("t1", "a", "b", user_id="ann")
    await journal.add("t2", "c", user_id="bob")
    await journal.add("t3", "d", user_id="bob")
    await journal.delete("t3")
    await journal.add("t1", "e", "f", "g", space="two")
    for asked, counted in (
        ({"space": "default"}, (4, 3, 1)),
        ({"space": "default", "thread_id": "t1"}, (2, 2, 0)),
        ({"space": "default", "user_id": "bob"}, (2, 1, 1)),
        ({"space": "two"}, (3, 3, 0)),
        ({"space": "default", "thread_id": "nobody's"}, (0, 0, 0)),
        ({"space": "empty"}, (0, 0, 0)),
    ):
        found = await journal.coverage.coverage(**asked)
        assert (found.messages, found.buffered, found.forgotten) == counted, asked
        assert (found.missing, found.doubled) == (0, 0)


async def test_the_digest_is_the_same_for_the_same_words(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    before = await journal.coverage.coverage(space="default")
    a, b = await journal.history("t1")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a, b)], "rules")
    await journal.update("t1", {"title": "x"})
    assert (await journal.coverage.coverage(space="default")).digest == before.digest


async def test_the_digest_differs_for_other_words_order_or_thread(journal: Journal) -> None:
    digests = set()
    for space, turns in enumerate(
        (
            [said("a", "1"), said("b", "2")],
            [said("a", "1"), said("c", "2")],
            [said("b", "2"), said("a", "1")],
            [said("a", "1")],
        )
    ):
        await journal.threads.append(Append("default", "t1", turns))
        digests.add((await journal.coverage.coverage(space="default", thread_id="t1")).digest)
        await journal.threads.append(Append(f"s{space}", "t1", turns))
        digests.add((await journal.coverage.coverage(space=f"s{space}")).digest)
    assert len(digests) >= 5


async def test_no_statement_gives_the_turns_of_many_threads(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        await journal.add(f"t{number}", "a", "b", "c", "d")
    proof = SqlForgottenProof(journal.database)
    tombstones = await proof.tombstones()
    given: list[int] = []
    every = SqliteConnection.all

    def counted(connection: SqliteConnection, sql: str, parameters: Parameters = ()) -> list[Row]:
        found = every(connection, sql, parameters)
        given.append(len(found))
        return found

    monkeypatch.setattr(SqliteConnection, "all", counted)
    monkeypatch.setattr(forgotten_proof, "TURNS_AT_ONCE", 5)
    await journal.coverage.coverage(space="default")
    looked = await proof.journal(tombstones)
    assert (looked[0].what, looked[0].number) == ("turns", 32)
    assert max(given, default=0) <= 8


async def test_rows_that_name_what_is_gone_are_found(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    proof = SqlForgottenProof(journal.database)
    tombstones = await proof.tombstones()
    assert not [each for each in await proof.journal(tombstones) if each.found]
    connector = journal.database.connector
    if not isinstance(connector, SqliteConnector):
        return  # It lets nobody write such a row.
    await connector.outside_transaction(lambda connection: connection.run("PRAGMA foreign_keys = OFF"))
    await journal.execute("UPDATE unprocessed_buffer SET turn_pk = 99 WHERE turn_pk = 1")
    assert [each.what for each in await proof.journal(tombstones) if each.found] == ["buffered turns"]


async def test_a_space_that_holds_anything_is_named_and_the_default_always(journal: Journal) -> None:
    await journal.add("t1", "a", space="one")
    await journal.add("t1", "a", space="two")
    await journal.delete("t1", space="two")
    assert await journal.coverage.spaces() == ["default", "one", "two"]


async def test_a_sound_journal_contradicts_itself_nowhere(journal: Journal) -> None:
    await journal.add("t1", "a", "b", "c")
    a, *_ = await journal.history("t1")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a)], "rules")
    await journal.delete("t1")
    await journal.add("t1", "d")
    assert await journal.coverage.inconsistencies() == []


# After any sequence of writes every message that was accepted is counted, and in exactly one place.

_threads = st.sampled_from(["t1", "t2"])
_users = st.sampled_from([None, "ann", "bob"])
_message_ids = st.none() | st.sampled_from(["m1", "m2", "m3", f"m_t1_{START}_4"])
_turns = st.builds(
    NewTurn,
    role=st.sampled_from(["user", "assistant", "system"]),
    content=st.sampled_from(["a", "b", "你好\r\n"]),
    timestamp=st.sampled_from([START, START + 1]),
    sender_id=st.just("ann"),
    message_id=_message_ids,
)
_append = st.tuples(st.just("append"), _threads, _users, st.lists(_turns, min_size=1, max_size=4))
_close = st.tuples(st.just("close"), _threads, st.integers(0, 3), st.integers(1, 3))
_forget = st.tuples(st.just("forget"), _threads)
_steps = st.lists(st.one_of(_append, _append, _close, _forget), max_size=14)


@pytest.fixture(scope="module")
def loop_of_its_own() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def real(loop_of_its_own: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    """One database for all examples: each has a space of its own."""
    stack = AsyncExitStack()
    path = tmp_path_factory.mktemp("journal") / "journal.db"
    yield loop_of_its_own.run(stack.enter_async_context(Journal(path)))
    loop_of_its_own.run(stack.aclose())


_spaces = count(1)


@settings(deadline=None)
@given(steps=_steps)
def test_after_any_sequence_of_writes_every_accepted_message_is_in_one_place(
    loop_of_its_own: asyncio.Runner, real: Journal, steps: list[tuple[object, ...]]
) -> None:
    loop_of_its_own.run(_check(real, f"s{next(_spaces)}", steps))


async def _check(journal: Journal, space: str, steps: list[tuple[object, ...]]) -> None:
    accepted = 0
    for step in steps:
        with suppress(RecollectError):
            accepted += await _take(journal, space, step)
    found = await journal.coverage.coverage(space=space)
    assert (found.messages, found.missing, found.doubled) == (accepted, 0, 0)
    assert found.buffered + found.celled + found.skipped + found.forgotten == accepted


async def _take(journal: Journal, space: str, step: tuple[object, ...]) -> int:
    """How many messages a step has accepted."""
    match step:
        case ("append", str(thread_id), user_id, list(turns)):
            user = user_id if isinstance(user_id, str) else None
            receipts = await journal.threads.append(Append(space, thread_id, turns, user))
            return sum(receipt.status == "accepted" for receipt in receipts)
        case ("close", str(thread_id), int(first), int(length)):
            open_turns = await journal.cells.look(ThreadRef(space, "me", thread_id), first + length)
            cell = cell_of(*open_turns[first:], space=space, thread_id=thread_id)
            if cell.turn_ids:
                await journal.cells.close(ThreadRef(space, "me", thread_id), [cell], "rules")
        case ("forget", str(thread_id)):
            await journal.delete(thread_id, space=space)
    return 0
