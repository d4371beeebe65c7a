"""What `THREADS` promises."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from recollect.domain.job import BOUNDARY, TRANSCRIBE
from recollect.domain.model import Append, NewTurn, Thread, ThreadCursor, ThreadRef
from recollect.errors import NotFound
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.forget.forget import IncognitoEnds
from recollect.service.threads import add_turn
from tests.contract.journals import BOUNDARY_DELAY_MS, BOUNDARY_EVERY, PAUSE_MS, Journal, said
from tests.fakes import START

ANNS = Thread("default", "t1", "ann", START, START, title="Marta", tags=("family",))


# Appending


async def test_order_is_the_order_of_arrival_and_not_of_timestamps(journal: Journal) -> None:
    turns = [said("late", timestamp=2000), said("early", timestamp=1000)]
    await journal.threads.append(Append("default", "t1", turns))
    assert await journal.texts("t1") == ["late", "early"]


async def test_one_turn_is_added_and_read_back_by_the_threads_id(journal: Journal) -> None:
    stored = await journal.threads.add_turn("t1", said("hello", message_id="m1"), user_id="ann")
    again = await journal.threads.add_turn("t1", said("hello", message_id="m1"), user_id="ann")
    assert (stored.turn_id, again) == ("t-1", stored)
    assert await journal.threads.get_history("t1", 5) == [stored]
    assert await journal.threads.get_history(ThreadRef("default", "ann", "t1")) == [stored]


async def test_an_append_dates_the_thread(journal: Journal) -> None:
    await journal.add("t1", "a")
    journal.clock.advance(5000)
    await journal.add("t1", "b")
    thread = await journal.threads.get_thread("t1")
    assert thread is not None
    assert (thread.created, thread.updated, thread.turn_count) == (START, START + 5000, 2)


async def test_a_system_message_is_stored_and_skipped_with_its_reason(journal: Journal) -> None:
    stored, _ = await add_turn(
        journal.threads, ThreadRef("default", "me", "t1"), NewTurn("system", "be kind", START, "app")
    )
    assert stored.skip_reason == "system message"


async def test_a_turn_of_an_incognito_thread_is_skipped_with_its_reason(journal: Journal) -> None:
    await journal.threads.create_thread(replace(ANNS, incognito=True))
    stored, _ = await add_turn(journal.threads, ANNS.ref, said("psst"))
    assert stored.skip_reason == "incognito thread"


# Ids


async def test_other_words_under_a_known_id_are_reported_and_not_taken(journal: Journal) -> None:
    await journal.threads.append(Append("default", "t1", [said("hello", "m1")]))
    (again,) = await journal.threads.append(Append("default", "t1", [said("goodbye", "m1")]))
    assert again.status == "duplicate"
    assert again.detail is not None
    assert await journal.texts("t1") == ["hello"]


async def test_what_is_new_in_a_batch_of_duplicates_is_taken(journal: Journal) -> None:
    await journal.threads.append(Append("default", "t1", [said("a", "m1")]))
    batch = [said("a", "m1"), said("b", "m2"), said("a", "m1"), said("c", "m3")]
    receipts = await journal.threads.append(Append("default", "t1", batch))
    assert [receipt.status for receipt in receipts] == ["duplicate", "accepted", "duplicate", "accepted"]
    assert await journal.texts("t1") == ["a", "b", "c"]


@pytest.mark.parametrize(
    "batches",
    [
        [[said("given", f"m_t1_{START}_2")], [said("made")]],
        [[said("given", f"m_t1_{START}_2"), said("made")]],
        [[said("made"), said("given", f"m_t1_{START}_1")]],
        [[said("made"), said("made")]],
    ],
    ids=["given before", "given in the same batch", "given later in the batch", "at the same time"],
)
async def test_a_made_id_is_nobody_elses(journal: Journal, batches: list[list[NewTurn]]) -> None:
    receipts = [
        receipt
        for turns in batches
        for receipt in await journal.threads.append(Append("default", "t1", turns))
    ]
    assert {receipt.status for receipt in receipts} == {"accepted"}
    assert len({receipt.message_id for receipt in receipts}) == 2


async def test_a_made_id_avoids_one_that_was_given_and_forgotten(journal: Journal) -> None:
    await journal.threads.append(Append("default", "t1", [said("given", f"m_t1_{START}_2")]))
    await journal.delete("t1")
    (made,) = await journal.add("t1", "made")
    assert made.message_id != f"m_t1_{START}_2"


async def test_more_ids_than_a_query_holds_are_all_recognised_and_queue_no_work(journal: Journal) -> None:
    batch = Append("default", "t1", [said("x", f"m{number}") for number in range(1200)])
    await journal.threads.append(batch)
    queued = await journal.waiting()
    again = await journal.threads.append(batch)
    assert {receipt.status for receipt in again} == {"duplicate"}
    assert await journal.waiting() == queued


# Histories


@pytest.mark.parametrize(
    ("max_turns", "texts"),
    [
        (None, ["a", "b", "c"]),
        (0, []),
        (1, ["c"]),
        (2, ["b", "c"]),
        (3, ["a", "b", "c"]),
        (1_000_000, ["a", "b", "c"]),
        (10**30, ["a", "b", "c"]),
        (-1, []),
    ],
)
async def test_a_history_is_the_newest_turns_oldest_first(
    journal: Journal, max_turns: int | None, texts: list[str]
) -> None:
    await journal.add("t1", "a", "b", "c")
    assert [turn.content for turn in await journal.history("t1", max_turns)] == texts


@pytest.mark.parametrize("turn_id", ["t-9", "nonsense", "t-", "t-" + "9" * 30, "t-" + "9" * 5000])
async def test_a_turn_that_is_not_there_is_not_found(journal: Journal, turn_id: str) -> None:
    await journal.add("t1", "a")
    assert await journal.threads.turn(await journal.threads.meant("t1"), turn_id) is None


# Threads


async def test_a_created_thread_comes_back_as_it_was_given(journal: Journal) -> None:
    thread = replace(ANNS, agent_id="guide", preset="calm", backend="big")
    assert await journal.threads.create_thread(thread) == thread
    assert await journal.threads.get_thread("t1") == thread


@pytest.mark.parametrize("old", [None, "", "New chat"])
async def test_a_title_is_replaced_while_it_is_the_old_one(journal: Journal, old: str | None) -> None:
    await journal.threads.create_thread(replace(ANNS, title=old))
    assert await journal.threads.replace_title(ANNS.ref, old, "Porto")
    assert await journal.threads.get_thread("t1") == replace(ANNS, title="Porto")


@pytest.mark.parametrize("old", [None, "", "New chat"])
async def test_a_title_that_has_changed_meanwhile_is_not_replaced(journal: Journal, old: str | None) -> None:
    await journal.threads.create_thread(ANNS)
    assert not await journal.threads.replace_title(ANNS.ref, old, "Porto")
    assert await journal.threads.get_thread("t1") == ANNS


@pytest.mark.parametrize(("old", "now"), [(None, ""), ("", None)])
async def test_a_title_that_was_emptied_is_not_one_that_was_never_given(
    journal: Journal, old: str | None, now: str | None
) -> None:
    await journal.threads.create_thread(replace(ANNS, title=now))
    assert not await journal.threads.replace_title(ANNS.ref, old, "Porto")
    assert await journal.threads.get_thread("t1") == replace(ANNS, title=now)


@pytest.mark.parametrize("words", ["straße", "ÄRGER auf", "ЖУРНАЛ", "ÇAY", "N° 2_%"])
async def test_a_title_is_found_by_its_words_in_any_case(journal: Journal, words: str) -> None:
    thread = replace(ANNS, title="Ärger auf der Straße: журнал, Çay, n° 2_%")
    await journal.threads.create_thread(thread)
    assert await journal.threads.recent_threads(words=words, limit=9) == [thread]
    assert await journal.threads.recent_threads(words=f"{words}x", limit=9) == []


async def test_a_thread_that_is_not_there_cannot_be_changed(journal: Journal) -> None:
    with pytest.raises(NotFound):
        await journal.update("t1", {"title": "x"})
    assert await journal.threads.list_threads() == []


async def test_recent_threads_are_the_last_used_first_below_pinned_ones(journal: Journal) -> None:
    for thread_id in ("t1", "t2", "t3"):
        await journal.add(thread_id, "hello")
        journal.clock.advance(1000)
    await journal.update("t2", {"pinned": True})
    await journal.add("t1", "hello again")
    found = await journal.threads.recent_threads(limit=10)
    assert [(thread.thread_id, thread.pinned) for thread in found] == [
        ("t2", True), ("t1", False), ("t3", False),
    ]  # fmt: skip


async def test_recent_threads_page_without_gap_or_overlap_though_one_is_used_or_deleted_meanwhile(
    journal: Journal,
) -> None:
    for number in range(6):
        await journal.add(f"t{number}", "hello")  # All at the same time.
    first = await journal.threads.recent_threads(limit=2)
    journal.clock.advance(1000)
    await journal.add(first[-1].thread_id, "hello again")
    await journal.delete(first[0].thread_id)
    rest = await journal.threads.recent_threads(limit=10, after=ThreadCursor.of(first[-1]))
    assert [thread.thread_id for thread in first + rest] == ["t5", "t4", "t3", "t2", "t1", "t0"]


async def test_the_tags_and_the_agent_of_an_append_join_those_of_the_thread(journal: Journal) -> None:
    await journal.threads.create_thread(ANNS)
    tags = ("trip", "family")
    await journal.threads.append(Append("default", "t1", [said("a")], agent_id="guide", tags=tags))
    thread = await journal.threads.get_thread("t1")
    assert thread is not None
    assert (thread.tags, thread.agent_id) == (("family", "trip"), "guide")
    await journal.threads.append(Append("default", "t1", [said("b")], agent_id="other"))
    again = await journal.threads.get_thread("t1")
    assert again is not None
    assert again.agent_id == "guide"


# Walls


async def test_pages_of_an_operator_hold_every_thread_once_where_users_share_ids(journal: Journal) -> None:
    for user_id in ("ann", "bob", "eve"):
        for thread_id in ("t1", "t2"):
            await journal.add(thread_id, "hello", user_id=user_id)
    wanted = sorted((user_id, thread_id) for user_id in ("ann", "bob", "eve") for thread_id in ("t1", "t2"))
    oldest, recent = [], []
    last = None
    while page := await journal.threads.list_threads(limit=1, after=last):
        last = page[-1].ref
        oldest.append((last.user_id, last.thread_id))
    cursor = None
    while page := await journal.threads.recent_threads(limit=1, after=cursor):
        cursor = ThreadCursor.from_text(ThreadCursor.of(page[-1]).as_text())
        recent.append((cursor.user_id, cursor.thread_id))
    assert (sorted(oldest), sorted(recent)) == (wanted, wanted)


# The work that follows


async def test_an_append_queues_a_look_after_a_pause_and_a_transcript(journal: Journal) -> None:
    await journal.add("t1", "a")
    due = {job.kind: job.run_at - START for job in await journal.waiting()}
    assert due[BOUNDARY] == PAUSE_MS
    assert 0 <= due[TRANSCRIBE] < 1000


async def test_enough_messages_bring_the_look_forward(journal: Journal) -> None:
    await journal.add("t1", *"x" * (BOUNDARY_EVERY - 1))
    await journal.add("t1", "x")
    due = [job.run_at - START for job in await journal.waiting() if job.kind == BOUNDARY]
    assert due == [BOUNDARY_DELAY_MS]


async def test_an_incognito_thread_queues_nothing(journal: Journal) -> None:
    await journal.threads.create_thread(replace(ANNS, incognito=True))
    await journal.add("t1", *"abcdef")
    assert await journal.waiting() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda threads: threads.update(ANNS.ref, {"title": "Porto"}),
        lambda threads: threads.replace_title(ANNS.ref, "Marta", "Porto"),
    ],
)
async def test_a_change_of_the_title_queues_a_transcript(
    journal: Journal, change: Callable[[SqlThreadStore], Awaitable[object]]
) -> None:
    await journal.builder.add_thread(ANNS, [], [], [])
    await change(journal.threads)
    assert TRANSCRIBE in [job.kind for job in await journal.waiting()]


# Incognito threads


async def test_an_idle_incognito_thread_ends_and_leaves_nothing(journal: Journal) -> None:
    await journal.threads.create_thread(replace(ANNS, incognito=True))
    await journal.add("t2", "kept")
    assert await journal.threads.idle_incognito(START) == []
    ends = IncognitoEnds(journal.threads, clock=lambda: START + 3_600_001, idle_hours=1)
    assert await ends.end_idle() == 1
    assert await journal.threads.get_thread("t1") is None
    assert await ends.end_idle() == 0


async def test_what_the_caller_keeps_of_a_turn_changes_nothing(journal: Journal) -> None:
    parts = [{"type": "text"}]
    await journal.threads.append(Append("default", "t1", [NewTurn("user", "a", START, "ann", parts=parts)]))
    parts[0]["type"] = "changed"
    (turn,) = await journal.history("t1")
    assert turn.parts == [{"type": "text"}]
