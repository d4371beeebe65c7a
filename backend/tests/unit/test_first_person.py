"""What a model copied in the first person is told of the one who said it."""

import pytest

from recollect.domain.extraction.first_person import told_of


@pytest.mark.parametrize(
    ("copied", "told"),
    [
        ("I live in Berlin.", "Ann lives in Berlin."),
        ("I'm a nurse", "Ann is a nurse."),
        ("I\u2019ve lived in Berlin since 2015.", "Ann has lived in Berlin since 2015."),
        ("My sister Marta lives in Porto.", "Marta, Ann's sister, lives in Porto."),
        ("My dog's name is Rex.", "Ann's dog's name is Rex."),
        ("I can't swim.", "Ann cannot swim."),
        ("I don't like my job.", "Ann does not like Ann's job."),
        ("我住在柏林。", "Ann 住在柏林。"),
        ("我的狗叫旺财。", "Ann 的狗叫旺财。"),
    ],
)
def test_the_speaker_is_named(copied: str, told: str) -> None:
    assert told_of("Ann", copied) == told


@pytest.mark.parametrize(
    "text",
    [
        "Ann likes cake.",
        "I told him about it.",
        "I like tea, and I hate coffee.",
        "I, Robot is a book.",
        "我们住在柏林。",
        "",
    ],
)
def test_whatever_takes_more_than_a_name_stays_as_it_is(text: str) -> None:
    assert told_of("Ann", text) == text
