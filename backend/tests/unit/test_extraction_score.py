"""The labelled dialogues, and how extraction does on them."""

from importlib.resources import files

import pytest

from recollect.memory.extraction.draft import Draft, Extraction
from recollect.memory.extraction.rules import extract_by_rules
from recollect.memory.extraction.score import ExtractionScore, LabelledDialogue, read_dialogues, score


@pytest.fixture(scope="module")
def dialogues() -> tuple[LabelledDialogue, ...]:
    return read_dialogues((files("recollect") / "data" / "extraction-dialogues.jsonl").read_text("utf-8"))


def by_rules(dialogues: tuple[LabelledDialogue, ...]) -> ExtractionScore:
    return score(dialogues, {each.dialogue_id: extract_by_rules(each.cell) for each in dialogues})


def wrong_ones(result: ExtractionScore) -> list[tuple[str, str]]:
    return [(each.dialogue_id, each.draft.text) for each in result.judged if not each.is_right]


def test_there_are_thirty_dialogues_in_two_languages(dialogues: tuple[LabelledDialogue, ...]) -> None:
    languages = [each.language for each in dialogues]
    assert [languages.count(language) for language in ("en", "zh", "mixed")] == [18, 10, 2]
    assert len({each.dialogue_id for each in dialogues}) == 30
    assert sum(each.held_out for each in dialogues) == 10


def test_rules_are_right_nine_times_of_ten(dialogues: tuple[LabelledDialogue, ...]) -> None:
    result = by_rules(dialogues)
    assert result.precision >= 0.9, wrong_ones(result)
    assert result.recall >= 0.6, result.missed


def test_rules_are_as_right_on_dialogues_they_were_not_written_for(
    dialogues: tuple[LabelledDialogue, ...],
) -> None:
    result = by_rules(tuple(each for each in dialogues if each.held_out))
    assert result.precision >= 0.9, wrong_ones(result)


@pytest.fixture
def moving(dialogues: tuple[LabelledDialogue, ...]) -> LabelledDialogue:
    return next(each for each in dialogues if each.dialogue_id == "moving-house")


def judged(dialogue: LabelledDialogue, draft: Draft) -> bool:
    (only,) = score([dialogue], {dialogue.dialogue_id: Extraction((draft,))}).judged
    return only.is_right


def fact(text: str, subject: str = "Ann") -> Draft:
    return Draft("facts", text, text, 0, ("t-1",), subject=subject, attribute="other")


def test_another_wording_of_what_was_said_is_right(moving: LabelledDialogue) -> None:
    assert judged(moving, fact("Ann's home is in Berlin."))


def test_what_was_only_supposed_is_wrong(moving: LabelledDialogue) -> None:
    assert not judged(moving, fact("Ann lives in Portugal."))


def test_what_is_true_of_somebody_else_is_wrong(moving: LabelledDialogue) -> None:
    assert not judged(moving, fact("Marta lives in Berlin.", subject="Marta"))


def test_a_plan_on_the_wrong_day_is_wrong(moving: LabelledDialogue) -> None:
    text = "Ann flies to Lisbon on 4 June 2026."
    day = 1_780_531_200_000
    plan = Draft("foresight", text, text, 0, ("t-3",), subject="Ann", about=(day, day + 86_400_000))
    assert not judged(moving, plan)


def test_nothing_extracted_is_precise_and_recalls_nothing(moving: LabelledDialogue) -> None:
    result = score([moving], {})
    assert (result.precision, result.recall) == (1.0, 0.0)
