"""Of a thing that somebody likes, can do, keeps or is allergic to, it is so or it is not: the newer word holds."""

from itertools import permutations

import pytest

from recollect.domain.entries.consolidate import is_same_statement
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.matters import is_affirmed, matter_of
from recollect.domain.entries.merge_drafts import Known, remember
from recollect.domain.entries.profile import is_replaced, profile_of
from recollect.domain.entries.succession import in_succession, settled
from recollect.domain.markdown.front_matter import write_time
from tests.unit.made_entries import ANN, DAY, known


def fact(text: str, attribute: str, value: str, day: int = 1, **extra: str) -> KnownEntry:
    about = {"subject": "user", "attribute": attribute, "value": value, **extra}
    return known(f"fa-{day}", text, when=day * DAY, extra=about, turns=(f"t-{day}",), cell=f"c-{day}")


def likes(day: int, thing: str = "coffee", **extra: str) -> KnownEntry:
    return fact(f"Ann likes {thing}.", "likes", thing, day, **extra)


def dislikes(day: int, thing: str = "coffee", **extra: str) -> KnownEntry:
    return fact(f"Ann does not like {thing}.", "dislikes", thing, day, **extra)


def marks(each: KnownEntry) -> tuple[str | None, str | None]:
    return each.entry.extra.get("until"), each.entry.extra.get("superseded_by")


OPPOSITES = [
    (likes(1), dislikes(5)),
    (dislikes(1), fact("Ann loves Coffee.", "likes", "Coffee", 5)),
    (fact("Ann 喜欢咖啡。", "likes", "咖啡", 1), fact("Ann 不喜欢咖啡了。", "dislikes", "咖啡", 5)),
    (fact("Ann can swim.", "can", "swim", 1), fact("Ann cannot swim.", "can", "swim", 5)),
    (fact("Ann 不会游泳。", "can", "游泳", 1), fact("Ann 会游泳了。", "can", "游泳", 5)),
    (
        fact("Ann has a dog.", "has_pet", "a dog", 1),
        fact("Ann does not have a dog anymore.", "has_pet", "a dog", 5),
    ),
    (
        fact("Ann has a brown dog called Rex.", "has_pet", "a brown dog called Rex", 1),
        fact("Ann no longer has a dog named Rex.", "has_pet", "Rex", 5),
    ),
    (
        fact("Ann is allergic to nuts.", "allergic_to", "nuts", 1),
        fact("Ann is no longer allergic to nuts.", "allergic_to", "nuts", 5),
    ),
    (
        fact("Ann 对花生过敏。", "allergic_to", "花生", 1),
        fact("Ann 对花生不过敏了。", "allergic_to", "花生", 5),
    ),
    (fact("Ann can swim.", "can", "can swim", 1), fact("Ann cannot swim.", "can", "cannot swim", 5)),
    (fact("Ann 会游泳。", "can", "会游泳", 1), fact("Ann 不会游泳。", "can", "不会游泳", 5)),
    (fact("Ann has a dog.", "has_pet", "a dog", 1), fact("Ann no longer has a dog.", "has_pet", "dog", 5)),
    (dislikes(1), fact("Ann no longer hates coffee.", "dislikes", "coffee", 5)),
    (likes(1), fact("Ann used to like coffee.", "likes", "coffee", 5)),
    (fact("Ann 喜欢咖啡。", "likes", "咖啡", 1), fact("Ann 以前喜欢咖啡。", "likes", "咖啡", 5)),
    (
        fact("Ann 的狗叫旺财。", "has_pet", "旺财", 1),
        fact("Ann 不再有叫旺财的狗。", "has_pet", "旺财", 5),
    ),
    (fact("Ann is vegan.", "diet", "vegan", 1), fact("Ann is vegetarian.", "diet", "vegetarian", 5)),
    (fact("Ann 吃素。", "diet", "吃素", 1), fact("Ann 不吃素了。", "diet", "素", 5)),
]


@pytest.mark.parametrize(("older", "newer"), OPPOSITES)
def test_the_newer_takes_the_place_of_its_opposite_and_both_are_linked(
    older: KnownEntry, newer: KnownEntry
) -> None:
    outcome = remember([newer], Known([], {newer.entry_id: [older]}), lambda one, other: False)
    assert (outcome.wrote, outcome.superseded) == (["fa-5"], ["fa-1"])
    assert marks(outcome.put["fa-1"]) == (write_time(5 * DAY), "fa-5")
    assert (outcome.put["fa-5"].holds, outcome.put["fa-5"].entry.extra["supersedes"]) == (True, "fa-1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (likes(1), dislikes(5, "iced coffee")),
        (likes(1), dislikes(5, subject="Marta")),
        (likes(1, subject="Marta", relation="sister"), dislikes(5, subject="Marta", relation="friend")),
        (likes(1), fact("Ann prefers coffee.", "prefers", "coffee", 5)),
        (
            fact("Ann has a dog called Rex.", "has_pet", "a dog called Rex"),
            fact("Ann no longer has a cat named Rex.", "has_pet", "Rex", 5),
        ),
        (
            fact("Ann has two dogs.", "has_pet", "two dogs"),
            fact("Ann no longer has a dog.", "has_pet", "a dog", 5),
        ),
    ],
)
def test_another_thing_or_another_subject_is_another_matter(one: KnownEntry, other: KnownEntry) -> None:
    assert matter_of(one) != matter_of(other)
    outcome = remember([other], Known([], {other.entry_id: [one]}), lambda one, other: False)
    assert (outcome.superseded, list(outcome.put)) == ([], ["fa-5"])


