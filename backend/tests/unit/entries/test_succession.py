"""What a new entry names gives way to it, by when each was said; a person's word counts from when they wrote it."""

from dataclasses import replace

import pytest

from recollect.domain.entries.edit import EntryEdit, edited
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import holding_again
from recollect.domain.entries.succession import State, claim, overrule, release
from recollect.domain.markdown.front_matter import write_time
from tests.unit.made_entries import DAY, known


def home(place: str, day: int, **extra: str) -> KnownEntry:
    about = {"subject": "user", "category": "home", **extra}
    return known(f"fa-{place.lower()}", f"Ann lives in {place}.", when=day * DAY, extra=about)


def corrected(place: str, day: int, on: int) -> KnownEntry:
    return home(place, day, edited="yes", corrected=write_time(on * DAY))


def state_of(*facts: KnownEntry) -> State:
    return {each.entry_id: each for each in facts}


def replaced(state: State, new: str, *names: str, day: int) -> tuple[str, ...]:
    return claim(state, new, names, (), day * DAY)


def marks(state: State) -> dict[str, tuple[int | None, str]]:
    """Of each that no longer holds: until which day it did, and what holds instead."""
    return {
        name.removeprefix("fa-"): (
            None if each.ends is None else each.ends // DAY,
            each.entry.extra["superseded_by"].removeprefix("fa-"),
        )
        for name, each in state.items()
        if not each.holds
    }


@pytest.mark.parametrize("to", [1, 25, 60], ids=["older than both", "between", "in the future"])
def test_a_fact_that_a_person_dated_otherwise_counts_from_when_it_was_said(to: int) -> None:
    porto = edited(home("Porto", 30), EntryEdit(when=to * DAY), now=50 * DAY)
    state = state_of(porto, home("Paris", 20), home("Berlin", 40))
    replaced(state, "fa-paris", "fa-porto", day=20)
    assert marks(state) == {"paris": (25 if to == 25 else 30, "porto")}, "an old import overrules nothing"
    replaced(state, "fa-berlin", "fa-porto", day=40)
    assert marks(state) | {"paris": ()} == {"paris": (), "porto": (40, "berlin")}


def test_what_was_repeated_since_is_not_overruled_and_holds_from_then() -> None:
    state = state_of(replace(home("Porto", 1), repeated=30 * DAY), home("Paris", 20), home("Berlin", 40))
    assert replaced(state, "fa-paris", "fa-porto", day=20) == ("fa-porto",)
    assert marks(state) == {"paris": (30, "porto")}
    replaced(state, "fa-berlin", "fa-porto", day=40)
    assert marks(state) | {"paris": ()} == {"paris": (), "porto": (40, "berlin")}


def test_who_names_what_was_replaced_before_replaces_what_holds_instead_of_it() -> None:
    state = state_of(home("Porto", 1), home("Berlin", 5), home("Rome", 9))
    replaced(state, "fa-berlin", "fa-porto", day=5)
    assert replaced(state, "fa-rome", "fa-porto", day=9) == ("fa-berlin",)
    assert marks(state) == {"porto": (5, "berlin"), "berlin": (9, "rome")}


def test_who_ends_what_ended_before_ends_nothing_else() -> None:
    state = state_of(home("Porto", 1), home("Berlin", 5), home("Rome", 9))
    replaced(state, "fa-berlin", "fa-porto", day=5)
    assert claim(state, "fa-rome", (), ["fa-porto"], 9 * DAY) == ()
    assert marks(state) == {"porto": (5, "berlin")}


def test_what_was_said_earlier_overrules_nothing_and_gives_way_to_what_it_names() -> None:
    state = state_of(home("Rome", 9), home("Porto", 1))
    assert replaced(state, "fa-porto", "fa-rome", day=1) == ("fa-rome",)
    assert marks(state) == {"porto": (9, "rome")}
    assert state["fa-rome"].entry.extra["supersedes"] == "fa-porto"


def test_what_was_said_in_between_takes_its_place_in_the_chain() -> None:
    state = state_of(home("Porto", 1), home("Rome", 9), home("Berlin", 5))
    replaced(state, "fa-rome", "fa-porto", day=9)
    replaced(state, "fa-berlin", "fa-porto", day=5)
    assert marks(state) == {"porto": (5, "berlin"), "berlin": (9, "rome")}
    assert state["fa-rome"].entry.extra["supersedes"] == "fa-berlin"


def test_naming_the_same_again_changes_nothing() -> None:
    state = state_of(home("Porto", 1), home("Berlin", 5), home("Rome", 9))
    replaced(state, "fa-berlin", "fa-porto", day=5)
    replaced(state, "fa-rome", "fa-porto", day=9)
    once = dict(state)
    assert replaced(state, "fa-berlin", "fa-porto", day=5) == ("fa-porto",)
    assert replaced(state, "fa-rome", "fa-porto", day=9) == ("fa-berlin",)
    assert state == once


def test_two_of_one_moment_that_name_each_other_make_no_circle() -> None:
    state = state_of(home("Porto", 1), home("Berlin", 1))
    replaced(state, "fa-berlin", "fa-porto", day=1)
    replaced(state, "fa-porto", "fa-berlin", day=1)
    assert marks(state) == {"porto": (1, "berlin")}


def test_an_id_that_nobody_has_is_passed_over() -> None:
    state = state_of(home("Berlin", 5))
    assert replaced(state, "fa-berlin", "fa-nowhere", "fa-berlin", day=5) == ()
    assert state == state_of(home("Berlin", 5))


class TestWhatIsNoLongerNamed:
    def test_holds_again(self) -> None:
        state = state_of(home("Porto", 1), home("Berlin", 5))
        replaced(state, "fa-berlin", "fa-porto", day=5)
        release(state, "fa-berlin", ["fa-porto"])
        assert state == state_of(home("Porto", 1), home("Berlin", 5))

    def test_gives_way_to_what_superseded_the_one_that_named_it(self) -> None:
        state = state_of(home("Porto", 1), home("Berlin", 5), home("Rome", 9))
        replaced(state, "fa-berlin", "fa-porto", day=5)
        replaced(state, "fa-rome", "fa-berlin", day=9)
        release(state, "fa-berlin", ["fa-porto"])
        assert marks(state) == {"porto": (9, "rome"), "berlin": (9, "rome")}

    def test_lets_the_one_that_was_said_earlier_hold_beside_it(self) -> None:
        state = state_of(home("Rome", 9), home("Porto", 1))
        replaced(state, "fa-porto", "fa-rome", day=1)
        release(state, "fa-porto", ["fa-rome"])
        assert state == state_of(home("Rome", 9), home("Porto", 1))


class TestAPersonsWord:
    def test_about_what_was_superseded_wins_over_what_holds_instead_of_it(self) -> None:
        state = state_of(home("Porto", 1), home("Berlin", 5), home("Rome", 9))
        replaced(state, "fa-berlin", "fa-porto", day=5)
        replaced(state, "fa-rome", "fa-berlin", day=9)
        before, after = state["fa-porto"], corrected("Porto", 1, on=12)
        assert holding_again(after.entry) == after.entry
        state["fa-porto"] = after
        overrule(state, before, after)
        assert marks(state) == {"berlin": (9, "rome"), "rome": (12, "porto")}
