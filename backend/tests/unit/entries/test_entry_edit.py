"""What a person changes in an entry is theirs; what they don't name stays. And what an undo restores, and keeps."""

from dataclasses import replace

import pytest

from recollect.domain.entries import edit
from recollect.domain.entries.edit import EntryEdit
from recollect.domain.entries.entry import Actor, EntryVersion, KnownEntry, Source
from recollect.domain.markdown.revision import as_theirs
from recollect.domain.model import Entry
from recollect.domain.recall.rows import corrected_at
from recollect.errors import InvalidInput
from tests.unit.made_entries import DAY, WHEN, entry, known

NOW = WHEN + 9 * DAY


def edited(before: KnownEntry, change: EntryEdit) -> KnownEntry:
    return edit.edited(before, change, NOW)


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
    ("change", "words"),
    [
        (EntryEdit(title="x", text="secret"), "title and text changed by a person"),
        (EntryEdit(when=1, pinned=True), "when changed by a person, pinned"),
        (EntryEdit(pinned=False), "unpinned"),
    ],
)
def test_a_cause_says_what_was_changed_and_quotes_nothing(change: EntryEdit, words: str) -> None:
    assert change.in_words == words


BERLIN = entry(text="Ann lives in Berlin.")
PORTO = entry(text="Ann lives in Porto.", extra={"edited": "yes"})


def past(revision: int, before: Entry | None = BERLIN, actor: Actor = "person") -> EntryVersion:
    return EntryVersion(revision, before, actor, f"change {revision}", 1000 * revision)


def restored(now: KnownEntry, history: list[EntryVersion], revision: int | None) -> list[KnownEntry]:
    return edit.restored(now, history, revision, NOW)


def test_where_that_makes_no_difference_it_goes_on_to_what_was_before() -> None:
    now = known(text="Ann lives in Faro.", revision=4)
    history = [past(1), past(2, None), past(3, PORTO)]
    assert [each.entry for each in restored(now, history, None)] == [PORTO, BERLIN]


@pytest.mark.parametrize("actor", ["extraction", "consolidation"])
def test_undoing_what_extraction_did_keeps_it_from_doing_it_again(actor: Actor) -> None:
    now = known(revision=2, extra={"superseded_by": "fa-2", "until": "x"})
    (back,) = restored(now, [past(1, BERLIN, actor)], None)
    assert (back.is_edited, back.holds, back.said) == (True, True, NOW)


class TestOfSources:
    def test_it_goes_on_citing_what_it_cites_now(self) -> None:
        merged = known(turns=("t-1", "t-9"), revision=2)
        before = entry(sources=("threads/t1/0001#^t-1",))
        (back,) = restored(merged, [past(1, before)], None)
        assert back.sources == (Source("ann", "t1", "t-1"), Source("ann", "t1", "t-9"))
        assert back.entry.sources == ("threads/t1/0001#^t-1", "threads/t1/0001#^t-9")

    def test_it_cites_again_what_it_cited_then(self) -> None:
        now = known(turns=("t-1",), thread="Ünïcode thread", revision=2)
        (link,) = known(thread=now.sources[0].thread_id, turns=("t-1",)).entry.sources
        folder = "ünïcode-thread~" + "0" * 20
        elsewhere = ("threads/plain/0002#^t-7", f"threads/{folder}/0001#^t-8", "facts/2026-05-08#^fa-7")
        (back,) = restored(now, [past(1, entry(sources=elsewhere))], None)
        assert back.sources == (now.sources[0], Source("ann", "plain", "t-7"))
        assert back.entry.sources == (*elsewhere, link)


@pytest.mark.parametrize(("revision", "words"), [(7, "there are 1, 2"), (3, "is the one that is in force")])
def test_a_revision_that_it_never_had_is_refused(revision: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        restored(known(revision=3), [past(1), past(2)], revision)
    assert caught.value.field == "revision"
