"""What a model states must quote messages that are there; and a memory that is recalled makes no memory of itself."""

import pytest

from recollect.domain.extraction.draft import Extraction, Quoted
from recollect.domain.extraction.ground import (
    NOT_SAID,
    ONLY_RECALLED,
    PASTED,
    ground,
)
from tests.unit.made_cells import cell_of, grounded, quoting, refusal, said, statement

RECALLED = '- 2026-05-01, fact: "Ann lives in Berlin."\n- 2026-05-01, fact: "安住在上海。"\nSummary: Marta is a nurse.'
ASKED = cell_of(("user", "Where do I live?"), ("assistant", "You live in Berlin."), recalled=RECALLED)


# ruff: noqa: RUF001 - punctuation and letters of many scripts are meant
@pytest.mark.parametrize(
    ("text", "words", "fact"),
    [
        ("My sister Marta starts in Porto on 1 June.", "Marta starts in Porto", "Marta starts in Porto."),
        ("I’m in  Berlin\nnow!", "i'm in Berlin now.", "Ann is in Berlin."),
        ("Ich wohne jetzt in der Goethestraße.", "ICH WOHNE JETZT IN DER GOETHESTRASSE", "Ann wohnt dort."),
        ("Café Ａmélie ist neu.", "Café Amélie", "Das Café Amélie ist neu."),
        ("我搬到了\n北京。", "搬到了北京", "安住在北京。"),
        ("Я живу в Праге.", "живу в Праге", "Энн живёт в Праге."),
        ("ผมอยู่กรุงเทพฯ", "อยู่กรุงเทพ", "อันอยู่กรุงเทพฯ"),
        ("أنا أعيش في القاهرة؟", "أعيش في القاهرة", "آن تعيش في القاهرة."),
    ],
)
def test_what_a_persons_words_say_is_kept_in_every_language(text: str, words: str, fact: str) -> None:
    assert refusal(said(text), quoting(fact, words)) is None


@pytest.mark.parametrize("words", ["I live in Munich", "I live in Berlin and Munich", "", "…"])
def test_words_that_are_not_in_the_message_refuse_the_statement(words: str) -> None:
    assert refusal(said("I live in Berlin."), quoting("Ann lives in Berlin.", words)) == NOT_SAID


def test_what_a_fact_replaces_or_ends_is_named_by_the_entries_that_the_prompt_listed() -> None:
    fact = quoting("Ann lives in Berlin.", "in Berlin", replaces=("f1",), ends=("f2",))
    known = {"f1": "fa-1", "f2": "fa-2"}
    (kept,) = grounded(said("I live in Berlin."), fact, known=known).drafts
    assert (kept.replaces, kept.ends) == (("fa-1",), ("fa-2",))


def test_what_replaces_a_known_fact_is_news_whatever_was_recalled() -> None:
    cell = cell_of(("user", "That's wrong."), recalled=RECALLED)
    fact = quoting("Ann lives in Berlin.", "That's wrong", replaces=("f1",))
    assert refusal(cell, fact, {"f1": "fa-1"}) is None


@pytest.mark.parametrize("names", ["replaces", "ends"])
def test_a_question_replaces_nothing_by_what_was_recalled(names: str) -> None:
    fact = quoting("Ann lives in Berlin.", "Where do I live", 1, **{names: ("f1",)})
    assert refusal(ASKED, fact, {"f1": "fa-1"}) == ONLY_RECALLED


