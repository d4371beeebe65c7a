"""Of facts about one attribute one holds; where a person wrote any, theirs."""

from itertools import permutations

import pytest

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.profile import profile_of
from recollect.domain.entries.succession import in_succession, settled
from recollect.domain.markdown.front_matter import write_time
from tests.unit.made_entries import ANN, DAY, known


def lives_in(place: str, day: int, **extra: str) -> KnownEntry:
    about = {"subject": "user", "attribute": "lives_in", "value": place, **extra}
    return known(f"fa-{place.lower()}", f"Ann lives in {place}.", when=day * DAY, extra=about)


def written(place: str, day: int, **extra: str) -> KnownEntry:
    return lives_in(place, day, edited="yes", **extra)


def marks(fact: KnownEntry) -> tuple[str | None, str | None]:
    """Until when it held, and what holds instead."""
    return fact.entry.extra.get("until"), fact.entry.extra.get("superseded_by")


def on(day: int) -> str:
    return write_time(day * DAY)


def test_the_newest_holds_and_each_names_the_one_after_it() -> None:
    berlin, lisbon, porto = in_succession(
        [lives_in("Porto", 9), lives_in("Berlin", 1), lives_in("Lisbon", 5)]
    )
    assert [marks(each) for each in (berlin, lisbon, porto)] == [
        (on(5), "fa-lisbon"),
        (on(9), "fa-porto"),
        (None, None),
    ]
    assert (lisbon.entry.extra["supersedes"], porto.entry.extra["supersedes"]) == ("fa-berlin", "fa-lisbon")


def test_what_is_alone_holds_again() -> None:
    berlin, _ = in_succession([lives_in("Berlin", 1), lives_in("Lisbon", 5)])
    assert in_succession([berlin]) == [lives_in("Berlin", 1)]


class TestWhatAPersonWrote:
    def test_it_holds_against_what_is_extracted_later_and_stays_as_it_is(self) -> None:
        potsdam, lisbon = in_succession([written("Potsdam", 3), lives_in("Lisbon", 5)])
        assert potsdam == written("Potsdam", 3)
        assert marks(lisbon) == (on(3), "fa-potsdam")

    def test_what_was_extracted_before_held_until_then(self) -> None:
        found = in_succession(
            [lives_in("Berlin", 1), lives_in("Lisbon", 2), written("Potsdam", 3), lives_in("Porto", 4)]
        )
        assert [marks(each) for each in found] == [
            (on(2), "fa-lisbon"),
            (on(3), "fa-potsdam"),
            (None, None),
            (on(3), "fa-potsdam"),
        ]

    def test_of_several_the_newest_holds_and_what_was_extracted_in_between_never_did(self) -> None:
        found = in_succession(
            [lives_in("Berlin", 1), written("Potsdam", 2), lives_in("Lisbon", 3), written("Porto", 4)]
        )
        assert [marks(each) for each in found] == [
            (on(2), "fa-porto"),
            (None, None),
            (on(2), "fa-porto"),
            (None, None),
        ]
        assert found[1::2] == [written("Potsdam", 2), written("Porto", 4)]

    def test_what_they_say_has_ended_makes_way(self) -> None:
        ended = written("Potsdam", 3, until=on(5), superseded_by="fa-lisbon")
        potsdam, lisbon = in_succession([ended, lives_in("Lisbon", 5)])
        assert (potsdam, lisbon.holds) == (ended, True)

    def test_any_order_and_any_number_of_times_give_the_same(self) -> None:
        facts = [lives_in("Berlin", 1), written("Potsdam", 2), lives_in("Lisbon", 3), lives_in("Porto", 3)]
        once = in_succession(facts)
        assert in_succession(once) == once
        assert all(in_succession(order) == once for order in permutations(facts))

    @pytest.mark.parametrize("place", ["Potsdam", "Berlin"])
    def test_without_it_what_was_extracted_follows_as_ever(self, place: str) -> None:
        extracted = [lives_in("Berlin", 1), lives_in("Lisbon", 5)]
        stored = in_succession([*extracted, written("Potsdam", 3)])
        gone = next(each for each in stored if each.is_edited)
        back = settled(stored, {}, {gone.entry_id}, lives_in(place, 1))
        assert back == in_succession(extracted)

    def test_the_profile_shows_one_answer(self) -> None:
        facts = in_succession([written("Potsdam", 2), written("Porto", 4), lives_in("Lisbon", 5)])
        assert [line.entry.text for line in profile_of("default", ANN, facts)] == ["Ann lives in Porto."]


def test_where_no_person_wrote_anything_nothing_is_settled_again() -> None:
    stored = [lives_in("Berlin", 1), lives_in("Lisbon", 5)]
    assert settled(stored, {}, {"fa-lisbon"}, stored[0]) == []


def test_where_several_would_hold_the_newest_does() -> None:
    stored = in_succession([lives_in("Berlin", 1), lives_in("Lisbon", 5)])
    assert settled(stored, {"fa-berlin": lives_in("Berlin", 1)}, (), stored[0]) == stored[:1]
