"""What the bookkeeping of transcripts promises."""

from dataclasses import replace
from typing import Any

import pytest

from recollect.domain.identity import key_within_user, message_key, thread_key
from recollect.domain.job import TRANSCRIPT_EDITS, vault_lane
from recollect.domain.model import Append, NewTurn, ThreadRef
from recollect.domain.vault_file import StoredPart
from tests.contract.journals import Journal, announce_part, cell_of, record_part, said
from tests.fakes import START

PLANNED = StoredPart(part=1, first_position=1, last_position=2, header_revision=1)
WRITTEN = replace(PLANNED, digest="new")
T1 = ThreadRef("default", "me", "t1")


async def stale(journal: Journal) -> list[int]:
    state = await journal.transcripts.state(ThreadRef("default", "me", "t1"))
    assert state is not None
    return [part.part for part in state.stale_parts]


async def write_part(journal: Journal, part: StoredPart = PLANNED) -> None:
    await announce_part(journal.transcripts, T1, part, "new")
    cells = await journal.transcripts.cells(T1, part.first_position, part.last_position)
    await record_part(journal.transcripts, T1, part, "new", cells)


async def test_a_turn_that_is_not_final_and_what_follows_it_wait(journal: Journal) -> None:
    turns = [said("a"), NewTurn("assistant", "b", START, "bot", status="streaming"), said("c")]
    await journal.threads.append(Append("default", "t1", turns))
    placed = await journal.transcripts.turns(ThreadRef("default", "me", "t1"), 1)
    assert [turn.turn.content for turn in placed] == ["a"]


async def test_a_cell_belongs_to_the_places_that_hold_its_last_turn(journal: Journal) -> None:
    await journal.add("t1", *"abcd")
    a, b, c, d = await journal.history("t1")
    cells = [cell_of(a, b, c), cell_of(d)]
    await journal.cells.close(ThreadRef("default", "me", "t1"), cells, "rules")
    assert await journal.transcripts.cells(ThreadRef("default", "me", "t1"), 1, 2) == []
    assert await journal.transcripts.cells(ThreadRef("default", "me", "t1"), 3, 3) == cells[:1]
    assert await journal.transcripts.cells(ThreadRef("default", "me", "t1"), 1, 4) == cells


async def test_a_part_is_announced_recorded_and_announced_again(journal: Journal) -> None:
    await journal.add("t1", "a", "b", "c")
    await announce_part(journal.transcripts, T1, PLANNED, "new")
    assert await journal.transcripts.parts(T1) == [replace(PLANNED, announced="new")]
    assert await stale(journal) == [1]
    await record_part(journal.transcripts, T1, PLANNED, "new")
    assert await journal.transcripts.parts(ThreadRef("default", "me", "t1")) == [WRITTEN]
    assert await stale(journal) == []
    await announce_part(journal.transcripts, T1, replace(WRITTEN, last_position=3), "newer")
    assert await journal.transcripts.parts(ThreadRef("default", "me", "t1")) == [
        replace(WRITTEN, announced="newer")
    ]


async def test_a_memcell_that_is_not_written_makes_the_part_of_its_last_turn_stale(journal: Journal) -> None:
    await journal.add("t1", *"abcd")
    await write_part(journal)
    await write_part(journal, replace(PLANNED, part=2, first_position=3, last_position=4))
    a, b, c, _ = await journal.history("t1")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(a, b, c)], "rules")
    assert await stale(journal) == [2]
    await write_part(journal, replace(PLANNED, part=2, first_position=3, last_position=4))
    assert await stale(journal) == []


async def test_new_tags_that_come_with_messages_make_part_one_stale(journal: Journal) -> None:
    await journal.threads.append(Append("default", "t1", [said("a")], tags=("trip",)))
    await write_part(journal, replace(PLANNED, last_position=1))
    await journal.threads.append(Append("default", "t1", [said("b")], tags=("trip",)))
    assert await stale(journal) == []
    await journal.threads.append(Append("default", "t1", [said("c")], tags=("family",)))
    assert await stale(journal) == [1]


@pytest.mark.parametrize("late", [False, True], ids=["recorded before", "recorded late"])
async def test_a_thread_that_is_deleted_takes_its_parts_along(journal: Journal, late: bool) -> None:
    await journal.add("t1", "a", "b")
    await announce_part(journal.transcripts, T1, PLANNED, "new")
    if not late:
        await record_part(journal.transcripts, T1, PLANNED, "new")
    await journal.delete("t1")
    if late:
        await record_part(journal.transcripts, T1, PLANNED, "new")
    assert await journal.transcripts.parts(ThreadRef("default", "me", "t1")) == []


async def test_a_thread_that_is_gone_takes_no_records(journal: Journal) -> None:
    await announce_part(journal.transcripts, T1, PLANNED, "new")
    await record_part(journal.transcripts, T1, PLANNED, "new")
    await journal.transcripts.forget_part(ThreadRef("default", "me", "t1"), 1)
    assert await journal.transcripts.parts(ThreadRef("default", "me", "t1")) == []
    assert await journal.threads.list_threads() == []