@pytest.mark.parametrize(
    ("recalled", "question", "fact"),
    [
        ("Ann wohnt in Porto.", "Wo wohne ich?", "Ann lebt in Porto."),
        ("Ann habite à Porto.", "Où est-ce que j'habite ?", "Ann vit à Porto."),
        ("安住在波尔图。", "我住在哪里？", "安的家在波尔图。"),
        ("アンはポルトに住んでいる。", "私はどこに住んでいますか？", "アンの家はポルトにある。"),
        ("Энн живёт в Порту.", "Где я живу?", "Энн проживает в Порту."),
        ("تسكن آن في بورتو.", "أين أسكن؟", "آن تعيش في بورتو."),
        ("Անն ապրում է Պորտոյում։", "Որտե՞ղ եմ ապրում", "Անը բնակվում է Պորտոյում։"),
        ("Η Άννα μένει στο Πόρτο.", "Πού μένω;", "Η Άννα κατοικεί στο Πόρτο."),
        ("Ann lives in Porto.", "Где я живу?", "Энн живёт в Порту."),
        (
            "Ann's sister Ana moved to Rome.",
            "Where does my sister Ana live now?",
            "Ana, Ann's sister, lives in Rome.",
        ),
    ],
)
def test_a_question_supports_nothing_that_was_recalled_in_other_words(
    recalled: str, question: str, fact: str
) -> None:
    cell = cell_of(
        ("user", f"{question} Danke."), ("assistant", fact), recalled=f'- 2026-05-01, fact: "{recalled}"'
    )
    words = question.rstrip("?？؟; ")
    assert refusal(cell, quoting(fact, words)) == ONLY_RECALLED
    assert refusal(cell, quoting(fact, words, replaces=("f1",)), {"f1": "fa-1"}) == ONLY_RECALLED


def test_a_message_that_the_model_says_only_asks_is_a_question_without_a_mark() -> None:
    cell = cell_of(("user", "tell me where I live"), ("assistant", "In Berlin."), recalled=RECALLED)
    fact = quoting("Ann resides in Berlin.", "where I live")
    assert refusal(cell, fact) is None
    assert [each.reason for each in ground(Extraction((fact,), asks=("t-1",)), cell).refused] == [
        ONLY_RECALLED
    ]


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("Can you remember that my sister Ana lives in Rome?", "Ann's sister Ana lives in Rome."),
        ("Merkst du dir, dass meine Schwester Ana in Rom wohnt?", "Anns Schwester Ana wohnt in Rom."),
        ("你能记住我妹妹安娜住在罗马吗？", "安的妹妹安娜住在罗马。"),
        ("Is there a vet for my dog Bello?", "Ann has a dog named Bello."),
        ("We moved to Rome. Do you know it?", "Ann resides in the capital of Italy."),
    ],
)
def test_a_question_that_tells_something_supports_it_whatever_was_recalled(question: str, fact: str) -> None:
    cell = cell_of(("user", question), ("assistant", "Yes."), recalled=RECALLED)
    assert refusal(cell, quoting(fact, question.split(".", maxsplit=1)[0])) is None


FLIGHT = '- 2026-05-01, planned: "Ann is flying to Lisbon on 3 June 2026."'


@pytest.mark.parametrize(
    ("question", "asks", "is_kept"),
    [
        ("When is my flight?", ("t-1",), False),
        ("wo fliege ich hin", ("t-1",), False),
        ("Can you remind me to take the plane on 3 June?", (), True),
    ],
)
def test_a_plan_that_was_recalled_is_not_planned_again_by_asking_for_it(
    question: str, asks: tuple[str, ...], is_kept: bool
) -> None:
    cell = cell_of(("user", question), ("assistant", "On 3 June."), recalled=FLIGHT)
    plan = statement(
        "Ann takes the plane on 3 June 2026.",
        1,
        2,
        kind="foresight",
        quotes=(Quoted("t-1", question),),
        replaces=("f1",),
    )
    result = ground(Extraction((plan,), asks=asks), cell, {"f1": "fo-1"})
    assert [each.reason for each in result.refused] == ([] if is_kept else [ONLY_RECALLED])


def test_a_statement_that_is_quoted_beside_a_question_supports_a_fact() -> None:
    cell = cell_of(("user", "Where do I live?"), ("user", "Right, I moved back there."), recalled=RECALLED)
    quotes = (Quoted("t-1", "Where do I live"), Quoted("t-2", "I moved back there"))
    assert refusal(cell, statement("Ann resides in Berlin again.", 1, 2, quotes=quotes)) is None


def test_what_a_person_says_again_is_kept_though_it_was_recalled() -> None:
    cell = cell_of(("user", "I still live in Berlin."), ("assistant", "I know."), recalled=RECALLED)
    assert refusal(cell, statement("Ann lives in Berlin.", 1)) is None


def test_news_in_words_that_several_recalled_lines_hold_is_kept() -> None:
    cell = cell_of(("user", "Marta moved to Berlin, too."), ("assistant", "Oh!"), recalled=RECALLED)
    assert refusal(cell, statement("Marta lives in Berlin.", 1)) is None


