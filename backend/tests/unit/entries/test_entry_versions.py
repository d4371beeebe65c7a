"""What an undo restores, and what it keeps."""

import pytest

from recollect.domain.entries import edit
from recollect.domain.entries.edit import Version, is_made_of, versions
from recollect.domain.entries.entry import Actor, EntryVersion, KnownEntry, Source
from recollect.domain.model import Entry
from recollect.errors import Conflict, InvalidInput
from tests.unit.made_entries import DAY, WHEN, entry, known

NOW = WHEN + 9 * DAY

BERLIN = entry(text="Ann lives in Berlin.")
PORTO = entry(text="Ann lives in Porto.", extra={"edited": "yes"})


def past(revision: int, before: Entry | None = BERLIN, actor: Actor = "person") -> EntryVersion:
    return EntryVersion(revision, before, actor, f"change {revision}", 1000 * revision)


def restored(now: KnownEntry, history: list[EntryVersion], revision: int | None) -> list[KnownEntry]:
    return edit.restored(now, history, revision, NOW)


def test_each_version_is_told_with_the_change_that_made_it() -> None:
    now = known("fa-1", "Ann lives in Faro.", revision=3)
    assert versions(now, [past(1), past(2, PORTO, "undo")]) == [
        Version(1, BERLIN),
        Version(2, PORTO, "person", "change 1", 1000),
        Version(3, now.entry, "undo", "change 2", 2000),
    ]


def test_an_entry_that_never_changed_has_one_version() -> None:
    assert versions(known(revision=1), []) == [Version(1, known().entry)]


def test_an_undo_restores_what_was_before_the_last_change() -> None:
    now = known(text="Ann lives in Faro.", revision=3)
    assert restored(now, [past(1), past(2, PORTO)], None)[0].entry == PORTO


def test_where_that_makes_no_difference_it_goes_on_to_what_was_before() -> None:
    now = known(text="Ann lives in Faro.", revision=4)
    history = [past(1), past(2, None), past(3, PORTO)]
    assert [each.entry for each in restored(now, history, None)] == [PORTO, BERLIN]


def test_an_undo_can_go_back_to_any_revision() -> None:
    now = known(text="Ann lives in Faro.", revision=3)
    assert [each.entry for each in restored(now, [past(1), past(2, PORTO)], 1)] == [BERLIN]


def test_a_restored_entry_has_the_revision_that_is_stored() -> None:
    assert restored(known(revision=3), [past(1), past(2)], 1)[0].revision == 3


def test_undoing_a_persons_own_edit_gives_the_entry_back_to_extraction() -> None:
    now = known(text="x", revision=2, extra={"edited": "yes"})
    assert not restored(now, [past(1)], None)[0].is_edited


@pytest.mark.parametrize("actor", ["extraction", "consolidation"])
def test_undoing_what_extraction_did_keeps_it_from_doing_it_again(actor: Actor) -> None:
    now = known(revision=2, extra={"superseded_by": "fa-2", "until": "x"})
    (back,) = restored(now, [past(1, BERLIN, actor)], None)
    assert (back.is_edited, back.holds, back.said) == (True, True, NOW)


def test_undoing_an_undo_is_exact() -> None:
    superseded = entry(extra={"superseded_by": "fa-2"})
    now = known(revision=3, extra={"edited": "yes"})
    assert (
        restored(now, [past(1, BERLIN, "consolidation"), past(2, superseded, "undo")], None)[0].entry
        == superseded
    )


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


def test_there_is_nothing_to_undo_in_what_never_changed() -> None:
    with pytest.raises(Conflict, match="never changed"):
        restored(known(revision=1), [], None)


@pytest.mark.parametrize(("revision", "words"), [(7, "there are 1, 2"), (3, "is the one that is in force")])
def test_a_revision_that_it_never_had_is_refused(revision: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        restored(known(revision=3), [past(1), past(2)], revision)
    assert caught.value.field == "revision"


def test_what_was_deleted_is_no_version() -> None:
    with pytest.raises(Conflict, match="was deleted"):
        restored(known(revision=1), [past(0, None)], None)


@pytest.mark.parametrize(
    ("extra", "is_made"),
    [
        ({"fact": "fa-1"}, True),
        ({"cases": "fa-1 ca-2"}, True),
        ({"fact": "fa-1", "edited": "yes"}, False),
        ({"fact": "fa-2"}, False),
    ],
)
def test_a_version_says_what_it_was_made_of_unless_a_person_wrote_it(
    extra: dict[str, str], is_made: bool
) -> None:
    assert is_made_of(past(1, entry(extra=extra)), {"fa-1"}) is is_made
