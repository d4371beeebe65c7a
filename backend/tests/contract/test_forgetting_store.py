"""What forgetting in the journal promises."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from recollect.domain.chat import ContextBlock
from recollect.domain.entries.entry import CASES, FACTS, LAPSES, EntryChange, KnownEntry, Source
from recollect.domain.forgetting import NOTE, OVERWRITE, SETTLE, Derived, Task
from recollect.domain.identity import key_within_user
from recollect.domain.job import ENTRIES, PURGE, TRANSCRIBE, JobSpec
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Append, Entry, NewTurn, ThreadRef
from recollect.domain.strategy import STRATEGY, lapse_job
from recollect.infra.journal.connection import free_pages
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.prompts import keep_block
from recollect.infra.journal.rows import thread_pk
from tests.contract.journals import Journal
from tests.fakes import START

ANN = "default/users/ann"


@pytest.fixture
def store(journal: Journal) -> SqlForgetting:
    return SqlForgetting(journal.database, clock=journal.clock)


async def steps(journal: Journal) -> list[str]:
    """Of the purge jobs that wait."""
    return [str(job.payload.get("step", "files")) for job in await journal.waiting() if job.kind == PURGE]


async def test_files_go_first_and_then_what_came_late(journal: Journal, store: SqlForgetting) -> None:
    await journal.add("t1", "one", "two", user_id="ann")
    await store.forget_turns(ThreadRef("default", "ann", "t1"), ["t-1"])
    assert await steps(journal) == ["files", SETTLE]
    assert TRANSCRIBE in [job.kind for job in await journal.waiting()]


def keep_for(thread: ThreadRef, block: ContextBlock, connection: Connection) -> None:
    """As if it had been sent with the second turn."""
    keep_block(connection, thread_pk(connection, thread), 2, block)


async def test_forgetting_one_of_two_users_with_one_thread_id_leaves_the_others_memories_and_prompts(
    journal: Journal, store: SqlForgetting
) -> None:
    """An agent learned from both, and each was sent the first message of their own thread as a memory."""
    agent, quoted = "default/agents/helper", f"{key_within_user('default', 't1')}:t-1"
    for number, user in enumerate(("ann", "bob")):
        await journal.add("t1", "one", "two", user_id=user)
        source = Source(user, "t1", "t-1")
        learned = Entry(f"ca-{user}", "x", "x", START, (f"users/{user}/threads/t1/0001#^t-1",))
        known = KnownEntry("default", agent, CASES, learned, (source,), f"c-{user}", "case")
        await journal.entries.apply(EntryChange("default", agent, "extraction", "read", (known,)))
        block = ContextBlock(f"block {number}", {quoted: "d"})
        await journal.database.write(partial(keep_for, ThreadRef("default", user, "t1"), block))
    await store.forget_turns(ThreadRef("default", "bob", "t1"), ["t-1"])
    await journal.delete("t1", user_id="bob")
    assert [known.entry_id for known in await journal.entries.list_entries("default")] == ["ca-ann"]
    (left,) = await journal.database.read("SELECT text FROM context_blocks")
    assert left["text"] == "block 0"
    found = await journal.database.read("SELECT DISTINCT user_id FROM tombstones")
    assert [row["user_id"] for row in found] == ["bob"]
    (again,) = await journal.threads.append(
        Append("default", "t1", [NewTurn("user", "three", START, "ann", "m3")], "ann")
    )
    assert (again.status, again.turn_id) == ("accepted", "t-3")


async def test_nothing_is_told_of_a_turn_that_is_gone(journal: Journal, store: SqlForgetting) -> None:
    """Neither what was told before it was forgotten, nor what comes late; what is told of others stays."""
    await journal.add("t1", "one", "two", user_id="ann")
    thread, told = ThreadRef("default", "ann", "t1"), {"words": "one"}
    for turn in ("t-1", "t-2", None):
        await journal.chats.record_receipt(thread, turn, "kept", told)
    await store.forget_turns(thread, ["t-1"])
    await journal.chats.record_receipt(thread, "t-1", "late", told)
    await journal.chats.record_receipt(ThreadRef("default", "ann", "gone"), None, "late", told)
    found = await journal.database.read(
        "SELECT r.stage, t.position FROM receipts r LEFT JOIN turns t ON t.pk = r.turn_pk ORDER BY r.pk"
    )
    assert [tuple(row) for row in found] == [("kept", 2), ("kept", None)]


async def test_of_a_note_the_file_goes_first_and_then_what_came_late(
    journal: Journal, store: SqlForgetting
) -> None:
    await store.forget_note("default", "ann", f"{ANN}/notes/porto.md", "d1")
    first, second = [job for job in await journal.waiting() if job.kind == PURGE]
    for job in (first, second):
        assert (job.payload["step"], job.payload["path"], job.payload["digest"]) == (
            NOTE, f"{ANN}/notes/porto.md", "d1",
        )  # fmt: skip
    assert (first.lane, first.payload.get("waits")) == (second.lane, None)
    assert second.payload["waits"] is True


async def test_no_job_waits_for_a_forgotten_fact_to_lapse(journal: Journal, store: SqlForgetting) -> None:
    ann = [ThreadRef("default", "ann", thread) for thread in ("t1", "t2", "t3")]

    async def lapsing() -> list[str]:
        return [job.lane for job in await journal.waiting() if job.lane == f"lapses:{ANN}"]

    for thread in ann:
        await journal.add(thread.thread_id, "one", user_id="ann")
        source = Source("ann", thread.thread_id, "t-1")
        link, about = f"threads/{thread.thread_id}/0001#^t-1", {LAPSES: write_time(START + 9)}
        entry = Entry(
            f"fa-{thread.thread_id}", "x", "x", START, (link,), extra=about if thread != ann[2] else {}
        )
        known = KnownEntry("default", ANN, FACTS, entry, (source,), "c-1", "facts")
        change = EntryChange("default", ANN, "extraction", "read", (known,))
        await journal.entries.apply(replace(change, extra_jobs=(lapse_job(ANN, 9),)))
    await store.forget_turns(ann[0], ["t-1"])
    assert await lapsing(), "another fact lapses"
    await journal.delete("t2", user_id="ann")
    assert await lapsing() == []


async def test_a_forgetting_waits_for_its_files(journal: Journal, store: SqlForgetting) -> None:
    await journal.add("t1", "one", user_id="ann")
    task = Task("default", "ann", "t1", (1,))
    assert await store.waits_for(task) is None
    await store.forget_turns(ThreadRef("default", "ann", "t1"), ["t-1"])
    assert await store.waits_for(task) == "its files are being written"


async def test_a_forgetting_waits_for_the_files_of_memories(journal: Journal, store: SqlForgetting) -> None:
    known = KnownEntry("default", ANN, FACTS, Entry("fa-1", "x", "x", START))
    await journal.entries.apply(EntryChange("default", ANN, "extraction", "read", (known,)))
    ((stored),) = await journal.entries.list_entries("default")
    task = Task("default", "ann", "", (), Derived({ANN: ("fa-1",)}, (stored.path,)))
    assert [job.kind for job in await journal.waiting()] == [ENTRIES]
    assert await store.waits_for(task) == "the files of memories are being written"
    assert await store.waits_for(Task("default", "ann", "", ())) is None


@pytest.mark.parametrize("whole", [True, False])
async def test_a_forgetting_waits_for_work_on_the_owners_memories_and_on_nobody_elses(
    journal: Journal, store: SqlForgetting, whole: bool
) -> None:
    """Not even of one whose name a pattern would match. What works on one cell of another chat is not waited for."""
    told = {owner: {"strategy": "profile", "owner": f"default/users/{owner}"} for owner in ("a_b", "axb")}
    await journal.add("t1", "one", user_id="axb")
    await journal.queue("t1", JobSpec(STRATEGY, "profile:axb", told["axb"]))
    await journal.queue("t1", JobSpec(STRATEGY, "memory:a_b", {**told["a_b"], "cell": "c-1"}))
    await journal.execute("UPDATE jobs SET state = 'running' WHERE kind = 'strategy'")
    task = Task("default", "a_b", "", ()) if whole else Task("default", "a_b", "t9", (1,))
    expected = "somebody works for the user" if whole else None
    assert await store.waits_for(task) == expected
    await journal.execute("UPDATE jobs SET state = 'queued' WHERE lane = 'memory:a_b'")
    assert await store.waits_for(task) is None
    await journal.queue("t1", JobSpec(STRATEGY, "profile:a_b", told["a_b"]))
    await journal.execute("UPDATE jobs SET state = 'running' WHERE lane = 'profile:a_b'")
    assert await store.waits_for(task) == "somebody works on the thread"


async def test_forgetting_a_user_takes_back_the_work_on_their_memories_alone(
    journal: Journal, store: SqlForgetting
) -> None:
    for user in ("ann", "bob"):
        await journal.add("t1", "one", user_id=user)
        known = KnownEntry("default", f"default/users/{user}", FACTS, Entry(f"fa-{user}", "x", "x", START))
        lapsing = lapse_job(known.owner, 9)
        change = EntryChange("default", known.owner, "extraction", "read", (known,), extra_jobs=(lapsing,))
        await journal.entries.apply(change)
    await store.forget_user("default", "ann")
    left = await journal.database.read("SELECT kind, owner FROM jobs WHERE owner IS NOT NULL ORDER BY kind")
    assert [tuple(row) for row in left] == [
        (ENTRIES, "default/users/bob"),
        (STRATEGY, "default/users/bob"),
    ]


async def test_many_who_forget_wait_for_one_overwriting(journal: Journal, store: SqlForgetting) -> None:
    for _ in range(3):
        await store.queue_overwriting("default")
    assert await steps(journal) == [OVERWRITE]
    await store.overwrite()


async def test_skills_that_are_to_be_made_again_are_waited_for(
    journal: Journal, store: SqlForgetting
) -> None:
    assert not await store.skills_are_waiting()
    lane = "skill:default/agents/agent"
    job = JobSpec(STRATEGY, lane, {"strategy": "skill", "owner": "default/agents/agent"})
    await journal.queue("t1", job)
    assert await store.skills_are_waiting()


def test_what_stands_on_free_pages_is_found_whether_they_list_others_or_not() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE said (text TEXT)")
        connection.executemany("INSERT INTO said VALUES (?)", [("walrus " * 500,)] * 20)
        connection.execute("DROP TABLE said")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        pages = list(free_pages(connection.serialize(), size))
    assert len(pages) > 20
    assert sum(b"walrus" in page for page in pages) >= 20
