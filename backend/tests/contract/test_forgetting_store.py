"""What forgetting in the journal promises."""

import pytest

from recollect.domain.entries.entry import FACTS, EntryChange, EntryJob, KnownEntry
from recollect.domain.forgetting import NOTE, OVERWRITE, SETTLE, Derived, Task
from recollect.domain.job import ENTRIES, PURGE, TRANSCRIBE
from recollect.domain.model import Entry, ThreadRef
from recollect.domain.strategy import STRATEGY
from recollect.infra.journal.forget.forgetting import SqlForgetting
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


async def test_many_who_forget_wait_for_one_overwriting(journal: Journal, store: SqlForgetting) -> None:
    for _ in range(3):
        await store.queue_overwriting("default")
    assert await steps(journal) == [OVERWRITE]
    await store.overwrite()


async def test_skills_that_are_to_be_made_anew_are_waited_for(journal: Journal, store: SqlForgetting) -> None:
    assert not await store.skills_are_waiting()
    lane = "skill:default/agents/agent"
    job = EntryJob(STRATEGY, lane, {"strategy": "skill", "owner": "default/agents/agent"})
    await journal.queue("t1", job)
    assert await store.skills_are_waiting()
