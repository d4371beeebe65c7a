"""What the bookkeeping of transcripts promises, of the fake and of SQLite."""

from dataclasses import replace

from recollect.memory.identity import message_key, thread_key
from recollect.memory.model import Append, NewTurn
from recollect.memory.transcript_state import StoredPart
from tests.contract.journals import Journal, cell_of, said
from tests.fakes import START

PLANNED = StoredPart(part=1, first_position=1, last_position=2, header_revision=1, writing="new")
WRITTEN = replace(PLANNED, digest="new", writing=None)


async def stale(journal: Journal) -> list[int]:
    state = await journal.transcripts.state("default", "t1")
    assert state is not None
    return [part.part for part in state.stale_parts]


async def write_part(journal: Journal, part: StoredPart = PLANNED) -> None:
    await journal.transcripts.announce("default", "t1", part)
    done = replace(part, digest=part.writing, writing=None)
    cells = await journal.transcripts.cells("default", "t1", part.first_position, part.last_position)
    await journal.transcripts.record("default", "t1", done, cells)


async def test_a_thread_that_is_not_there_has_no_state(journal: Journal) -> None:
    assert await journal.transcripts.state("default", "t1") is None


async def test_a_new_thread_has_no_part_yet(journal: Journal) -> None:
    await journal.add("t1", "a")
    state = await journal.transcripts.state("default", "t1")
    assert state is not None
    assert (state.thread.thread_id, state.last_part, state.stale_parts) == ("t1", None, ())


async def test_turns_come_with_their_places_both_ends_included(journal: Journal) -> None:
    await journal.add("t1", *"abcde")
    placed = await journal.transcripts.turns("default", "t1", 2, 4)
    assert [(turn.position, turn.turn.content) for turn in placed] == [(2, "b"), (3, "c"), (4, "d")]


async def test_turns_without_a_last_place_go_on_to_the_end(journal: Journal) -> None:
    await journal.add("t1", *"abcde")
    placed = await journal.transcripts.turns("default", "t1", 4)
    assert [turn.turn.content for turn in placed] == ["d", "e"]


async def test_turns_stop_at_the_limit(journal: Journal) -> None:
    await journal.add("t1", *"abcde")
    placed = await journal.transcripts.turns("default", "t1", 2, limit=2)
    assert [turn.turn.content for turn in placed] == ["b", "c"]


async def test_a_turn_that_is_not_final_is_not_handed_out(journal: Journal) -> None:
    turns = [said("a"), NewTurn("assistant", "b", START, "bot", status="streaming"), said("c")]
    await journal.threads.append(Append("default", "t1", turns))
    placed = await journal.transcripts.turns("default", "t1", 1)
    assert [turn.turn.content for turn in placed] == ["a", "c"]


async def test_a_cell_belongs_to_the_places_that_hold_its_last_turn(journal: Journal) -> None:
    await journal.add("t1", *"abcd")
    a, b, c, d = await journal.threads.get_history("t1")
    cells = [cell_of(a, b, c), cell_of(d)]
    await journal.cells.close("default", "t1", cells, "rules")
    assert await journal.transcripts.cells("default", "t1", 1, 2) == []
    assert await journal.transcripts.cells("default", "t1", 3, 3) == cells[:1]
    assert await journal.transcripts.cells("default", "t1", 1, 4) == cells