async def test_tombstones_name_numbers_and_keys_and_no_words_and_are_one_owners(journal: Journal) -> None:
    for user_id, message_ids in (("ann", ["m1"]), ("bob", ["m2", "m3"])):
        turns = [said("secret", message_id) for message_id in message_ids]
        await journal.threads.append(Append("default", "t1", turns, user_id))
        await journal.delete("t1")
    found = await journal.transcripts.tombstones("default", "bob", key_within_user("default", "t1"))
    assert found == [(1, message_key("m2")), (2, message_key("m3"))]


# What people change


async def test_every_finished_part_is_known_with_all_that_may_stand_there(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await journal.add("t2", "a", "b", space="work", user_id="bob")
    await write_part(journal)
    await announce_part(journal.transcripts, T1, replace(WRITTEN, announced="newer"), "newest")
    await announce_part(journal.transcripts, ThreadRef("work", "me", "t2"), PLANNED, "new")
    path = "default/users/me/threads/t1/0001.md"
    assert await journal.transcripts.held() == {path: "new"}
    file = await journal.transcripts.file(path)
    assert file is not None
    assert file.digests == {"new", "newer", "newest"}


async def test_a_revision_changes_words_and_nothing_else(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    first, second = await journal.history("t1")
    edited = replace(first, content="A", sender_id="eve", reasoning="why", edited=True)
    await journal.add("t2", "a")
    assert await journal.transcripts.revise(ThreadRef("default", "me", "t1"), [edited], {}) == 1
    assert await journal.history("t1") == [edited, second]
    counted = await journal.database.read("SELECT revision FROM threads ORDER BY thread_id")
    assert [row["revision"] for row in counted] == [1, 0]


async def test_after_a_revision_nothing_is_missing_and_nothing_contradicts(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    first, _ = await journal.history("t1")
    await journal.cells.close(ThreadRef("default", "me", "t1"), [cell_of(first)], "rules")
    before = await journal.coverage.coverage(space="default")
    await journal.transcripts.revise(
        ThreadRef("default", "me", "t1"), [replace(first, content="A", edited=True)], {}
    )
    after = await journal.coverage.coverage(space="default")
    assert (after.celled, after.buffered, after.missing, after.doubled) == (1, 1, 0, 0)
    assert after.digest != before.digest
    assert await journal.coverage.inconsistencies() == []


async def test_a_revision_of_another_message_or_of_a_thread_that_is_gone_changes_nothing(
    journal: Journal,
) -> None:
    await journal.add("t1", "a")
    (turn,) = await journal.history("t1")
    other = replace(turn, message_id="other", content="A")
    assert await journal.transcripts.revise(ThreadRef("default", "me", "t1"), [other], {}) == 0
    assert await journal.transcripts.revise(ThreadRef("default", "me", "gone"), [turn], {"title": "x"}) == 0
    assert await journal.texts("t1") == ["a"]


@pytest.mark.parametrize(
    ("header", "title", "tags"),
    [({"title": "Porto"}, "Porto", ("family",)), ({"tags": ("trip",)}, "Marta", ("trip",)), ({"title": None}, None, ("family",))],
)  # fmt: skip
async def test_a_revised_header_makes_part_one_stale(
    journal: Journal, header: dict[str, Any], title: str | None, tags: tuple[str, ...]
) -> None:
    await journal.add("t1", "a", "b")
    await journal.update("t1", {"title": "Marta", "tags": ["family"]})
    state = await journal.transcripts.state(ThreadRef("default", "me", "t1"))
    assert state is not None
    await write_part(journal, replace(PLANNED, header_revision=state.header_revision))
    assert await stale(journal) == []
    await journal.transcripts.revise(ThreadRef("default", "me", "t1"), [], header)
    thread = await journal.threads.get_thread("t1")
    assert thread is not None
    assert (thread.title, thread.tags) == (title, tags)
    assert await stale(journal) == [1]


async def test_a_file_is_looked_at_once_however_often_it_is_asked_for(journal: Journal) -> None:
    await journal.add("t1", "a", "b", "c")
    await write_part(journal)
    await write_part(journal, replace(PLANNED, part=2, first_position=3, last_position=3))
    for part, gone in ((1, False), (1, False), (2, False), (1, True)):
        path = f"default/users/me/threads/t1/{part:04}.md"
        about = {"gone": "yes"} if gone else {}
        await journal.transcripts.queue(path, delay_ms=0, **about)
    found = [job for job in await journal.waiting() if job.kind == TRANSCRIPT_EDITS]
    assert [(job.payload["part"], job.payload["gone"]) for job in found] == [
        (1, False),
        (2, False),
        (1, True),
    ]
    assert {job.lane for job in found} == {vault_lane(thread_key(ThreadRef("default", "me", "t1")))}
