"""Entries as rows of the index, and what else a person wrote into their files."""

from dataclasses import replace

import pytest

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.markdown.entry_document import splice
from recollect.domain.markdown.entry_file import render_entries
from recollect.domain.model import Entry, Note, Thread, Turn
from recollect.domain.recall.rows import IndexRow, entry_row, rest_rows, source_of, turn_row

OWNER = "default/users/ann"
FILE = Note(f"{OWNER}/facts/2026-05-08.md", OWNER, "digest", 1)
WHEN = 1_778_248_980_000
THREAD = Thread("default", "t1", "ann", 0, 0)
MOVE = Entry(
    "fa-1",
    "Marta moved to Porto.",
    "Marta moved to Porto.",
    WHEN,
    ("threads/t1/0001#^t-12",),
    "facts, rules",
    {"subject": "Marta"},
)


def row_of(entry: Entry) -> IndexRow:
    row = entry_row(KnownEntry("default", OWNER, "facts", entry, path=FILE.path))
    assert row is not None
    return row


def rest_of(text: str, *ours: str) -> list[str]:
    return [row.text for row in rest_rows(FILE, text, ours)]


def text_of(*entries: Entry) -> str:
    return render_entries("facts", "users/ann", entries)


def test_an_entry_is_a_row_that_says_whom_it_is_about_and_where_it_came_from() -> None:
    row = row_of(MOVE)
    assert (row.row_id, row.type, row.text) == ("fa-1", "facts", "Marta moved to Porto.")
    assert (row.timestamp, row.sender, row.path) == (WHEN, "Marta", FILE.path)
    turn = turn_row(THREAD, Turn("t-12", "m1", "user", "ann", "My sister moved", WHEN))
    assert turn is not None
    assert row.sources == (source_of(turn.path, "t-12"),)


def test_an_entry_about_nobody_else_is_about_its_owner() -> None:
    row = row_of(replace(MOVE, extra={}))
    assert row.sender == "ann"


def test_an_entry_that_says_nothing_is_no_row() -> None:
    assert entry_row(KnownEntry("default", OWNER, "facts", replace(MOVE, title=" ", text=""))) is None


def test_a_title_that_is_not_the_text_stands_above_it() -> None:
    assert row_of(replace(MOVE, title="Porto")).text == "Porto\nMarta moved to Porto."


def test_an_entry_says_until_when_it_held_and_whether_it_is_pinned() -> None:
    extra = {"until": "2026-05-09T00:00:00Z", "superseded_by": "fa-2", "pinned": "yes"}
    row = row_of(replace(MOVE, extra=extra))
    assert (row.until, row.superseded_by, row.pinned) == (1_778_284_800_000, "fa-2", True)


@pytest.mark.parametrize(("sources", "corrected"), [(MOVE.sources, 1_778_284_800_000), ((), 0)])
def test_an_entry_that_came_from_turns_says_when_a_person_wrote_over_it(
    sources: tuple[str, ...], corrected: int
) -> None:
    extra = {"edited": "yes", "corrected": "2026-05-09T00:00:00Z"}
    row = row_of(replace(MOVE, sources=sources, extra=extra))
    assert (row.edited, row.corrected) == (True, corrected)


def test_a_plan_holds_until_it_lapses() -> None:
    row = row_of(replace(MOVE, extra={"lapses": "2026-05-09T00:00:00Z"}))
    assert (row.ended(row.until - 1), row.ended(row.until)) == (0, 1_778_284_800_000)


@pytest.mark.parametrize("until", ["", "soon"])
def test_a_time_that_can_not_be_read_ends_nothing(until: str) -> None:
    row = row_of(replace(MOVE, extra={"until": until}))
    assert row.until == 0


def test_links_that_lead_to_no_turn_are_no_sources() -> None:
    row = row_of(replace(MOVE, sources=("facts/2026-05-01#^fa-7", "threads/x")))
    assert row.sources == ()


def test_a_file_of_entries_holds_nothing_else() -> None:
    assert rest_of(text_of(MOVE, replace(MOVE, entry_id="fa-2")), "fa-1", "fa-2") == []


def test_what_stands_between_the_entries_of_a_file_is_a_note() -> None:
    text = text_of(MOVE).replace("---\n\n", "---\n\nMine, above.\n\n") + "\nMine, below.\n"
    (row,) = rest_rows(FILE, text, ["fa-1"])
    assert (row.row_id, row.type, row.path) == (f"{FILE.path}#1", "note", FILE.path)
    assert row.text.split() == ["Mine,", "above.", "Mine,", "below."]


def test_a_section_that_is_none_of_ours_is_a_note() -> None:
    other = replace(MOVE, entry_id="fa-2", title="Else", text="Else")
    (text,) = rest_of(text_of(MOVE, other), "fa-1")
    assert "Else" in text
    assert "fa-1" not in text


def test_of_a_profile_our_headings_are_no_note() -> None:
    page = replace(FILE, path=f"{OWNER}/profile.md")
    line = replace(MOVE, entry_id="pr-1", extra={"category": "home"})
    text = splice(None, "profile", "users/ann", [line], (), path=page.path)
    assert "# Home" in text
    assert rest_rows(page, text, ["pr-1"]) == []