async def test_an_announced_part_is_ours_and_not_finished(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await journal.transcripts.announce("default", "t1", PLANNED)
    assert await journal.transcripts.parts("default", "t1") == [PLANNED]
    assert await stale(journal) == [1]


async def test_a_recorded_part_is_finished(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await write_part(journal)
    assert await journal.transcripts.parts("default", "t1") == [WRITTEN]
    assert await stale(journal) == []


async def test_announcing_again_keeps_what_was_written_last(journal: Journal) -> None:
    await journal.add("t1", "a", "b", "c")
    await write_part(journal)
    await journal.transcripts.announce("default", "t1", replace(PLANNED, last_position=3, writing="newer"))
    assert await journal.transcripts.parts("default", "t1") == [replace(WRITTEN, writing="newer")]


async def test_the_last_part_is_the_one_with_the_highest_number(journal: Journal) -> None:
    await journal.add("t1", *"abcd")
    await write_part(journal)
    second = replace(PLANNED, part=2, first_position=3, last_position=4)
    await write_part(journal, second)
    state = await journal.transcripts.state("default", "t1")
    assert state is not None
    assert state.last_part is not None
    assert state.last_part.part == 2


async def test_a_memcell_that_is_not_written_makes_the_part_of_its_last_turn_stale(journal: Journal) -> None:
    await journal.add("t1", *"abcd")
    await write_part(journal)
    await write_part(journal, replace(PLANNED, part=2, first_position=3, last_position=4))
    a, b, c, _ = await journal.threads.get_history("t1")
    await journal.cells.close("default", "t1", [cell_of(a, b, c)], "rules")
    assert await stale(journal) == [2]


async def test_a_recorded_memcell_is_written(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await journal.cells.close("default", "t1", [cell_of(*await journal.threads.get_history("t1"))], "rules")
    await write_part(journal)
    assert await stale(journal) == []


async def test_a_change_of_the_header_makes_part_one_stale_and_no_other(journal: Journal) -> None:
    await journal.add("t1", *"abcd")
    await write_part(journal)
    await write_part(journal, replace(PLANNED, part=2, first_position=3, last_position=4))
    await journal.threads.update_thread("t1", {"title": "Porto"})
    assert await stale(journal) == [1]


async def test_tags_that_come_with_messages_make_part_one_stale(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await write_part(journal)
    await journal.threads.append(Append("default", "t1", [said("c")], tags=("trip",)))
    assert await stale(journal) == [1]


async def test_tags_that_are_there_already_make_nothing_stale(journal: Journal) -> None:
    await journal.threads.append(Append("default", "t1", [said("a")], tags=("trip",)))
    await write_part(journal, replace(PLANNED, last_position=1))
    await journal.threads.append(Append("default", "t1", [said("b")], tags=("trip",)))
    assert await stale(journal) == []


async def test_a_forgotten_part_is_ours_no_longer(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await write_part(journal)
    await journal.transcripts.forget_part("default", "t1", 1)
    (part,) = await journal.transcripts.parts("default", "t1")
    assert (part.digest, part.writing) == (None, None)
    assert await stale(journal) == [1]


async def test_clearing_a_thread_takes_its_parts_along(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await write_part(journal)
    await journal.threads.clear_thread("t1")
    assert await journal.transcripts.parts("default", "t1") == []


async def test_a_part_of_a_cleared_thread_that_is_recorded_late_stays_away(journal: Journal) -> None:
    await journal.add("t1", "a", "b")
    await journal.transcripts.announce("default", "t1", PLANNED)
    await journal.threads.clear_thread("t1")
    await journal.transcripts.record("default", "t1", WRITTEN, [])
    assert await journal.transcripts.parts("default", "t1") == []


async def test_a_thread_that_is_gone_takes_no_records(journal: Journal) -> None:
    await journal.transcripts.announce("default", "t1", PLANNED)
    await journal.transcripts.record("default", "t1", WRITTEN, [])
    await journal.transcripts.forget_part("default", "t1", 1)
    assert await journal.transcripts.parts("default", "t1") == []
    assert await journal.threads.list_threads() == []


async def test_tombstones_name_numbers_and_keys_and_no_words(journal: Journal) -> None:
    turns = [said("secret", "m1"), said("secret", "m2")]
    await journal.threads.append(Append("default", "t1", turns))
    await journal.threads.delete_thread("t1")
    buried = await journal.transcripts.tombstones("default", "me", thread_key("default", "t1"))
    assert buried == [(1, message_key("m1")), (2, message_key("m2"))]


async def test_tombstones_of_one_owner_of_a_thread_are_not_anothers(journal: Journal) -> None:
    for user_id, message_id in (("ann", "m1"), ("bob", "m2")):
        await journal.threads.append(Append("default", "t1", [said("x", message_id)], user_id))
        await journal.threads.delete_thread("t1")
    buried = await journal.transcripts.tombstones("default", "bob", thread_key("default", "t1"))
    assert buried == [(1, message_key("m2"))]


async def test_the_log_can_be_folded_at_any_time(journal: Journal) -> None:
    await journal.add("t1", "a")
    await journal.transcripts.fold_log()
    assert await journal.texts("t1") == ["a"]
