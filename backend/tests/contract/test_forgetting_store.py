"""What forgetting in the journal promises."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from recollect.domain.entries.entry import FACTS, EntryChange, EntryJob, KnownEntry, Source
from recollect.domain.forgetting import NOTE, OVERWRITE, SETTLE, USER, Derived, Task
from recollect.domain.identity import message_key, thread_key
from recollect.domain.job import ENTRIES, PURGE, TRANSCRIBE, Job
from recollect.domain.model import Append, Entry, NewTurn
from recollect.domain.strategy import STRATEGY
from recollect.errors import NotFound
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_rows import SqlJobQueue
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.jobs import SqlJobStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.journal.turns import Schedule
from tests.fakes import START, FakeClock

ANN, BOB = "default/users/ann", "default/users/bob"
KEY = thread_key("default", "t1")


@dataclass(frozen=True)
class Memory:
    """A store, and the journal that it forgets in."""

    store: SqlForgetting
    threads: SqlThreadStore
    entries: SqlEntryStore
    queue: Callable[[EntryJob], Awaitable[None]]
    listed: Callable[[], Awaitable[list[Job]]]

    async def say(self, thread_id: str, *texts: str, user_id: str = "ann", role: str = "user") -> None:
        """Each has a message id of its own: the thread, and what it says."""
        turns = [
            NewTurn(
                "assistant" if role == "assistant" else "user", text, START, user_id, f"{thread_id}-{text}"
            )
            for text in texts
        ]
        await self.threads.append(Append("default", thread_id, turns, user_id))

    async def know(self, name: str, *turn_ids: str, thread_id: str = "t1", owner: str = ANN) -> KnownEntry:
        sources = tuple(Source(thread_id, each) for each in turn_ids)
        known = KnownEntry("default", owner, FACTS, Entry(name, name, name, START), sources)
        await self.entries.apply(EntryChange("default", owner, "extraction", "read", (known,)))
        stored = await self.entries.get("default", name)
        assert stored is not None
        return stored

    async def texts(self, thread_id: str = "t1") -> list[str]:
        return [turn.content for turn in await self.threads.get_history(thread_id)]

    async def steps(self) -> list[str]:
        """Of the purge jobs that wait."""
        return [str(job.payload.get("step", "files")) for job in await self.listed() if job.kind == PURGE]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    database, clock = Database(tmp_path / "journal.db"), FakeClock()
    await database.open()
    schedule = Schedule(boundary_every=4, boundary_delay_ms=700, pause_ms=30_000, transcript_delay_ms=400)
    jobs = SqlJobQueue(database, clock=clock, on_due=lambda due: None)

    async def queue(job: EntryJob) -> None:
        await jobs.queue("default", None, [job])

    async def listed() -> list[Job]:
        return await SqlJobStore(database).list_jobs(space="default", limit=1000, after=0)

    yield Memory(
        SqlForgetting(database, clock=clock),
        SqlThreadStore(database, clock=clock, schedule=schedule),
        SqlEntryStore(database, clock=clock),
        queue,
        listed,
    )
    await database.close()


async def test_a_turn_goes_with_all_that_cites_it_and_leaves_a_tombstone(memory: Memory) -> None:
    await memory.say("t1", "one", "two")
    await memory.know("fa-1", "t-1")
    await memory.know("fa-2", "t-1", "t-2")
    await memory.know("fa-3", "t-2")
    gone = await memory.store.forget_turns("default", "t1", ["t-1"])
    assert (gone.turns, gone.entries, gone.turn_ids) == (1, 2, ("t-1",))
    assert await memory.texts() == ["two"]
    assert [known.entry_id for known in await memory.entries.list_entries("default", ANN)] == ["fa-3"]
    assert await memory.store.tombstones_of("default", "ann") == {KEY: [(1, message_key("t1-one"))]}
    assert await memory.store.tombstones_of("default", "bob") == {}


async def test_files_go_first_and_then_what_came_late(memory: Memory) -> None:
    await memory.say("t1", "one", "two")
    await memory.store.forget_turns("default", "t1", ["t-1"])
    assert await memory.steps() == ["files", SETTLE]
    assert TRANSCRIBE in [job.kind for job in await memory.listed()]


async def test_with_answers_goes_what_was_answered_until_the_user_spoke_again(memory: Memory) -> None:
    await memory.say("t1", "one")
    await memory.say("t1", "yes", "indeed", role="assistant")
    await memory.say("t1", "two")
    gone = await memory.store.forget_turns("default", "t1", ["t-1"], answers=True)
    assert gone.turn_ids == ("t-1", "t-2", "t-3")
    assert await memory.texts() == ["two"]


async def test_what_would_go_is_told_and_stays(memory: Memory) -> None:
    await memory.say("t1", "one")
    await memory.say("t1", "yes", role="assistant")
    await memory.say("t1", "two")
    assert await memory.store.turns_to_forget("default", "t1", ["t-1"]) == ("t-1",)
    assert await memory.store.turns_to_forget("default", "t1", ["t-1"], answers=True) == ("t-1", "t-2")
    with pytest.raises(NotFound):
        await memory.store.turns_to_forget("default", "t1", ["t-9"])
    assert (await memory.texts(), await memory.steps()) == (["one", "yes", "two"], [])


@pytest.mark.parametrize("place", [("none", "t-1"), ("t1", "t-9"), ("t1", "nonsense")])
async def test_what_is_not_there_is_not_found_and_nothing_changes(
    memory: Memory, place: tuple[str, str]
) -> None:
    await memory.say("t1", "one")
    with pytest.raises(NotFound):
        await memory.store.forget_turns("default", place[0], ["t-1", place[1]])
    assert await memory.texts() == ["one"]
    assert await memory.steps() == []


async def test_of_a_note_the_file_goes_first_and_then_what_came_late(memory: Memory) -> None:
    await memory.store.forget_note("default", "ann", f"{ANN}/notes/porto.md", "d1")
    first, second = [job for job in await memory.listed() if job.kind == PURGE]
    for job in (first, second):
        assert (job.payload["step"], job.payload["path"], job.payload["digest"]) == (
            NOTE, f"{ANN}/notes/porto.md", "d1",
        )  # fmt: skip
    assert (first.lane, first.payload.get("waits")) == (second.lane, None)
    assert second.payload["waits"] is True


async def test_a_user_goes_whole_and_nobody_else(memory: Memory) -> None:
    await memory.say("t1", "one", "two")
    await memory.say("t2", "three")
    await memory.say("b1", "four", user_id="bob")
    await memory.know("fa-1", "t-1")
    await memory.know("fa-2", "t-1", thread_id="b1", owner=BOB)
    gone = await memory.store.forget_user("default", "ann")
    assert (gone.turns, gone.entries, gone.threads) == (3, 1, 2)
    assert [thread.thread_id for thread in await memory.threads.list_threads()] == ["b1"]
    assert [known.entry_id for known in await memory.entries.list_entries("default")] == ["fa-2"]
    assert sorted(len(turns) for turns in (await memory.store.tombstones_of("default", "ann")).values()) == [
        1,
        2,
    ]
    assert sorted(await memory.steps()) == sorted([USER, USER, OVERWRITE])


async def test_somebody_who_was_never_there_is_no_error(memory: Memory) -> None:
    gone = await memory.store.forget_user("default", "eve")
    assert (gone.turns, gone.entries, gone.threads) == (0, 0, 0)
    assert OVERWRITE not in await memory.steps()


async def test_a_forgetting_waits_for_its_files(memory: Memory) -> None:
    await memory.say("t1", "one")
    task = Task("default", "ann", "t1", (1,))
    assert await memory.store.waits_for(task) is None
    await memory.store.forget_turns("default", "t1", ["t-1"])
    assert await memory.store.waits_for(task) == "its files are being written"


async def test_a_forgetting_waits_for_the_files_of_memories(memory: Memory) -> None:
    known = await memory.know("fa-1")
    task = Task("default", "ann", "", (), Derived({ANN: ("fa-1",)}, (known.path,)))
    assert [job.kind for job in await memory.listed()] == [ENTRIES]
    assert await memory.store.waits_for(task) == "the files of memories are being written"
    assert await memory.store.waits_for(Task("default", "ann", "", ())) is None


async def test_what_was_made_of_forgotten_words_meanwhile_goes_too_and_is_settled_in_turn(
    memory: Memory,
) -> None:
    await memory.say("t1", "one", "two")
    await memory.store.forget_turns("default", "t1", ["t-1"])
    await memory.know("fa-late", "t-1")
    await memory.know("fa-other", "t-2")
    await memory.store.forget_late(Task("default", "ann", "t1", (1,)))
    assert [known.entry_id for known in await memory.entries.list_entries("default", ANN)] == ["fa-other"]
    assert await memory.steps() == ["files", SETTLE, SETTLE]


async def test_of_an_owner_without_threads_nothing_is_known_any_longer(memory: Memory) -> None:
    await memory.know("fa-1")
    await memory.store.forget_owner("default", "ann")
    assert await memory.entries.list_entries("default", ANN) == []


async def test_many_who_forget_wait_for_one_overwriting(memory: Memory) -> None:
    for _ in range(3):
        await memory.store.queue_overwriting("default")
    assert await memory.steps() == [OVERWRITE]
    await memory.store.overwrite()


async def test_skills_that_are_to_be_made_anew_are_waited_for(memory: Memory) -> None:
    assert not await memory.store.skills_are_waiting()
    lane = "skill:default/agents/agent"
    await memory.queue(EntryJob(STRATEGY, lane, {"strategy": "skill", "owner": "default/agents/agent"}))
    assert await memory.store.skills_are_waiting()
