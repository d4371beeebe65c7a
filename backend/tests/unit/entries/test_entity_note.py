"""An entity as a note: whatever it says is read back, and what a person wrote beside it stays."""

from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.markdown.entity_note import (
    Relation,
    new_entity,
    read_entity,
    with_observations,
    with_relations,
    with_type,
    without,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=40)
ODD = st.sampled_from(
    ["", "- x", "## Relations", "# h", "---", "a\n\nb\n", "  x ", "[[a|b]]", "\\n", "a]]|[b", "'q'"]
)
WORDS = TEXT | ODD
CREATED = "2026-05-08T14:03:00.000Z"


@given(
    WORDS,
    WORDS,
    st.lists(WORDS, unique=True, max_size=4),
    st.lists(st.builds(Relation, WORDS, WORDS), unique=True, max_size=4),
)
def test_whatever_an_entity_says_is_read_back(
    name: str, kind: str, told: list[str], relations: list[Relation]
) -> None:
    text = with_relations(new_entity(name, kind, told[:2], CREATED), relations[:1])
    text = with_observations(with_relations(text, relations[1:]), told[2:])
    note = read_entity(text)
    assert (note.name, note.entity_type, note.created) == (name, kind, CREATED)
    assert list(note.observations) == told
    assert list(note.relations) == relations
    rest = read_entity(without(text, told[:1], relations[:1]))
    assert (list(rest.observations), list(rest.relations)) == (told[1:], relations[1:])


@given(WORDS, WORDS, st.lists(WORDS, unique=True, max_size=3))
def test_a_name_that_relations_begin_at_becomes_an_entity(name: str, kind: str, told: list[str]) -> None:
    stub = with_relations(new_entity(name, None, (), CREATED), [Relation("knows", "Bob")])
    assert read_entity(stub).entity_type is None
    note = read_entity(with_observations(with_type(stub, kind), told))
    assert (note.entity_type, list(note.observations)) == (kind, told)
    assert note.relations == (Relation("knows", "Bob"),)


BY_HAND = """---
type: 'person'
tags: [friend]
---
Some words before.

# Ann Smith

She plays chess.

* lives in Porto\r
  since 2024

A paragraph between.

- plays chess

## Relations

- works at [[acme]]
- [[bob|Bob]]
- met at the fair

## My own

- not an observation
"""


def test_a_note_that_a_person_wrote_is_read_and_keeps_its_other_lines() -> None:
    note = read_entity(BY_HAND)
    assert (note.name, note.entity_type) == ("Ann Smith", "person")
    assert note.observations == ("lives in Porto\nsince 2024", "plays chess")
    assert note.relations == (Relation("works at", "acme"), Relation("", "Bob"))
    changed = with_relations(with_observations(BY_HAND, ["likes tea"]), [Relation("knows", "Zoë")])
    assert read_entity(changed).observations == (*note.observations, "likes tea")
    assert read_entity(changed).relations == (*note.relations, Relation("knows", "Zoë"))
    before, after = BY_HAND.replace("\r", "").split("\n"), changed.split("\n")
    assert [line for line in after if line in before] == before
    assert without(changed, ["likes tea"], [Relation("knows", "Zoë")]) == BY_HAND.replace("\r", "")


def test_a_file_without_anything_of_ours_is_an_entity_without_a_type() -> None:
    assert read_entity("just words").entity_type == ""
    assert read_entity("just words").name is None
    assert with_observations("just words", ["x"]) == "\n- x\n\njust words"
