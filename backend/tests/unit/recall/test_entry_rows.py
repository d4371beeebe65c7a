"""Files of entries as rows: one for each entry, whatever else stands in the file."""

from dataclasses import replace

import pytest

from recollect.domain.markdown.entry_file import render_entries
from recollect.domain.model import Entry, Note, Thread, Turn
from recollect.domain.recall.rows import file_rows, source_of, turn_row

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


def rows(*entries: Entry, note: Note = FILE) -> list[tuple[str, str]]:
    return [(row.row_id, row.text) for row in file_rows(note, text_of(*entries))]


def text_of(*entries: Entry) -> str:
    return render_entries("facts", "users/ann", entries)


def test_an_entry_is_a_row_that_says_whom_it_is_about_and_where_it_came_from() -> None:
    (row,) = file_rows(FILE, text_of(MOVE))
    assert (row.row_id, row.type, row.text) == ("fa-1", "facts", "Marta moved to Porto.")
    assert (row.timestamp, row.sender, row.path) == (WHEN, "Marta", FILE.path)
    turn = turn_row(THREAD, Turn("t-12", "m1", "user", "ann", "My sister moved", WHEN))
    assert turn is not None
    assert row.sources == (source_of(turn.path, "t-12"),)


def test_an_entry_about_nobody_else_is_about_its_owner() -> None:
    (row,) = file_rows(FILE, text_of(replace(MOVE, extra={})))
    assert row.sender == "ann"


def test_a_title_that_is_not_the_text_stands_above_it() -> None:
    assert rows(replace(MOVE, title="Porto")) == [("fa-1", "Porto\nMarta moved to Porto.")]


def test_an_entry_says_until_when_it_held_and_whether_it_is_pinned() -> None:
    extra = {"until": "2026-05-09T00:00:00Z", "superseded_by": "fa-2", "pinned": "yes"}
    (row,) = file_rows(FILE, text_of(replace(MOVE, extra=extra)))
    assert (row.until, row.superseded_by, row.pinned) == (1_778_284_800_000, "fa-2", True)


@pytest.mark.parametrize(("sources", "corrected"), [(MOVE.sources, 1_778_284_800_000), ((), 0)])
def test_an_entry_that_came_from_turns_says_when_a_person_wrote_over_it(
    sources: tuple[str, ...], corrected: int
) -> None:
    extra = {"edited": "yes", "corrected": "2026-05-09T00:00:00Z"}
    (row,) = file_rows(FILE, text_of(replace(MOVE, sources=sources, extra=extra)))
    assert (row.edited, row.corrected) == (True, corrected)


def test_a_plan_holds_until_it_lapses() -> None:
    (row,) = file_rows(FILE, text_of(replace(MOVE, extra={"lapses": "2026-05-09T00:00:00Z"})))
    assert (row.ended(row.until - 1), row.ended(row.until)) == (0, 1_778_284_800_000)


@pytest.mark.parametrize("until", ["", "soon"])
def test_a_time_that_can_not_be_read_ends_nothing(until: str) -> None:
    (row,) = file_rows(FILE, text_of(replace(MOVE, extra={"until": until})))
    assert row.until == 0


def test_a_row_is_the_same_wherever_in_the_file_its_entry_stands() -> None:
    other = replace(MOVE, entry_id="fa-0", title="Else", text="Else")
    one, two = file_rows(FILE, text_of(MOVE)), file_rows(replace(FILE, modified=9), text_of(other, MOVE))
    assert one[0] == two[1]


def test_links_that_lead_to_no_turn_are_no_sources() -> None:
    (row,) = file_rows(FILE, text_of(replace(MOVE, sources=("facts/2026-05-01#^fa-7", "threads/x"))))
    assert row.sources == ()


def test_an_entry_that_can_not_be_read_hides_no_other() -> None:
    broken = (
        text_of(MOVE).replace("^fa-1", "")
        + "\n"
        + text_of(replace(MOVE, entry_id="fa-2")).split("---\n", 2)[2]
    )
    assert [row.row_id for row in file_rows(FILE, broken)] == ["fa-2"]


def test_a_note_is_no_file_of_entries() -> None:
    note = replace(FILE, path=f"{OWNER}/notes/facts.md")
    assert all(row.type == "note" for row in file_rows(note, text_of(MOVE)))
