"""Presets stand in the vault as plain Markdown, and come back exactly."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.people import MAX_NAME, Preset, built_in_preset, parse_preset, preset_key, render_preset
from recollect.errors import InvalidInput
from recollect.service.people import preset_in_force
from tests.contract.journals import Journal
from tests.unit.awkward_text import texts, unhurried

PIRATE = Preset(
    "default", "Pirate", "Answer like a pirate.\n\n## Style\n\n- short", "Hook", 0.7, 200, "qwen", "big"
)
FILE = """---
recollect: 1
kind: preset
space: default
name: Pirate
persona: Hook
max_tokens: 200
model: qwen
backend: big
temperature: 0.7
---

Answer like a pirate.

## Style

- short
"""


def _is_name(name: str) -> bool:
    try:
        replace(PIRATE, name=name).checked()
    except InvalidInput:
        return False
    return True


_said = texts.filter(lambda text: text.strip() != "")
_names = texts.map(str.strip).filter(_is_name)
_presets = st.builds(
    Preset,
    space=_said,
    name=_names,
    instructions=_said,
    persona=st.none() | _said,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 1_000_000),
    model=st.none() | _said,
    backend=st.none() | _said,
    sources=st.none() | st.sampled_from(["none", "files, links", "images"]),
)


def read(text: str) -> Preset:
    return parse_preset(text, space="default", name="pirate")[0]


def test_the_file_is_front_matter_and_the_instructions_as_they_are() -> None:
    assert render_preset(PIRATE) == FILE


@unhurried
@given(_presets)
def test_every_preset_comes_back_exactly_with_crlf_too(preset: Preset) -> None:
    text = render_preset(preset)
    for written in (text, text.replace("\n", "\r\n")):
        assert parse_preset(written, space="s", name="n") == (preset, ())


def test_blank_lines_that_a_person_leaves_around_the_instructions_do_not_count() -> None:
    assert read(FILE.replace("---\n\nAnswer", "---\n\n\n\nAnswer") + "\n  \n\n") == PIRATE


def test_a_file_that_a_person_made_says_no_more_than_it_must() -> None:
    found = parse_preset(
        "---\nrecollect: 1\nkind: preset\n---\nBe calm.", space="default", name="Calm and kind"
    )
    assert found == (Preset("default", "Calm and kind", "Be calm."), ())


def test_what_a_person_adds_to_the_front_matter_is_named() -> None:
    _, beside = parse_preset(FILE.replace("model:", "aliases: [arr]\nmodel:"), space="s", name="n")
    assert beside == ("aliases",)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (("---\n\nAnswer", "\nAnswer"), "not closed"),
        (("recollect: 1", "recollect: 2"), "version 2"),
        (("kind: preset", "kind: transcript"), "kind transcript"),
        (("temperature: 0.7", "temperature: warm"), "temperature"),
        (("temperature: 0.7", "temperature: 7"), "temperature: must be from 0 to 2"),
        (("max_tokens: 200", "max_tokens: 1.5"), "max_tokens"),
        (("max_tokens: 200", "max_tokens: true"), "max_tokens"),
        (("name: Pirate", f"name: {'x' * (MAX_NAME + 1)}"), "name: must have 1 to 64"),
        (("persona: Hook", "persona: [Hook]"), "persona is not text"),
        (("Answer like a pirate.\n\n## Style\n\n- short", ""), "instructions: must not be blank"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(damage: tuple[str, str], words: str) -> None:
    assert damage[0] in FILE
    with pytest.raises(ValueError, match=words):
        read(FILE.replace(*damage))


@pytest.mark.parametrize("name", ["", " pirate", "pirate ", "two\nlines", "tab\there", "\ufeffx", "x" * 65])
def test_a_name_is_one_line_of_one_to_64_characters(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        replace(PIRATE, name=name).checked()
    assert caught.value.field == "name"


def test_names_that_differ_in_case_or_composition_are_one() -> None:
    assert preset_key("ÉCOLE") == preset_key("e\u0301cole")
    assert preset_key("STRASSE") == preset_key("straße")
    assert preset_key("a") != preset_key("b")


@pytest.mark.parametrize(
    "change",
    [
        {"instructions": "Arr."}, {"persona": None}, {"temperature": 0.8}, {"max_tokens": None}, {"model": "x"},
        {"backend": None},
    ],
)  # fmt: skip
def test_the_revision_changes_with_what_is_asked_of_the_model(change: dict[str, object]) -> None:
    assert replace(PIRATE, **change).revision != PIRATE.revision  # type: ignore[arg-type]


def test_the_revision_does_not_change_with_the_name() -> None:
    assert replace(PIRATE, name="Corsair", space="work").revision == PIRATE.revision


async def test_the_first_preset_that_there_is_is_in_force(journal: Journal) -> None:
    people = journal.people
    await people.change_preset("default", PIRATE.name, lambda _: PIRATE)
    assert await preset_in_force(people, "default", None, "gone", "pirate") == PIRATE
    assert await preset_in_force(people, "default", None, "gone") == built_in_preset("default")
    assert await preset_in_force(people, "work", "pirate") == built_in_preset("work")
