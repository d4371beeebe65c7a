"""When files that are gone are asked about, and when they are restored or let go one by one."""

import pytest

from recollect.domain.vault_file import loss_in_words


@pytest.mark.parametrize(
    ("transcripts", "notes", "gone_transcripts", "gone_notes"),
    [
        (10, 0, 0, 0),
        (2, 0, 1, 0),
        (0, 2, 0, 1),
        (3, 0, 2, 0),
        (0, 2, 0, 2),
        (16, 0, 3, 0),
        (100, 100, 20, 19),
    ],
)
def test_a_few_files_are_no_reason_to_ask(
    transcripts: int, notes: int, gone_transcripts: int, gone_notes: int
) -> None:
    assert loss_in_words(transcripts, notes, gone_transcripts, gone_notes) is None


@pytest.mark.parametrize(
    ("transcripts", "notes", "gone_transcripts", "gone_notes"),
    [(1, 0, 1, 0), (1, 1, 1, 1), (15, 0, 3, 0), (0, 15, 0, 3), (5, 5, 1, 2), (100, 100, 20, 20)],
)
def test_a_fifth_of_the_files_or_the_last_transcript_is_asked_about(
    transcripts: int, notes: int, gone_transcripts: int, gone_notes: int
) -> None:
    assert loss_in_words(transcripts, notes, gone_transcripts, gone_notes) is not None


def test_the_question_says_how_many_and_what_to_do() -> None:
    words = loss_in_words(1000, 530, 400, 12)
    assert words is not None
    assert words.startswith("412 of 1,530 files vanished from the vault at once; nothing was deleted.")
    assert "recollect verify --repair" in words
