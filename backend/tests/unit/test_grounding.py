"""A statement is kept where the words of the turns that it cites support it, and refused with a reason where not."""

from dataclasses import replace

import pytest

from recollect.domain.extraction.draft import Draft, Extraction, Refused
from recollect.domain.extraction.grounding import (
    NO_PERSON,
    NO_TURN,
    OTHER_WORDS,
    QUESTION,
    TURNED_ROUND,
    UNKNOWN_TURN,
    UNTOLD_NAME,
    UNTOLD_NUMBER,
    UNTOLD_TIME,
    ground,
)
from tests.unit.made_cells import NOON, cell_of, grounded, refusal, said, statement, turn_of

BERLIN = said("I live in Berlin and my dog Rex is 3 years old.")
CHINESE = said("我昨天和小明去了东京，我在一家银行做软件工程师，有两个孩子。")  # noqa: RUF001


# What is cited


def test_a_statement_that_cites_nothing_is_refused() -> None:
    assert refusal(BERLIN, replace(statement("Ann lives in Berlin."), turn_ids=())) == NO_TURN


@pytest.mark.parametrize("kind", ["facts", "foresight", "episodes"])
def test_a_statement_that_cites_a_turn_of_another_cell_is_refused(kind: str) -> None:
    assert refusal(BERLIN, statement("Ann lives in Berlin.", 1, 7, kind=kind)) == UNKNOWN_TURN  # type: ignore[arg-type]


def test_a_fact_that_cites_an_assistant_alone_is_refused() -> None:
    cell = cell_of(("user", "Where do I live?"), ("assistant", "You live in Berlin."))
    assert refusal(cell, statement("Ann lives in Berlin.", 2)) == NO_PERSON


@pytest.mark.parametrize("question", ["Where does Ann live?", "Ann 住在哪里？"])  # noqa: RUF001
def test_a_question_is_no_fact(question: str) -> None:
    assert refusal(cell_of(("user", question)), statement(question)) == QUESTION


def test_only_the_cited_turns_count() -> None:
    cell = cell_of(("user", "I live in Berlin."), ("user", "I like tea."))
    assert refusal(cell, statement("Ann lives in Berlin.", 1)) is None
    assert refusal(cell, statement("Ann lives in Berlin.", 2)) == UNTOLD_NAME


# Names and numbers


@pytest.mark.parametrize(
    "text",
    [
        "Ann lives in Berlin.",
        "Ann's dog is called Rex.",
        "Ann has a dog named Rex.",
        "Ann's dog Rex is three years old.",
        "ANN has a dog, Rex, that is 3.",
    ],
)
def test_what_was_said_is_kept_in_other_words_too(text: str) -> None:
    assert refusal(BERLIN, statement(text)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Ann lives in Paris.", UNTOLD_NAME),
        ("Zelda lives in Berlin.", UNTOLD_NAME),
        ("Ann lives in Berlin with BMW.", UNTOLD_NAME),
        ("Ann lives in Berlin-Mitte.", UNTOLD_NAME),
        ("Ann's dog Rex is four years old.", UNTOLD_NUMBER),
        ("Ann's dog Rex is 33 years old.", UNTOLD_NUMBER),
        ("Ann's dog Rex weighs 3.5 years.", UNTOLD_NUMBER),
        ("Ann enjoys long walks along the canal.", OTHER_WORDS),
        ("Ann lives with turtles.", OTHER_WORDS),
        ("Ann's dog Rex was born in 2023.", UNTOLD_TIME),
        ("...", OTHER_WORDS),
    ],
)
def test_what_was_not_said_is_refused(text: str, reason: str) -> None:
    assert refusal(BERLIN, statement(text)) == reason


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("I have twenty-five hats.", "Ann has 25 hats."),
        ("I have 25 hats.", "Ann has twenty-five hats."),
        ("I earn 1,000 euros.", "Ann earns 1000 euros."),
        ("我有两只猫。", "Ann有2只猫。"),
        ("我有二十五顶帽子。", "Ann有25顶帽子。"),
        ("I get up at 3 pm.", "Ann gets up at 15:00."),
        ("My number is 030 1234567.", "Ann's number is 030 1234567."),
    ],
)
def test_a_number_is_the_same_however_it_is_written(words: str, text: str) -> None:
    assert refusal(said(words), statement(text)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Ann在一家银行做软件工程师。", None),
        ("Ann有两个孩子。", None),
        ("Ann于2026年5月7日和小明去了东京。", None),
        ("Ann在一家医院做软件工程师。", UNTOLD_NAME),
        ("Ann和李华去了东京。", UNTOLD_NAME),
        ("Ann有三个孩子。", UNTOLD_NUMBER),
        ("Ann于2026年4月2日去了东京。", UNTOLD_TIME),
    ],
)
def test_chinese_statements_are_held_against_their_characters(text: str, reason: str | None) -> None:
    assert refusal(CHINESE, statement(text)) == reason


