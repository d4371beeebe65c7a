"""Preferences stand in the vault as properties, and come back exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.people import Preferences, parse_preferences, render_preferences
from recollect.domain.prompt import is_time_zone
from recollect.errors import InvalidInput
from tests.unit.awkward_text import texts, unhurried

ANN = Preferences("default", "ann", auto_memory=False, time_zone="Europe/Lisbon", preset="Pirate")
FILE = """---
recollect: 1
kind: preferences
space: default
owner: users/ann
auto_memory: false
auto_skills: true
time_zone: Europe/Lisbon
preset: Pirate
---
"""

_said = texts.filter(bool)


def read(text: str) -> Preferences:
    return parse_preferences(text, space="default", user_id="ann")[0]


def test_the_file_is_front_matter_alone() -> None:
    assert render_preferences(ANN) == FILE


@unhurried
@given(
    st.builds(
        Preferences,
        space=_said,
        user_id=texts,
        auto_memory=st.booleans(),
        auto_skills=st.booleans(),
        time_zone=st.sampled_from([None, "UTC", "Asia/Kolkata", "America/Argentina/Buenos_Aires"]),
        preset=st.none() | _said,
    )
)
def test_all_preferences_come_back_exactly(preferences: Preferences) -> None:
    assert parse_preferences(render_preferences(preferences), space="s", user_id="u") == (preferences, ())


def test_what_a_person_leaves_out_is_the_default() -> None:
    assert read("---\nrecollect: 1\nkind: preferences\ntime_zone:\n---\n") == Preferences("default", "ann")


def test_what_a_person_adds_is_named() -> None:
    text = FILE.replace("preset:", "colour: red\npreset:") + "A note of mine.\n"
    assert parse_preferences(text, space="s", user_id="u") == (ANN, ("colour", "its text"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (("---\nrecollect", "recollect"), "does not begin"),
        (("kind: preferences", "kind: preset"), "kind preset"),
        (("auto_memory: false", "auto_memory: maybe"), "auto_memory"),
        (("Europe/Lisbon", "Europe/Lisboa"), "Europe/Lisboa"),
        (("owner: users/ann", "owner: agents/ann"), "owner"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(damage: tuple[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(FILE.replace(*damage))


@pytest.mark.parametrize(
    "name",
    ["", "Mars/Olympus", "Europe", "../../etc/passwd", "/etc/passwd", "a\0b", "x" * 5000, "\ud800", "UTC "],
)
def test_anything_else_is_none_and_says_so(name: str) -> None:
    assert not is_time_zone(name)
    with pytest.raises(InvalidInput) as caught:
        Preferences("default", "ann", time_zone=name).checked()
    assert caught.value.field == "time_zone"
