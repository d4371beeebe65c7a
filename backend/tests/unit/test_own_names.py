"""What a model tells of the user by the name that they have just said is about the user."""

from dataclasses import replace

import pytest

from recollect.domain.extraction.draft import CellText
from recollect.domain.extraction.rules import own_names
from tests.unit.made_cells import cell_of, grounded, said, statement, turn_of

HELLO = "Hi! My name is Ann and I live in Berlin."


def subjects(cell: CellText, text: str, subject: str, *turns: int) -> list[str]:
    """Whom the statement is about once it is grounded; nobody where it is refused."""
    drafts = grounded(cell, statement(text, *turns, subject=subject, attribute="lives_in")).drafts
    return [draft.subject for draft in drafts]


def cell_of_me(*texts: str) -> CellText:
    """Somebody whose name nobody knows yet says this."""
    turns = [turn_of(number, "user", text, sender="u-1") for number, text in enumerate(texts, 1)]
    return replace(cell_of(*turns, user_name="The user"), user_id="u-1")


@pytest.mark.parametrize(
    ("hello", "text", "subject"),
    [
        (HELLO, "Ann lives in Berlin.", "Ann"),
        ("My name is Ann Smith. I live in Berlin.", "Ann lives in Berlin.", "Ann"),
        ("My name is Ann Smith. I live in Berlin.", "Ann Smith lives in Berlin.", "ann smith"),
        ("我叫王小明，我住在柏林。", "王小明住在柏林。", "王小明"),  # noqa: RUF001
    ],
)
def test_the_name_that_the_user_has_just_told_is_the_users(hello: str, text: str, subject: str) -> None:
    assert subjects(cell_of_me(hello), text, subject) == ["The user"]


def test_it_may_stand_for_the_user_in_what_the_other_messages_say() -> None:
    cell = cell_of_me("My name is Ulrike.", "I live in Berlin.")
    assert subjects(cell, "Ulrike lives in Berlin.", "Ulrike", 2) == ["The user"]


def test_the_first_of_the_names_that_are_known_is_the_users() -> None:
    cell = cell_of(("user", "I live in Berlin."), user_name="Ann Smith")
    assert subjects(cell, "Ann lives in Berlin.", "Ann") == ["Ann Smith"]


@pytest.mark.parametrize(
    "text",
    ["My name is Ann Smith. My friend Ann lives in Rome.", "I'm Ann. My little sister Ann lives in Rome."],
)
def test_a_friend_of_that_name_is_somebody_else(text: str) -> None:
    assert subjects(cell_of_me(text), "Ann lives in Rome.", "Ann") == ["Ann"]


def test_others_are_who_they_are() -> None:
    cell = cell_of_me(f"{HELLO} My sister Marta lives in Porto.")
    assert subjects(cell, "Marta lives in Porto.", "Marta") == ["Marta"]


def test_the_name_of_another_speaker_is_not_the_users() -> None:
    cell = cell_of(
        ("user", "Who is there?"), turn_of(2, "user", "My name is Bob.", sender="b7"), user_name="The user"
    )
    assert own_names(cell) == frozenset()
    assert own_names(said(HELLO)) == {"Ann"}
