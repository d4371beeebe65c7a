"""What entries say of one another is told on both sides, and of nothing that is gone: as links in a file, as ids elsewhere."""

import pytest

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import (
    linkable,
    origin_ids,
    taken_out,
    without_origin,
)
from recollect.domain.markdown.entry_document import read_document, splice
from recollect.domain.markdown.entry_file import render_entries, section_digest
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry
from tests.unit.made_entries import DAY, WHEN, entry, known

UNTIL = write_time(WHEN + DAY)
BERLIN = known("fa-1", extra={"until": UNTIL, "superseded_by": "fa-2"})
PORTO = known("fa-2", "Ann lives in Porto.", when=WHEN + DAY, extra={"supersedes": "fa-1"})


def by_id(*entries: KnownEntry) -> dict[str, KnownEntry]:
    return {each.entry_id: each for each in entries}


def extras(entries: tuple[KnownEntry, ...]) -> dict[str, dict[str, str]]:
    return {each.entry_id: each.entry.extra for each in entries}


class TestOrigins:
    def test_a_line_of_the_profile_names_its_fact(self) -> None:
        assert origin_ids(entry("pr-1", extra={"fact": "fa-1"})) == ("fa-1",)

    def test_a_skill_names_its_cases(self) -> None:
        assert origin_ids(entry("sk-1", extra={"cases": "ca-1, ca-2 [[cases/2026-05-08#^ca-3]]"})) == (
            "ca-1", "ca-2", "ca-3",
        )  # fmt: skip

    def test_links_to_entries_are_told_from_links_to_turns(self) -> None:
        links = ("threads/t1/0001#^t-12", "facts/2026-05-08#^fa-1", "notes/mine")
        assert origin_ids(entry("pr-1", sources=links)) == ("fa-1",)

    def test_an_origin_that_is_gone_is_named_no_longer(self) -> None:
        made = entry("sk-1", extra={"cases": "ca-1 ca-2"}, sources=("cases/2026-05-08#^ca-1",))
        left = without_origin(made, "ca-1")
        assert (left.extra, left.sources) == ({"cases": "ca-2"}, ())
        assert without_origin(left, "ca-2").extra == {}


class TestTakingOneOut:
    def test_the_last_takes_the_place_of_the_one_between(self) -> None:
        faro = known("fa-3", "Ann lives in Faro.", when=WHEN + 2 * DAY, extra={"supersedes": "fa-2"})
        between = known("fa-2", extra={"supersedes": "fa-1", "superseded_by": "fa-3"})
        assert extras(taken_out(between, by_id(BERLIN, faro))) == {
            "fa-1": {"until": UNTIL, "superseded_by": "fa-3"},
            "fa-3": {"supersedes": "fa-1"},
        }

    def test_what_another_superseded_since_stays_so(self) -> None:
        other = known("fa-1", extra={"superseded_by": "fa-9"})
        assert taken_out(PORTO, by_id(other)) == ()


OWNER = "users/ann"
PATH = "default/users/ann/facts/2026-05-08.md"
REPLACED = Entry(
    "fa-1", "Ann lives in Berlin.", "Ann lives in Berlin.", 1_778_248_980_000, by="facts, rules",
    extra={"until": "2026-07-07T14:03:00.000Z", "superseded_by": "fa-2"},
)  # fmt: skip
LINKS = {"fa-2": "facts/2026-07-07", "fa-3": "facts/2026-07-07-2"}


def test_a_successor_is_a_link_that_an_editor_follows() -> None:
    text = splice(None, "facts", OWNER, [REPLACED], (), path=PATH, links=LINKS)
    assert "\n- superseded_by: [[facts/2026-07-07#^fa-2]]\n" in text


def test_a_link_is_read_as_the_id_that_it_leads_to() -> None:
    text = splice(None, "facts", OWNER, [REPLACED], (), path=PATH, links=LINKS)
    assert read_document(PATH, text).intact == {"fa-1": REPLACED}


def test_a_section_with_links_counts_as_what_the_journal_has() -> None:
    text = splice(None, "facts", OWNER, [REPLACED], (), path=PATH, links=LINKS)
    elsewhere = {"fa-2": "facts/2026-08-01"}
    assert splice(text, "facts", OWNER, [REPLACED], (), path=PATH, links=elsewhere) == text
    (read,) = read_document(PATH, text).intact.values()
    assert section_digest(read) == section_digest(REPLACED)


def test_an_id_whose_file_nobody_knows_stays_an_id() -> None:
    text = render_entries("facts", OWNER, (REPLACED,), {"fa-3": "facts/2026-07-07"})
    assert "\n- superseded_by: fa-2\n" in text


def test_several_are_several_links() -> None:
    several = Entry("fa-9", "Both.", "Both.", 0, extra={"supersedes": "fa-2 fa-3"})
    text = render_entries("facts", OWNER, (several,), LINKS)
    assert "- supersedes: [[facts/2026-07-07#^fa-2]] [[facts/2026-07-07-2#^fa-3]]\n" in text
    assert read_document(PATH, text).entries == (several,)


@pytest.mark.parametrize("words", ["fa-2, says Ann", "see fa-2!"])
def test_a_persons_words_in_the_place_of_ids_stay_theirs(words: str) -> None:
    entry = Entry("fa-9", "Both.", "Both.", 0, extra={"superseded_by": words})
    text = render_entries("facts", OWNER, (entry,), LINKS)
    assert read_document(PATH, text).entries == (entry,)


@pytest.mark.parametrize("name", ["100%", "my [old] facts", "a#b", "a b"])
def test_a_file_that_no_link_can_name_is_not_linked(name: str) -> None:
    assert linkable("default/users/ann", f"default/users/ann/facts/{name}.md") is None
