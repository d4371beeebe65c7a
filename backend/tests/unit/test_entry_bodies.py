"""What a request about an entry may hold."""

from typing import Any

import pytest
from pydantic import ValidationError

from recollect.domain.entries.edit import EntryEdit
from recollect.entrypoints.http.entry_schemas import EntryChanges, UndoBody


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": "red"},
        {"text": " \n"},
        {"text": ""},
        {"text": "x" * 20_001},
        {"text": "a\x00b"},
        {"title": " "},
        {"title": "two\nlines"},
        {"title": "two\u2028lines"},
        {"title": "ends\n"},
        {"when": "yesterday"},
        {"when": -1},
        {"when": 1.5},
        {"pinned": "yes"},
        {"revision": 0},
        {"revision": "1"},
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        EntryChanges.model_validate(changes)
    assert {error["loc"][0] for error in caught.value.errors()} == set(changes)


def test_what_is_named_is_what_changes() -> None:
    body = EntryChanges.model_validate({"text": "Größe 🪐\n二", "pinned": False, "revision": 3})
    assert body.edit() == EntryEdit(text="Größe 🪐\n二", pinned=False, revision=3)


def test_null_is_the_same_as_not_named() -> None:
    assert EntryChanges.model_validate({"title": None, "text": None, "when": None}).edit() == EntryEdit()


def test_an_undo_knows_nothing_but_a_revision_and_who_asks() -> None:
    assert UndoBody.model_validate({"revision": 2, "user_id": "ann"}).revision == 2
    with pytest.raises(ValidationError):
        UndoBody.model_validate({"steps": 2})