@pytest.mark.parametrize(
    ("words", "kept", "refused"),
    [
        ("Я живу в Москве.", "Ann живёт в Москве.", "Ann живёт в Киеве."),
        ("Μένω στην Αθήνα.", "Ann μένει στην Αθήνα.", "Ann μένει στην Πάτρα."),
        ("أنا أسكن في برلين مع أختي", "Ann تسكن في برلين مع أختي", "Ann تعمل في لندن"),
        ("ผมอยู่ที่กรุงเทพ", "Ann อยู่ที่กรุงเทพ", "Ann ทำงานในลอนดอน"),
    ],
)
def test_other_scripts_are_held_against_their_words(words: str, kept: str, refused: str) -> None:
    assert refusal(said(words), statement(kept)) is None
    assert refusal(said(words), statement(refused)) is not None


def test_a_value_that_names_something_else_is_refused_and_another_word_for_it_is_left_out() -> None:
    cell = said("I don't eat meat.")
    text = "Ann does not eat meat."
    assert refusal(cell, statement(text, value="Tofu Palace")) == UNTOLD_NAME
    assert grounded(cell, statement(text, value="vegetarian")).drafts[0].value == ""
    assert grounded(cell, statement(text, value="no meat")).drafts[0].value == "no meat"


def test_a_chinese_value_that_was_not_said_is_refused() -> None:
    assert refusal(CHINESE, statement("Ann去了东京。", value="北京")) is not None


def test_a_fact_about_somebody_who_was_not_named_is_refused() -> None:
    assert refusal(BERLIN, statement("lives in Berlin", subject="Zelda")) == UNTOLD_NAME


def test_what_one_person_said_of_themself_is_no_fact_about_another() -> None:
    cell = cell_of(("user", "I live in Berlin."), turn_of(2, "user", "I live in Oslo.", sender="Bob"))
    assert refusal(cell, statement("Bob lives in Oslo.", 2)) is None
    assert refusal(cell, statement("Bob lives in Berlin.", 1)) == UNTOLD_NAME
    assert refusal(cell, statement("Ann lives in Oslo.", 2)) == UNTOLD_NAME


# Times


@pytest.mark.parametrize(
    ("words", "date", "is_told"),
    [
        ("I adopted a dog yesterday.", "on 7 May 2026", True),
        ("I adopted a dog yesterday.", "on Thursday, 7 May 2026", True),
        ("I adopted a dog yesterday.", "on 6 May 2026", False),
        ("I adopted a dog two weeks ago.", "around 24 April 2026", True),
        ("I adopted a dog last month.", "in April 2026", True),
        ("I adopted a dog last month.", "in March 2026", False),
        ("I adopted a dog in 2019.", "in 2019", True),
        ("I adopted a dog in 2019.", "in 2018", False),
        ("I adopted a dog on 3 June.", "on 3 June 2025", True),
        ("I adopted a dog on 3 June.", "on 4 June 2025", False),
        ("I adopted a dog on 3 June.", "on 3 June 2019", False),
        ("I adopted a dog.", "on 8 May 2026", True),
        ("I adopted a dog.", "on 1 May 2026", False),
        ("J'ai adopté a dog hier.", "on 2026-05-07", True),
        ("J'ai adopté a dog hier.", "on 2026-03-07", False),
    ],
)
def test_a_date_has_to_follow_from_what_was_said_and_when(words: str, date: str, is_told: bool) -> None:
    expected = None if is_told else UNTOLD_TIME
    assert refusal(said(words), statement(f"Ann adopted a dog {date}.")) == expected


