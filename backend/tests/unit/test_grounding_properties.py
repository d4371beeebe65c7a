"""What holds for every statement: what nobody said is refused, what somebody said is kept, and nothing takes long."""

import time

from hypothesis import assume, example, given
from hypothesis import strategies as st

from recollect.domain.extraction.draft import CellText, Extraction
from recollect.domain.extraction.grounding import ground
from tests.unit.awkward_text import texts, unhurried
from tests.unit.made_cells import cell_of, grounded, refusal, said, statement

BERLIN = said("I live in Berlin and my dog Rex is 3 years old.")


_NAMES = st.from_regex(r"[A-Z][a-z]{3,9}", fullmatch=True)
_PLACES = (
    "{name} lives in Berlin.",
    "Ann lives in Berlin with {name}.",
    "Ann's dog {name} is 3 years old.",
    "Ann saw {name}",
)


@unhurried
@given(_NAMES, st.sampled_from(_PLACES))
def test_a_name_that_is_in_no_turn_is_always_refused(name: str, text: str) -> None:
    assume(
        name.lower()
        not in ("this", "that", "there", "with", "then", "when", "here", "what", "some", "each", "both")
    )
    reason = refusal(BERLIN, statement(text.format(name=name)))
    known = name.lower() in ("berlin", "live", "years", "lives", "year")
    assert known or reason is not None


@unhurried
@given(st.integers(0, 10**9), st.sampled_from(["Ann's dog Rex is {} years old.", "Ann lives in Berlin {}."]))
def test_a_number_that_is_in_no_turn_is_always_refused(number: int, text: str) -> None:
    assume(number not in (3, 2026))
    assert refusal(BERLIN, statement(text.format(number))) is not None


_WORDS = st.sampled_from(
    [
        "I",
        "my",
        "live",
        "love",
        "dog",
        "Rex",
        "Berlin",
        "3",
        "1,000",
        "twenty",
        "five",
        "yesterday",
        "May",
        "8",
        "2019",
        "Monday",
        "10:30",
        "a.m.",
        "the",
        "of",
        "nurse",
        "NASA",
        "O'Neil",
        "Jean-Luc",
        "don't",
        "would",
        "tea",
        "咖啡",
        "东京",
        "三",
        "Москва",
        "Αθήνα",
        "ياسمين",
        "สวัสดี",
        "e-mail",
        "3.5",
        "(really)",
        "“so”",
        "\u2013",
        "&",
        "é",
    ]
)
_SENTENCES = st.lists(_WORDS, min_size=1, max_size=12).map(lambda words: " ".join(words) + ".")


def test_a_number_at_the_end_of_a_sentence_is_not_joined_with_the_next() -> None:
    assert refusal(said("Ann is twenty. Five cats are hers."), statement("Ann is twenty.")) is None


@unhurried
@given(st.lists(_SENTENCES, min_size=1, max_size=4), st.data())
def test_a_copy_of_a_persons_sentence_is_always_kept(sentences: list[str], data: st.DataObject) -> None:
    sentence = data.draw(st.sampled_from(sentences))
    assume(any(character.isalnum() for character in sentence))
    assert refusal(said(" ".join(sentences)), statement(sentence)) is None


@unhurried
@example("\u00b4\u023e")
@example("I met \u00b4Tom\u00b4.")
@example("\u0186\u1ab0")
@given(texts)
def test_a_copy_of_a_whole_message_is_kept_whatever_it_holds(text: str) -> None:
    plain = " ".join(text.split())
    assume(any(character.isalpha() for character in plain))
    assume(not plain.startswith(">") and "```" not in plain and "~~~" not in plain)
    asks = plain.endswith(("?", "\uff1f"))
    assert refusal(said(plain), statement(plain)) == ("it is a question" if asks else None)


@unhurried
@given(texts, texts, st.sampled_from(["facts", "foresight", "episodes"]))
def test_no_text_makes_grounding_fail(words: str, text: str, kind: str) -> None:
    result = grounded(said(words), statement(text or "x", kind=kind))  # type: ignore[arg-type]
    assert len(result.drafts) <= 1


def test_huge_turns_take_no_time() -> None:
    words = "I live in Berlin, yesterday I went to 3 places. " * 20_000
    cell = cell_of(("user", words), ("user", words), ("user", words))
    facts = tuple(statement(f"Ann lives in Berlin {n}.", 1, 2, 3) for n in range(20))
    started = time.monotonic()
    ground(Extraction(facts), cell)
    assert time.monotonic() - started < 5


def test_the_same_cell_gives_the_same_result() -> None:
    drafts = (statement("Ann lives in Berlin."), statement("Zelda sings."))
    cell: CellText = BERLIN
    assert grounded(cell, *drafts) == grounded(cell, *drafts)
