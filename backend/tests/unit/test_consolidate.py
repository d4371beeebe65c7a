"""What says the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.entries.consolidate import (
    is_denial,
    is_functional,
    is_perhaps_same,
    is_same_statement,
    merged,
    worth_comparing,
)
from recollect.domain.entries.entry import KnownEntry, Source, Wording, text_key
from recollect.domain.model import Entry

DAY = 86_400_000


def fact(text: str, *, at: int = 0, entry_id: str = "", **extra: str) -> KnownEntry:
    name = entry_id or f"fa-{abs(hash((text, at))) % 10**9}"
    told = {"subject": "user", "attribute": "other", **extra}
    source = Source("t1", f"t-{at + 1}")
    return KnownEntry(
        "default",
        "default/users/ann",
        "facts",
        Entry(name, text, text, at * DAY, (f"threads/t1/0001#^t-{at + 1}",), "facts, rules", told),
        (source,),
    )


def lives_in(place: str, at: int, **extra: str) -> KnownEntry:
    return fact(
        f"Ann lives in {place}.", at=at, entry_id=f"fa-{at}", attribute="lives_in", value=place, **extra
    )


@pytest.mark.parametrize("cannot", ["cannot", "can't", "can’t", "couldn't"])  # noqa: RUF001
def test_what_somebody_cannot_do_is_not_what_they_can(cannot: str) -> None:
    can = fact("Ann can swim.", attribute="can", value="swim")
    assert not is_same_statement(can, fact(f"Ann {cannot} swim.", attribute="can", value="swim"))


@pytest.mark.parametrize(
    ("text", "place", "denies"),
    [
        ("Ann moved away from Berlin.", "Berlin", True),
        ("Ann has left Berlin for good.", "Berlin", True),
        ("Ann 从柏林搬走了。", "柏林", True),
        ("Ann moved out of Berlin to Lisbon.", "Lisbon", False),
        ("Ann moved to Berlin.", "Berlin", False),
        ("Ann 从柏林搬到了里斯本。", "里斯本", False),
    ],
)
def test_to_leave_a_place_is_to_live_there_no_longer(text: str, place: str, denies: bool) -> None:
    assert is_denial(fact(text, attribute="lives_in", value=place)) == denies


def test_to_leave_a_place_is_said_of_who_no_longer_lives_there_and_not_of_who_does() -> None:
    left = fact("Ann moved away from Berlin.", attribute="lives_in", value="Berlin")
    assert not is_same_statement(left, lives_in("Berlin", 1))
    no_longer = fact("Ann no longer lives in Berlin.", attribute="lives_in", value="Berlin")
    assert is_same_statement(left, no_longer)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann has two cats.", "ann has two cats"),
        ("安喜欢爬山。", "安喜欢爬山"),
        ("Ann plays the old piano at home.", "At home Ann plays the old piano."),
    ],
)
def test_the_same_words_say_the_same(one: str, other: str) -> None:
    assert is_same_statement(fact(one), fact(other, at=1))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann has 2 cats at her home in town.", "Ann has 3 cats at her home in town."),
        ("Ann likes the old town of Porto a lot.", "Ann likes the old town of Lisbon a lot."),
        ("Ann eats meat.", "Ann does not eat meat."),
        ("Ann likes tea.", "Ann repairs old bicycles at night."),
    ],
)
def test_another_number_name_or_a_denial_says_something_else(one: str, other: str) -> None:
    assert not is_same_statement(fact(one), fact(other, at=1))
    assert not is_perhaps_same(fact(one), fact(other, at=1))


def test_statements_about_different_people_are_never_the_same() -> None:
    ours, theirs = fact("She plays chess every day."), fact("She plays chess every day!", subject="Marta")
    assert is_same_statement(ours, replace(theirs, entry=replace(theirs.entry, text=ours.entry.text)))
    assert not is_perhaps_same(ours, theirs)


def test_the_same_value_of_an_attribute_is_said_in_many_ways() -> None:
    short = fact("Ann works as a nurse.", attribute="works_as", value="a nurse")
    long = fact("By trade Ann is a nurse.", at=1, attribute="works_as", value="A nurse")
    assert is_same_statement(short, long)


def test_a_dog_named_rex_is_a_dog_called_rex() -> None:
    one, other = (
        fact(f"Ann has a dog {word} Rex.", attribute="has_pet", value=f"a dog {word} Rex")
        for word in ("called", "named")
    )
    assert is_same_statement(one, other)


def test_another_value_of_an_attribute_with_one_value_is_another_statement() -> None:
    assert not is_same_statement(lives_in("Berlin", 1), lives_in("Lisbon", 2))


def test_two_without_a_value_are_not_of_the_same_value() -> None:
    bike, car = (fact(f"Ann owns a {thing}.", attribute="owns") for thing in ("bike", "car"))
    assert not is_same_statement(bike, car)


_SAID = st.lists(
    st.sampled_from(["Ann", "not", "no", "3", "4", "owns", "a", "blue", "bike", "Rome", "since", "May"]),
    max_size=6,
)
_OWNED = st.sampled_from(["", "a bike", "A bike!", "Rome"])


@given(_SAID, _SAID, _OWNED, _OWNED)
def test_whatever_says_the_same_is_worth_comparing(
    one: list[str], other: list[str], owned: str, other_owned: str
) -> None:
    mine = fact(" ".join(one), attribute="owns", value=owned)
    known = fact(" ".join(other), at=1, attribute="owns", value=other_owned)
    told = Wording(known.entry_id, known.entry.text, other_owned)
    is_equal = text_key(mine.entry.text) == text_key(known.entry.text)
    if is_same_statement(mine, known):
        assert is_equal or worth_comparing(mine, [told], perhaps=0)
    if is_perhaps_same(mine, known):
        assert worth_comparing(mine, [told], perhaps=1)


def test_what_shares_few_words_and_another_value_is_not_worth_comparing() -> None:
    tea = fact("Ann likes green tea.", attribute="likes", value="green tea")
    walks = Wording("fa-2", "Ann likes long walks by the sea.", "long walks")
    assert worth_comparing(tea, [walks], perhaps=5) == []


def test_of_those_whose_meaning_would_tell_the_newest_are_worth_comparing() -> None:
    tea = fact("Ann likes green tea a lot.", attribute="likes", value="green tea")
    things = ["black", "cold", "white"]
    known = [Wording(thing, f"Ann likes {thing} tea a lot.", f"{thing} tea") for thing in things]
    known.insert(1, Wording("same", "Green tea is a joy.", "Green Tea"))
    assert worth_comparing(tea, known, perhaps=2) == ["same", "cold", "white"]
    assert worth_comparing(tea, known, perhaps=0) == ["same"]


def test_merging_keeps_the_words_and_unites_the_sources() -> None:
    known, new = fact("Ann has a cat."), fact("Ann has a cat", at=3)
    both = merged(known, new)
    assert both.entry.text == known.entry.text
    assert both.sources == (Source("t1", "t-1"), Source("t1", "t-4"))
    assert both.entry.sources == ("threads/t1/0001#^t-1", "threads/t1/0001#^t-4")
    assert merged(both, new) == both


def test_merging_changes_nothing_that_a_person_wrote() -> None:
    known = fact("Ann has a cat.", edited="yes")
    assert merged(known, fact("Ann has a cat", at=3)) == known


def test_only_facts_about_something_unique_succeed_each_other() -> None:
    assert is_functional(lives_in("Berlin", 1))
    assert not is_functional(fact("Ann likes tea.", attribute="likes", value="tea"))