def test_the_calendar_is_that_of_the_user() -> None:
    late = cell_of(("user", "I adopted a dog yesterday."), time_zone="Pacific/Auckland")
    assert refusal(late, statement("Ann adopted a dog on 8 May 2026.")) is None


def test_a_plan_is_about_a_time_that_follows_from_what_was_said() -> None:
    cell = said("I fly to Lisbon on 3 June.")
    day = 86_400_000
    third_of_june = NOON + 26 * day
    plan = statement("Ann flies to Lisbon.", kind="foresight", about=(third_of_june, third_of_june + 1))
    assert refusal(cell, plan) is None
    later = replace(plan, about=(third_of_june + 90 * day, third_of_june + 91 * day))
    assert refusal(cell, later) == UNTOLD_TIME


# Episodes


def test_an_episode_loses_the_sentences_that_nobody_said() -> None:
    text = "Ann lives in Berlin. Bob gave her the dog. Her dog Rex is 3 years old."
    result = grounded(BERLIN, statement(text, kind="episodes"))
    assert [draft.text for draft in result.drafts] == ["Ann lives in Berlin. Her dog Rex is 3 years old."]
    assert result.refused == (Refused("episodes", UNTOLD_NAME),)


def test_an_episode_with_a_title_that_nobody_said_is_called_by_its_first_sentence() -> None:
    draft = Draft("episodes", "Zelda in Paris", "Ann lives in Berlin.", NOON, ("t-1",))
    assert [kept.title for kept in grounded(BERLIN, draft).drafts] == ["Ann lives in Berlin"]


def test_an_episode_that_nobody_said_is_refused() -> None:
    result = grounded(BERLIN, statement("Bob went to Oslo. Eve stayed.", kind="episodes"))
    assert result == Extraction((), (Refused("episodes", UNTOLD_NAME),) * 2)


def test_an_episode_may_tell_what_an_assistant_said() -> None:
    cell = cell_of(("user", "Where can I swim?"), ("assistant", "Try the lake at Wannsee."))
    text = "Ann asked where she can swim, and the assistant suggested the lake at Wannsee."
    assert len(grounded(cell, statement(text, 1, 2, kind="episodes")).drafts) == 1


# In all


def test_refusals_of_before_are_kept_and_never_quote() -> None:
    before = Refused("facts", "there are more than 20")
    result = ground(Extraction((statement("Zelda sings."),), (before,)), BERLIN)
    assert result.refused == (before, Refused("facts", UNTOLD_NAME))


@pytest.mark.parametrize(
    ("words", "text", "is_kept"),
    [
        ("I can swim.", "Ann cannot swim.", False),
        ("I have a dog.", "Ann no longer has a dog.", False),
        ("I'm allergic to nuts.", "Ann is not allergic to nuts.", False),
        ("我对花生过敏。", "Ann 对花生不过敏。", False),
        ("I used to live in Berlin.", "Ann lives in Berlin.", False),
        ("我以前住在北京。", "Ann 住在北京。", False),
        ("Do I live in Berlin?", "Ann lives in Berlin.", False),
        ("Maybe I'll move to Berlin.", "Ann moved to Berlin.", False),
        ("My dog Rex died.", "Ann no longer has a dog named Rex.", True),
        ("I gave my dog Rex away.", "Ann no longer has a dog named Rex.", True),
        ("I hate coffee.", "Ann does not like coffee.", True),
        ("I used to live in Berlin.", "Ann lived in Berlin.", True),
        ("I got used to living in Berlin.", "Ann lives in Berlin.", True),
        ("我以前住在北京。", "Ann 曾住在北京。", True),
    ],
)
def test_what_turns_a_message_round_is_refused(words: str, text: str, is_kept: bool) -> None:
    assert refusal(said(words), statement(text)) == (None if is_kept else TURNED_ROUND)


@pytest.mark.parametrize("name", ["௳AB", "\u00b4AB"])
def test_a_name_behind_a_sign_that_is_no_letter_is_known(name: str) -> None:
    assert refusal(said(name), statement(name)) is None


def test_a_name_with_accents_that_stand_apart_is_known() -> None:
    assert (
        refusal(said("My brother Adébáyọ̀la lives in Lagos."), statement("Adébáyọ̀la lives in Lagos.")) is None
    )
