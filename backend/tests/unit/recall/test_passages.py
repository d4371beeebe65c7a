"""Of a long text, the part that answers is shown."""
# ruff: noqa: RUF001 - letters that look like others are the point

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.recall.passages import best_passage
from recollect.domain.recall.words import words_asked_for, words_in
from tests.unit.awkward_text import texts

FILLER = "Nothing much happened on that long and quiet day. "


def passage(text: str, query: str, longest: int) -> str:
    shown, place = best_passage(text, words_asked_for(query), longest)
    assert place is not None
    assert text[slice(*place)].strip() == shown
    return shown


def test_a_short_text_is_shown_whole() -> None:
    assert best_passage(" short\n", ["short"], 7) == (" short\n", None)


def test_the_place_that_holds_the_most_words_wins() -> None:
    text = "The dog slept. " + FILLER * 9 + "The dog bit Marta. " + FILLER * 9 + "Marta slept."
    assert "The dog bit Marta." in passage(text, "dog Marta", 120)


def test_sentences_are_whole_where_they_fit() -> None:
    text = FILLER * 20 + "Marta moved to Porto! " + FILLER * 20
    shown = passage(text, "Porto", 200)
    assert shown.startswith(("Nothing", "Marta"))
    assert shown.endswith((".", "!"))


def test_there_is_as_much_around_the_words_as_fits() -> None:
    text = "Marta moved. " + FILLER * 20
    assert 200 - len(FILLER) <= len(passage(text, "Marta", 200)) <= 200


def test_a_query_without_its_words_in_the_text_shows_the_beginning() -> None:
    assert passage("First things first. " + FILLER * 20, "zebra", 100).startswith("First things first.")
    assert passage("First things first. " + FILLER * 20, "", 100).startswith("First things first.")


def test_leading_white_space_is_not_shown_for_text() -> None:
    assert passage("\n" * 900 + "Here it is. " + FILLER * 20, "", 100).startswith("Here it is.")


@pytest.mark.parametrize("end", ["。", "！", "？"])
def test_text_without_spaces_is_cut_at_its_own_marks(end: str) -> None:
    text = f"今天天气很好{end}" * 50 + f"我喜欢北京烤鸭{end}" + f"今天天气很好{end}" * 50
    shown = passage(text, "烤鸭", 40)
    assert f"我喜欢北京烤鸭{end}" in shown
    assert shown.endswith(end)


def test_a_text_without_sentences_is_cut_between_words() -> None:
    text = " ".join(f"word{n}" for n in range(500))
    shown = passage(text, "word321", 100)
    assert "word321" in shown.split()
    assert set(shown.split()) <= set(text.split())


@given(
    st.lists(
        st.sampled_from(["dog. ", "cat ", "北京。", "\n", "\n\n", "x" * 30, "  ", "? "]) | texts, max_size=40
    ),
    st.integers(1, 60),
)
def test_a_passage_is_never_longer_than_asked_and_lies_where_it_says(pieces: list[str], longest: int) -> None:
    text = "".join(pieces)
    shown, place = best_passage(text, ["dog", "北京"], longest)
    assert len(shown) <= longest
    if place is not None:
        assert text[slice(*place)].strip() == shown
        assert bool(shown) == bool(text.strip())
    else:
        assert shown == text


@given(st.lists(st.sampled_from(["dog. ", "cat. ", "A bird sang. "]), min_size=10, max_size=40))
def test_what_is_asked_for_is_in_the_passage_where_the_text_has_it(sentences: list[str]) -> None:
    text = "".join(sentences)
    if len(text) > 20 and "dog" in text:
        assert "dog" in words_in(passage(text, "dog", 20))


@pytest.mark.parametrize(
    ("filler", "word", "asked"),
    [
        ("lorem ipsum dolor ", "wolverine99", "wolverine99"),
        ("a\n", "parties", "party"),
        ("Ein Satz ohne das Wort für den Fluss. ", "München", "münchen"),
        ("文章。", "カタカナ", "カタカナ"),
        ("We walk. ", "went", "go"),
    ],
)
def test_of_a_very_long_text_the_end_can_be_the_passage(filler: str, word: str, asked: str) -> None:
    text = filler * (300_000 // len(filler)) + f" {word} "
    assert word in passage(text, asked, 800)


HOSTILE = ["a\n", "a. ", "word ", "x", "。", " ", "\n", "dog cat. ", "! "]


def seconds_for(piece: str, characters: int) -> float:
    text = "x. " + piece * (characters // len(piece))
    begun = time.process_time()
    shown, _ = best_passage(text, ["dog", "cat", "a", "word"], 800)
    assert len(shown) <= 800
    return time.process_time() - begun


@pytest.mark.parametrize("piece", HOSTILE)
def test_four_times_the_text_takes_about_four_times_as_long(piece: str) -> None:
    """Quadratic work would take sixteen times as long; other work on the machine slows down both."""
    assert seconds_for(piece, 1_000_000) < 8 * seconds_for(piece, 250_000) + 0.2
