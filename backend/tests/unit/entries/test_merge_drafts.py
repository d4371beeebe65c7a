"""From drafts to entries: what takes whose place, and what a person's word keeps out."""

from dataclasses import replace

import pytest

from recollect.domain.entries.consolidate import MANY_SOURCES, merged
from recollect.domain.entries.entry import Deletion, KnownEntry, Source, entry_id
from recollect.domain.entries.merge_drafts import Known, Outcome, remember
from recollect.domain.model import Entry

OWNER = "default/users/ann"


def fact(place: int, text: str, *turns: str, attribute: str = "other", **extra: str) -> KnownEntry:
    """What the strategy facts makes of the memcell c-1, at that place."""
    cited = turns or ("t-1",)
    entry = Entry(
        entry_id("facts", "default", OWNER, "c-1", "facts", place),
        text,
        text,
        1_778_248_980_000 + place,
        tuple(f"threads/t1/0001#^{turn}" for turn in cited),
        "facts, rules",
        {"subject": "user", "attribute": attribute, "value": text, **extra},
    )
    sources = tuple(Source("ann", "t1", turn) for turn in cited)
    return KnownEntry("default", OWNER, "facts", entry, sources, "c-1", "facts")


def stored(entry: KnownEntry, **extra: str) -> KnownEntry:
    told = replace(entry.entry, extra={**entry.entry.extra, **extra})
    return replace(entry, entry=told, path=f"{OWNER}/facts/2026-05-08.md", revision=3)


def deletion_of(entry: KnownEntry) -> Deletion:
    return Deletion(entry.entry_id, entry.kind, entry.cell, tuple(source.turn_id for source in entry.sources))


def run(new: list[KnownEntry], before: list[KnownEntry], *deletions: Deletion) -> Outcome:
    return remember(new, Known(before, {}, deletions))


NURSE = fact(0, "Ann works as a nurse.", attribute="works_as")
REX = fact(1, "Ann has a dog called Rex.", attribute="has_pet")
BERLIN = fact(2, "Ann lives in Berlin.", attribute="lives_in")


def test_what_a_cell_no_longer_says_goes() -> None:
    outcome = run([NURSE], [stored(NURSE), stored(REX)])
    assert (outcome.wrote, outcome.remove) == ([NURSE.entry_id], [REX.entry_id])


def test_what_was_deleted_stays_away_and_takes_nothing_of_its_turn_along() -> None:
    outcome = run([NURSE, REX, BERLIN], [stored(NURSE), stored(BERLIN)], deletion_of(REX))
    assert (outcome.remove, outcome.kept_from) == ([], 1)
    assert sorted(outcome.put) == sorted([NURSE.entry_id, BERLIN.entry_id])


def test_a_deleted_statement_that_comes_at_another_place_stays_away() -> None:
    moved = fact(0, "Ann has a dog called Rex.", attribute="has_pet")
    nurse = fact(1, "Ann works as a nurse.", attribute="works_as")
    outcome = run([moved, nurse], [stored(NURSE)], deletion_of(REX))
    assert (outcome.put, outcome.remove, outcome.kept_from) == ({}, [], 1)


def test_what_another_turn_says_does_not_lie_in_the_grave_that_has_its_place() -> None:
    other = fact(1, "Ann plays chess.", "t-5", attribute="plays")
    outcome = run([NURSE, other], [stored(NURSE)], deletion_of(REX))
    (put,) = [entry for entry in outcome.put.values() if entry.entry.text == "Ann plays chess."]
    assert put.entry_id != REX.entry_id
    again = run([NURSE, other], [stored(NURSE), stored(put)], deletion_of(REX))
    assert put.entry_id in again.put
    assert again.remove == []


def test_what_a_person_wrote_is_neither_changed_nor_contradicted_by_its_own_turns() -> None:
    edited = stored(fact(2, "Ann lives in Potsdam.", attribute="lives_in"), edited="yes")
    elsewhere = fact(0, "Ann lives in Berlin.", attribute="lives_in")
    outcome = run([elsewhere, REX], [edited, stored(REX)])
    assert (sorted(outcome.put), outcome.remove, outcome.kept_from) == ([REX.entry_id], [], 1)


def test_a_place_that_is_a_persons_is_left_to_them() -> None:
    edited = stored(fact(0, "Ann lives in Potsdam.", attribute="lives_in"), edited="yes")
    outcome = run([NURSE], [edited])
    (put,) = outcome.put.values()
    assert put.entry_id != edited.entry_id
    assert (put.entry.text, outcome.remove) == ("Ann works as a nurse.", [])


def test_a_pin_survives_a_second_run() -> None:
    outcome = run([NURSE], [stored(NURSE, pinned="yes")])
    assert outcome.put[NURSE.entry_id].is_pinned


def lives_in(place: str, day: int) -> KnownEntry:
    """Made of a memcell of that day."""
    made = fact(0, f"Ann lives in {place}.", f"t-{day}", attribute="lives_in")
    told = replace(made.entry, entry_id=f"fa-{day}", when=day, extra={**made.entry.extra, "value": place})
    return replace(made, entry=told, cell=f"c-{day}")


@pytest.mark.parametrize(
    ("day", "told_by"),
    [(1, "fa-1"), (4, "fa-3"), (6, "fa-5"), (2, "fa-3")],
    ids=["before another place", "after it", "after it, again elsewhere", "just before it"],
)
def test_what_is_told_late_is_known_where_nothing_else_held_in_between(day: int, told_by: str) -> None:
    oslo, rome, again = lives_in("Oslo", 3), lives_in("Rome", 5), lives_in("Oslo", 7)
    new = lives_in("Rome" if day in (1, 6) else "Oslo", day)
    outcome = remember([new], Known([], {new.entry_id: [oslo, rome, again]}))
    assert [*outcome.merged, *outcome.wrote] == [told_by]


def test_what_has_many_sources_gets_no_more() -> None:
    known = fact(0, "Ann lives in Berlin.", *(f"t-{number}" for number in range(MANY_SOURCES)))
    assert merged(known, fact(1, "Ann lives in Berlin.", "t-99")) == known
