"""Entries that name other entries: as links in a file, as ids everywhere else."""

import pytest

from recollect.domain.entries.links import linkable
from recollect.domain.markdown.entry_document import read_document, splice
from recollect.domain.markdown.entry_file import render_entries, section_digest
from recollect.domain.model import Entry

OWNER = "users/ann"
PATH = "default/users/ann/facts/2026-05-08.md"
BERLIN = Entry(
    "fa-1", "Ann lives in Berlin.", "Ann lives in Berlin.", 1_778_248_980_000, by="facts, rules",
    extra={"until": "2026-07-07T14:03:00.000Z", "superseded_by": "fa-2"},
)  # fmt: skip
LINKS = {"fa-2": "facts/2026-07-07", "fa-3": "facts/2026-07-07-2"}


def test_a_successor_is_a_link_that_an_editor_follows() -> None:
    text = splice(None, "facts", OWNER, [BERLIN], (), path=PATH, links=LINKS)
    assert "\n- superseded_by: [[facts/2026-07-07#^fa-2]]\n" in text


def test_a_link_is_read_as_the_id_that_it_leads_to() -> None:
    text = splice(None, "facts", OWNER, [BERLIN], (), path=PATH, links=LINKS)
    assert read_document(PATH, text).intact == {"fa-1": BERLIN}


def test_a_section_with_links_counts_as_what_the_journal_has() -> None:
    text = splice(None, "facts", OWNER, [BERLIN], (), path=PATH, links=LINKS)
    elsewhere = {"fa-2": "facts/2026-08-01"}
    assert splice(text, "facts", OWNER, [BERLIN], (), path=PATH, links=elsewhere) == text
    (read,) = read_document(PATH, text).intact.values()
    assert section_digest(read) == section_digest(BERLIN)


def test_an_id_whose_file_nobody_knows_stays_an_id() -> None:
    text = render_entries("facts", OWNER, (BERLIN,), {"fa-3": "facts/2026-07-07"})
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
