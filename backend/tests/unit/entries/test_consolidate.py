"""What says the same, and what is about one matter, so that only the newest of it holds."""

import pytest

from recollect.domain.entries.consolidate import is_same_statement, matter_key, matter_of, merged
from recollect.domain.entries.entry import KnownEntry, Source
from recollect.domain.entries.merge_drafts import Known, remember
from recollect.domain.entries.profile import is_replaced
from recollect.domain.entries.succession import in_succession
from recollect.domain.markdown.front_matter import write_time
from tests.unit.made_entries import DAY, known


def fact(text: str, attribute: str = "other", value: str = "", day: int = 1, **extra: str) -> KnownEntry:
    about = {"subject": "user", "attribute": attribute, "value": value, **extra}
    return known(f"fa-{day}", text, when=day * DAY, extra=about, turns=(f"t-{day}",), cell=f"c-{day}")


def likes(day: int, thing: str = "coffee", **extra: str) -> KnownEntry:
    return fact(f"Ann likes {thing}.", "likes", thing, day, **extra)


def dislikes(day: int, thing: str = "coffee", **extra: str) -> KnownEntry:
    return fact(f"Ann does not like {thing}.", "dislikes", thing, day, **extra)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("Ann has two cats.", "ann has two cats", True),
        ("安喜欢爬山。", "安喜欢爬山", True),
        ("Ann has 2 cats at her home in town.", "Ann has 3 cats at her home in town.", False),
        ("Ann likes the old town of Porto a lot.", "Ann likes the old town of Lisbon a lot.", False),
        ("Ann is allergic to nuts.", "Ann is not allergic to nuts.", False),
    ],
)
def test_only_the_same_text_says_the_same(one: str, other: str, is_same: bool) -> None:
    assert is_same_statement(fact(one), fact(other, day=2)) is is_same


def test_plans_for_two_times_are_two() -> None:
    assert not is_same_statement(fact("Ann flies.", about="2026"), fact("Ann flies.", about="2027"))


def test_merging_keeps_the_words_and_unites_the_sources() -> None:
    first, new = fact("Ann has a cat."), fact("Ann has a cat", day=3)
    both = merged(first, new)
    assert both.entry.text == first.entry.text
    assert both.sources == (Source("ann", "t1", "t-1"), Source("ann", "t1", "t-3"))
    assert len(both.entry.sources) == 2
    assert merged(both, new) == both
    assert merged(fact("Ann has a cat.", edited="yes"), new) == fact("Ann has a cat.", edited="yes")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (fact("Ann is vegan.", "diet", "vegan"), fact("Ann eats fish.", "diet", "fish", 5)),
        (fact("Ann 住在柏林。", "lives_in", "柏林"), fact("Ann 不再住在柏林。", "lives_in", "柏林", 5)),
        (likes(1), dislikes(5)),
        (dislikes(1), fact("Ann loves Coffee.", "likes", "Coffee", 5)),
        (fact("Ann can swim.", "can", "swim"), fact("Ann can no longer swim.", "can", "swim", 5)),
        (fact("Ann has a dog.", "has_pet", "a dog"), fact("Ann lost a dog.", "has_pet", "a dog", 5)),
    ],
)
def test_of_one_matter_the_newer_takes_the_place_of_the_older_and_both_are_linked(
    older: KnownEntry, newer: KnownEntry
) -> None:
    outcome = remember([newer], Known([], {newer.entry_id: [older]}))
    assert matter_key(older) == matter_key(newer) != ""
    assert (outcome.wrote, outcome.superseded) == (["fa-5"], ["fa-1"])
    assert outcome.put["fa-1"].entry.extra["until"] == write_time(5 * DAY)
    assert outcome.put["fa-1"].entry.extra["superseded_by"] == "fa-5"
    assert (outcome.put["fa-5"].holds, outcome.put["fa-5"].entry.extra["supersedes"]) == (True, "fa-1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (likes(1), dislikes(5, "iced coffee")),
        (likes(1), dislikes(5, subject="Marta")),
        (likes(1, subject="Marta", relation="sister"), dislikes(5, subject="Marta", relation="friend")),
        (likes(1), fact("Ann prefers coffee.", "prefers", "coffee", 5)),
    ],
)
def test_another_thing_or_another_subject_is_another_matter(one: KnownEntry, other: KnownEntry) -> None:
    assert matter_of(one) != matter_of(other)
    outcome = remember([other], Known([], {other.entry_id: [one]}))
    assert (outcome.superseded, list(outcome.put)) == ([], ["fa-5"])


@pytest.mark.parametrize(
    "separate",
    [
        fact("Ann is fond of espresso.", "likes", "coffee"),
        fact("Ann went to Rome.", "did", "Rome"),
        fact("Ann owns it.", "owns", ""),
    ],
)
def test_what_does_not_name_a_value_or_only_happened_is_about_no_matter(separate: KnownEntry) -> None:
    assert (matter_of(separate), matter_key(separate)) == (None, "")


def test_what_is_repeated_is_merged_unless_something_else_held_in_between() -> None:
    again = likes(5)
    outcome = remember([again], Known([], {again.entry_id: [likes(1)]}))
    assert (outcome.merged, outcome.wrote) == (["fa-1"], [])
    first, not_so = in_succession([likes(1), dislikes(3)])
    outcome = remember([again], Known([], {again.entry_id: [first, not_so]}))
    assert (outcome.wrote, outcome.superseded) == (["fa-5"], ["fa-3"])


def test_a_line_that_a_person_wrote_stays_in_the_place_of_its_fact() -> None:
    replaced = likes(1, until=write_time(2 * DAY), superseded_by="pr-1")
    assert is_replaced(replaced)
    assert not is_replaced(in_succession([likes(1), dislikes(5)])[0])
    for new in (likes(5), dislikes(5)):
        outcome = remember([new], Known([], {new.entry_id: [replaced]}))
        left = outcome.put.get("fa-1", replaced).entry.extra
        assert (left["until"], left["superseded_by"]) == (write_time(2 * DAY), "pr-1")