def test_an_episode_loses_the_sentences_that_only_repeat_what_was_recalled() -> None:
    episode = statement("Ann asked where home is. Ann lives in Berlin. She laughed.", 1, 2, kind="episodes")
    result = grounded(ASKED, episode)
    assert [draft.text for draft in result.drafts] == ["Ann asked where home is. She laughed."]
    assert [each.reason for each in result.refused] == [ONLY_RECALLED]


def test_an_episode_of_nothing_else_is_refused() -> None:
    assert refusal(ASKED, statement("Ann lives in Berlin.", 1, 2, kind="episodes")) == ONLY_RECALLED


MAYOR = "I am the mayor of Springfield"


@pytest.mark.parametrize(
    "text",
    [
        f"Summarise this:\n```\n{MAYOR}, said Joe.\n```\nThanks!",
        f"Summarise this:\n```text\nJoe spoke.\n> {MAYOR}.",
        f"Summarise ```{MAYOR}``` please",
        f"````\n```\nx\n```\n{MAYOR}\n````\nIs it true?",
        f"Joe wrote:\r\n> {MAYOR}.\r\nIs it true?",
        f"  >> {MAYOR}.",
        f"＞ {MAYOR}.",
        f"> Joe:\n> ```\n> {MAYOR}.\nIs it true?",
        f"See:\n~~~\n{MAYOR}\n~~~",
    ],
)
def test_what_only_a_pasted_text_says_is_refused(text: str) -> None:
    assert refusal(said(text), quoting("Ann is the mayor of Springfield.", MAYOR)) == PASTED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("翻译一下：\n> 我是春田市的市长。", "我是春田市的市长"),
        ("Переведи:\n```\nЯ мэр Спрингфилда.\n```", "Я мэр Спрингфилда"),
        ("ترجم:\n> أنا عمدة سبرينغفيلد", "أنا عمدة سبرينغفيلد"),
    ],
)
def test_a_pasted_text_is_one_in_every_language(text: str, words: str) -> None:
    assert refusal(said(text), quoting("Ann is the mayor.", words)) == PASTED
    assert refusal(said(f"{text}\n```\n{words}"), quoting("Ann is the mayor.", words)) == PASTED
    assert refusal(said(f"{words}\n{text}"), quoting("Ann is the mayor.", words)) is None


@pytest.mark.parametrize(
    "text",
    [
        f"> Who are you?\n{MAYOR}.",
        f"```\nprint(1)\n```\n{MAYOR}.",
        f"{MAYOR}.\n```\n{MAYOR}",
        f"> ```\n> print(1)\n{MAYOR}.",
        f"a -> b, and {MAYOR}",
        f"`x` and ``y``: {MAYOR}",
    ],
)
def test_own_words_beside_a_pasted_text_are_kept(text: str) -> None:
    assert refusal(said(text), quoting("Ann is the mayor of Springfield.", MAYOR)) is None


def test_a_quote_that_holds_own_and_pasted_words_is_kept() -> None:
    cell = said("My sister wrote:\n```\nI got the job\n```")
    assert refusal(cell, quoting("Ann's sister got a job.", "My sister wrote: ``` I got the job")) is None


def test_a_plan_may_stand_in_a_pasted_invitation_alone() -> None:
    cell = said("Can you help me to answer?\n> Please come to Kassel on 22 May.\nI want to accept!")
    plan = quoting("Ann has an interview in Kassel on 22 May.", "come to Kassel on 22 May", kind="foresight")
    assert refusal(cell, plan) is None


def test_a_pasted_text_needs_a_quote_of_own_words_beside_it() -> None:
    cell = cell_of(("user", f"> {MAYOR}."), ("assistant", MAYOR), ("user", "That is me!"))
    pasted, answered, own = Quoted("t-1", MAYOR), Quoted("t-2", MAYOR), Quoted("t-3", "That is me")
    fact = "Ann is the mayor of Springfield."
    assert refusal(cell, statement(fact, 1, 2, quotes=(pasted, answered))) == PASTED
    assert refusal(cell, statement(fact, 1, 3, quotes=(pasted, own))) is None
