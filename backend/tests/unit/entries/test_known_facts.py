"""What is shown to the model of what is known: what holds, the nearest first, as much as fits."""

from dataclasses import replace
from typing import Any

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.extraction.prompts import is_ahead, known_without, listed, nearest
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry
from tests.unit.made_cells import NOON, said

ANN = "default/users/ann"
TALK = said("We moved: I live in Berlin now, near the Spree.")


def fact(name: str, text: str, *, when: int = NOON, cell: str = "c-0", **extra: str) -> KnownEntry:
    entry = Entry(name, text, text, when, (), "facts, a model", dict(extra))
    return KnownEntry("default", ANN, "facts", entry, (), cell, "facts")


def ids(facts: list[KnownEntry]) -> list[str]:
    return [each.entry_id for each in facts]


def test_facts_that_share_rare_words_with_the_cell_come_first() -> None:
    facts = [fact(f"fa-{n}", f"Ann likes song {n}.") for n in range(40)]
    facts += [fact("fa-home", "Ann lives in Porto."), fact("fa-spree", "Ann swims in the Spree.")]
    assert ids(nearest(TALK, facts, ()))[:2] == ["fa-spree", "fa-home"]


def test_what_is_on_the_page_is_listed_though_it_shares_no_word() -> None:
    facts = [fact("fa-1", "Ann has a dog."), fact("fa-2", "Ann sings.")]
    assert ids(nearest(said("再见"), facts, {"fa-2"})) == ["fa-2"]


def test_those_alike_in_meaning_come_in_turns_with_those_that_share_words() -> None:
    facts = [fact("fa-berlin", "Berlin."), fact("fa-spree", "The Spree."), fact("fa-1", "Ann eats fish.")]
    assert ids(nearest(TALK, facts, (), ["fa-1", "fa-gone"])) == ["fa-spree", "fa-1", "fa-berlin"]


def test_of_the_page_every_category_has_its_turn() -> None:
    facts = [fact(f"fa-{n:02d}", "Ann sings.", category="likes") for n in range(40)]
    facts += [fact("fa-home", "Ann has a flat.", category="home")]
    assert "fa-home" in ids(nearest(said("再见"), facts, {each.entry_id for each in facts}))


def test_as_many_are_listed_as_the_prompt_has_room_for() -> None:
    facts = [fact(f"fa-{n:03d}", f"Berlin {n}.") for n in range(300)]
    assert len(nearest(TALK, facts, {each.entry_id for each in facts})) == 30
    assert len(nearest(TALK, facts, ())) == 20
    long = [fact(f"fa-{n:03d}", f"Berlin {n} {'x' * 390}") for n in range(30)]
    assert len(nearest(TALK, long, ())) == 7


def test_the_same_facts_are_listed_in_the_same_order_however_they_are_read() -> None:
    facts = [fact(f"fa-{n}", "Ann knows Berlin.") for n in range(5)]
    assert nearest(TALK, facts, ()) == nearest(TALK, facts[::-1], ())


def test_a_cell_is_shown_what_holds_whenever_it_was_said_and_nothing_of_its_own() -> None:
    facts = [
        fact("fa-own", "Ann lives in Berlin.", cell="c-1"),
        fact("fa-held", "Ann lives in Porto.", superseded_by="fa-own", until="2026-05-08T12:00:00Z"),
        fact("fa-old", "Ann lives in Rome.", superseded_by="fa-held", until="2025-05-08T12:00:00Z"),
        fact("fa-later", "Ann lives in Bonn.", when=NOON + 86_400_000),
        fact("fa-dog", "Ann has a dog."),
    ]
    assert ids(known_without("c-1", facts)) == ["fa-held", "fa-later", "fa-dog"]


def plan(name: str, text: str, **extra: Any) -> KnownEntry:
    return replace(fact(name, text, **extra), kind="foresight", strategy="foresight")


def test_a_fact_about_somebody_else_names_them_where_its_text_does_not() -> None:
    assert listed(fact("fa-1", "Anna is a vet.", subject="Anna (school friend)")) == (
        "Anna (school friend): Anna is a vet."
    )
    assert listed(fact("fa-1", "Ann's sister Marta is a nurse.", subject="Marta, Ann's sister")) == (
        "Ann's sister Marta is a nurse."
    )
    assert listed(fact("fa-1", "安娜是兽医。", subject="安娜（同事）")) == "安娜（同事）: 安娜是兽医。"  # noqa: RUF001
    assert listed(fact("fa-1", "Ann is a vet.", subject="user")) == "Ann is a vet."
    assert listed(fact("fa-1", "Ann is a vet.")) == "Ann is a vet."


def test_a_plan_is_marked_as_one() -> None:
    assert listed(plan("fo-1", "Ann flies to Rome.")) == "planned: Ann flies to Rome."


def test_a_plan_is_ahead_until_it_lapses_and_without_a_day_for_good() -> None:
    rome = plan("fo-1", "Ann flies to Rome.", lapses=write_time(NOON))
    assert [is_ahead(rome, at) for at in (NOON - 1, NOON, NOON + 1)] == [True, True, False]
    ended = plan("fo-1", "Rome.", lapses=write_time(NOON), until=write_time(NOON - 9), superseded_by="fa-1")
    assert is_ahead(ended, NOON - 5)
    assert is_ahead(plan("fo-1", "Ann learns Go."), NOON)