def test_what_does_not_name_its_value_is_no_matter() -> None:
    assert matter_of(fact("Ann is fond of espresso.", "likes", "coffee")) is None
    assert matter_of(fact("Ann went to Rome.", "did", "went to Rome")) is None


@pytest.mark.parametrize(
    ("text", "value", "so"),
    [
        ("Ann likes coffee without sugar.", "coffee without sugar", True),
        ("Ann can swim, but not far.", "swim", True),
        ("Ann, who does not live here, can swim.", "swim", True),
        ("Ann can’t swim.", "swim", False),  # noqa: RUF001
        ("Ann can no longer swim.", "swim", False),
        ("Ann used to be able to swim.", "swim", False),
        ("Ann is used to cold water and can swim.", "swim", True),
    ],
)
def test_only_what_is_said_of_the_value_denies_it(text: str, value: str, so: bool) -> None:
    assert is_affirmed(fact(text, "can", value)) == so


def test_like_and_dislike_of_many_words_are_not_the_same() -> None:
    place = "the old town of Porto in the early morning light"
    hates = fact(f"Ann dislikes {place}.", "dislikes", place, 5)
    assert not is_same_statement(likes(1, place), hates)


def test_what_is_said_again_after_its_opposite_begins_anew() -> None:
    first, not_so = in_succession([likes(1), dislikes(3)])
    again = likes(5)
    outcome = remember([again], Known([], {again.entry_id: [first, not_so]}), lambda one, other: False)
    assert outcome.wrote == ["fa-5"]
    assert [marks(outcome.put[each])[1] for each in ("fa-3", "fa-5")] == ["fa-5", None]


def test_what_is_said_again_with_nothing_in_between_is_known() -> None:
    again = fact("Ann loves coffee.", "likes", "coffee", 5)
    outcome = remember([again], Known([], {again.entry_id: [likes(1)]}), lambda one, other: False)
    assert (outcome.merged, outcome.superseded) == (["fa-1"], [])


def test_nothing_merges_into_what_no_longer_holds() -> None:
    ended, not_so = in_succession([likes(1, "hot coffee"), dislikes(3, "hot coffee")])
    new = likes(5, "coffee")
    outcome = remember([new], Known([], {new.entry_id: [ended, not_so]}), lambda one, other: True)
    assert (outcome.wrote, outcome.merged) == (["fa-5"], [])


def test_several_that_say_likewise_end_together() -> None:
    facts = [likes(1), fact("Since 2019 Ann likes coffee.", "likes", "coffee", 2), dislikes(3)]
    once = in_succession(facts)
    assert [marks(each)[1] for each in once] == ["fa-3", "fa-3", None]
    assert once[2].entry.extra["supersedes"] == "fa-1 fa-2"
    assert all(in_succession(order) == once for order in permutations(facts))
    assert in_succession(once) == once
    assert settled(facts[:2], {}, (), facts[0]) == []


class TestWhatAPersonWrote:
    def test_it_holds_against_what_is_extracted_later(self) -> None:
        mine, later = in_succession([likes(3, edited="yes"), dislikes(5)])
        assert (mine, marks(later)) == (likes(3, edited="yes"), (write_time(3 * DAY), "fa-3"))

    def test_without_it_what_was_extracted_follows_as_ever(self) -> None:
        stored = in_succession([likes(1), dislikes(5), likes(3, edited="yes")])
        assert settled(stored, {}, {"fa-3"}, likes(1)) == in_succession([likes(1), dislikes(5)])

    def test_a_line_of_theirs_stays_in_the_place_of_the_fact(self) -> None:
        replaced = likes(1, until=write_time(2 * DAY), superseded_by="pr-1")
        assert is_replaced(replaced)
        for new in (likes(5), dislikes(5)):
            outcome = remember([new], Known([], {new.entry_id: [replaced]}), lambda one, other: False)
            assert marks(outcome.put.get("fa-1", replaced)) == marks(replaced)

    def test_a_fact_in_the_place_of_another_is_no_line_of_theirs(self) -> None:
        assert not is_replaced(in_succession([likes(1), dislikes(5)])[0])


def test_the_profile_tells_what_holds_and_of_what_is_over_only_where_nothing_else_is_known() -> None:
    gone, swims = OPPOSITES[6][1], fact("Ann cannot swim.", "can", "swim", 7)
    cat = fact("Ann has a cat.", "has_pet", "a cat", 8)
    facts = in_succession([likes(1), dislikes(4)])
    page = [line.entry.text for line in profile_of("default", ANN, [*facts, gone, swims])]
    assert page == ["Ann no longer has a dog named Rex.", "Ann does not like coffee.", "Ann cannot swim."]
    page = [line.entry.text for line in profile_of("default", ANN, [*facts, gone, swims, cat])]
    assert page == ["Ann has a cat.", "Ann does not like coffee.", "Ann cannot swim."]
