"""The profile shows the facts that hold, by category, each once."""

from dataclasses import replace
from itertools import permutations

import pytest

from recollect.domain.entries.edit import EntryEdit, edited
from recollect.domain.entries.entry import PROFILE, KnownEntry
from recollect.domain.entries.profile import (
    HEADINGS,
    facts_on_page,
    line_of,
    place_on_page,
    written_over,
)
from recollect.domain.markdown.front_matter import write_time
from tests.unit.made_entries import DAY, known

NOW = 100 * DAY


def fact(text: str, category: str = "home", day: int = 1, subject: str = "user", **extra: str) -> KnownEntry:
    about = {"subject": subject, "category": category, **extra}
    name = f"fa-{text.replace(' ', '_')}-{day}"
    return known(name, text, when=day * DAY, extra=about, turns=(f"t-{day}",))


def lines(*facts: KnownEntry, own: tuple[KnownEntry, ...] = ()) -> list[KnownEntry]:
    chosen = facts_on_page(facts, own, NOW)
    return [line_of(fact) for of_heading in chosen.values() for fact in of_heading]


def page(*facts: KnownEntry, own: tuple[KnownEntry, ...] = ()) -> list[tuple[str, str]]:
    """Heading and text of each line."""
    return [(line.entry.extra["category"], line.entry.text) for line in lines(*facts, own=own)]


def test_it_goes_by_category_and_by_time_in_whatever_order_the_facts_come() -> None:
    facts = (fact("Berlin", "home", 3), fact("Ann", "identity", 1), fact("A flat", "home", 5))
    for order in permutations(facts):
        assert page(*order) == [("identity", "Ann"), ("home", "A flat"), ("home", "Berlin")]


@pytest.mark.parametrize(
    "absent",
    [
        fact("Went to Rome", "event"),
        fact("Porto", superseded_by="fa-2", until=write_time(5 * DAY)),
        fact("A month in Rome", lapses=write_time(99 * DAY)),
        fact("Off the page", profile="no"),
        fact("Of no category", ""),
    ],
)
def test_events_and_what_is_over_or_was_taken_off_are_not_on_it(absent: KnownEntry) -> None:
    assert page(absent, fact("Berlin")) == [("home", "Berlin")]


def test_what_has_an_end_is_on_it_until_then_and_says_so() -> None:
    (line,) = lines(fact("A month in Rome", lapses=write_time(101 * DAY)))
    assert [line.holds_at(NOW), line.holds_at(101 * DAY)] == [True, False]


def test_what_is_known_of_others_is_under_people() -> None:
    assert page(fact("Marta lives in Porto", "home", subject="Marta, Ann's sister")) == [
        ("people", "Marta, Ann's sister: Marta lives in Porto")
    ]


def test_what_is_pinned_comes_first_and_the_rest_of_a_category_is_bounded() -> None:
    likes = [fact(f"Thing {day}", "likes", day) for day in range(1, 31)]
    wishes = [fact(f"Wish {day}", "wishes to the assistant", day) for day in range(1, 31)]
    pinned = fact("Tea", "likes", 1, pinned="yes")
    shown = page(*likes, *wishes, pinned)
    assert [heading for heading, _ in shown] == ["likes"] * 12 + ["wishes to the assistant"] * 20
    assert [text for _, text in shown[:2]] == ["Tea", "Thing 30"]


def test_the_same_words_are_on_it_once() -> None:
    own = known("pr-9", "Ann runs.", kind=PROFILE, extra={"edited": "yes"})
    twice = (fact("Berlin", day=1), fact("berlin.", day=2), fact("Ann runs", "habits"))
    assert page(*twice, own=(own,)) == [("home", "berlin.")]


def test_a_line_of_several_facts_has_the_sources_of_all() -> None:
    line = line_of(fact("Berlin", day=1), fact("A flat", day=2), text="A flat in Berlin", by="qwen")
    assert (len(line.sources), line.entry.by) == (2, "profile, qwen")
    assert len(line.entry.extra["fact"].split()) == 2


def test_lines_without_a_category_come_last() -> None:
    own = known("pr-9", "Ann runs.", kind=PROFILE, extra={"edited": "yes"})
    assert place_on_page(own.entry) == len(HEADINGS) > place_on_page(line_of(fact("x", "goals")).entry)


def test_a_person_changes_the_words_of_a_fact_and_not_whom_it_is_about() -> None:
    rome = fact("Marta lives in Rome.", "home", subject="Marta, Ann's boss")
    (line,) = lines(rome)
    assert line.entry.title == line.entry.text == "Marta, Ann's boss: Marta lives in Rome."
    said = line.entry.text.replace("Rome", "Milan")
    told = replace(line, entry=replace(line.entry, title=said, text=said, extra={"edited": "yes"}))
    changed = written_over(line, told, rome, ())
    assert (changed.entry.title, changed.entry.text) == ("Marta lives in Milan.", "Marta lives in Milan.")


def test_a_fact_whose_line_a_person_dated_otherwise_counts_from_when_it_was_said() -> None:
    rome = fact("Ann lives in Rome.", "home")
    (line,) = lines(rome)
    changed = written_over(line, edited(line, EntryEdit(when=1), now=line.entry.when + 1), rome, ())
    assert (changed.entry.when, changed.said) == (1, rome.entry.when)
