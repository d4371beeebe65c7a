"""What a person changes in an entry is theirs; what they don't name stays."""

from dataclasses import replace

import pytest

from recollect.domain.entries import edit
from recollect.domain.entries.edit import EntryEdit
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.markdown.revision import as_theirs
from recollect.domain.recall.rows import corrected_at
from tests.unit.made_entries import DAY, WHEN, known

NOW = WHEN + 9 * DAY


def edited(entry: KnownEntry, change: EntryEdit) -> KnownEntry:
    return edit.edited(entry, change, NOW)


def test_confirming_the_words_as_they_are_makes_them_a_persons() -> None:
    assert edited(known(), EntryEdit(text="Ann lives in Berlin.")).is_edited


def test_when_alone_can_be_corrected_and_the_words_are_no_correction_of_now() -> None:
    before = known(turns=("t-1",))
    changed = edited(before, EntryEdit(when=WHEN - 1))
    assert (changed.entry.when, changed.entry.text) == (WHEN - 1, "Ann lives in Berlin.")
    assert (changed.is_edited, changed.said, corrected_at(changed.entry)) == (True, WHEN, 0)
    by_hand = as_theirs(replace(before.entry, when=WHEN - 1), before.entry, NOW)
    assert by_hand == changed.entry
    assert edited(changed, EntryEdit(when=NOW)).said == WHEN, "however often it is dated"
    assert edited(changed, EntryEdit(text="Ann lives in Porto.")).said == NOW
    reworded = edited(before, EntryEdit(text="Ann lives in Porto."))
    assert edited(reworded, EntryEdit(when=WHEN - 1)).said == NOW, "which they stay once they are"


class TestOfTitleAndText:
    def test_where_they_are_the_same_one_changes_the_other(self) -> None:
        by_text = edited(known(), EntryEdit(text="Ann lives in Porto."))
        by_title = edited(known(), EntryEdit(title="Ann lives in Porto."))
        assert by_text.entry == by_title.entry
        assert by_text.entry.title == by_text.entry.text == "Ann lives in Porto."

    def test_where_they_differ_each_is_its_own(self) -> None:
        episode = known(title="The move")
        assert edited(episode, EntryEdit(text="She moved.")).entry.title == "The move"
        assert edited(episode, EntryEdit(title="Moving")).entry.text == "Ann lives in Berlin."

    def test_a_title_that_follows_a_text_is_its_first_line(self) -> None:
        changed = edited(known(), EntryEdit(text="\nAnn lives in Porto.\nSince May."))
        assert changed.entry.title == "Ann lives in Porto."


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (EntryEdit(title="x", text="secret"), "title and text changed by a person"),
        (EntryEdit(when=1, pinned=True), "when changed by a person, pinned"),
        (EntryEdit(pinned=False), "unpinned"),
    ],
)
def test_a_cause_says_what_was_changed_and_quotes_nothing(edit: EntryEdit, words: str) -> None:
    assert edit.in_words == words
