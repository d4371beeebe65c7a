"""What an undo restores, and what it keeps."""

import pytest

from recollect.domain.entries import edit
from recollect.domain.entries.entry import Actor, EntryVersion, KnownEntry, Source
from recollect.domain.model import Entry
from recollect.errors import InvalidInput
from tests.unit.made_entries import DAY, WHEN, entry, known

NOW = WHEN + 9 * DAY

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
