"""Without a model an episode is the sentences that tell the most, in every language, and nothing else is made."""

import pytest

from recollect.domain.extraction.summary import extract_without_model
from tests.unit.made_cells import cell_of, said, turn_of


@pytest.mark.parametrize(
    "text",
    [
        "My sister Marta starts as a nurse in Porto on 1 June.",
        "Meine Schwester Marta fängt am 1. Juni in Porto als Krankenschwester an.",
        "我的姐姐玛尔塔六月一日开始在波尔图当护士。",
        "Моя сестра Марта начинает работать медсестрой в Порту.",
    ],
)
def test_what_tells_something_is_the_episode_and_nothing_else_is_made(text: str) -> None:
    (episode,) = extract_without_model(said(text)).drafts
    assert episode.kind == "episodes"
    assert episode.text == f"2026-05-08.\nAnn: {text}"
    assert episode.turn_ids == ("t-1",)


@pytest.mark.parametrize(
    "text", ["Hi!", "Good morning!", "Thanks a lot.", "谢谢", "ok", "", "```\nx = compute(a, b, c, d)\n```"]
)
def test_greetings_thanks_and_code_tell_nothing(text: str) -> None:
    assert extract_without_model(said(text)).drafts == ()


def test_at_most_four_sentences_are_kept_in_the_order_in_which_they_were_said() -> None:
    texts = [f"On day {number} we went to the {place} together." for number, place in enumerate("abcdef")]
    (episode,) = extract_without_model(cell_of(*(("user", text) for text in texts))).drafts
    lines = episode.text.split("\n")[1:]
    assert lines == [f"Ann: {text}" for text in texts[:4]]
    assert episode.turn_ids == ("t-1", "t-2", "t-3", "t-4")


def test_an_answer_is_kept_before_a_question() -> None:
    cell = cell_of(
        *(("user", f"What is the capital of country number {number}?") for number in range(4)),
        ("user", "I moved to Porto with my whole family."),
    )
    (episode,) = extract_without_model(cell).drafts
    assert "I moved to Porto with my whole family." in episode.text
    assert episode.title == "Ann: I moved to Porto with my whole family"


def test_what_an_assistant_says_is_no_episode() -> None:
    assert extract_without_model(cell_of(("assistant", "Porto is a lovely city in the north."))).drafts == ()


def test_each_is_told_by_who_said_it() -> None:
    cell = cell_of(
        ("user", "We are moving to Porto soon."),
        turn_of(2, "user", "I will help you with that.", sender="bob"),
    )
    (episode,) = extract_without_model(cell).drafts
    assert episode.text.split("\n")[1:] == [
        "Ann: We are moving to Porto soon.",
        "bob: I will help you with that.",
    ]
