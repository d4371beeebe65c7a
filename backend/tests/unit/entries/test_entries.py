"""A file of entries comes back exactly, and damage stays where it is."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from recollect.domain.markdown.entry_document import read_document
from recollect.domain.markdown.entry_file import (
    is_filed,
    render_entries,
    render_entry,
    render_first_version,
    section_digest,
)
from recollect.domain.model import MAX_TIMESTAMP, Entry
from tests.unit.awkward_text import entries_of, texts, unhurried, words

DESIGN_SAMPLE = """\
---
recollect: 1
kind: episodes
owner: users/ann
---

## Marta moves to Porto ^ep-3f9a2c71d0
- when: 2026-05-08T14:03:00Z
- from: [[threads/t1/0001#^t-12]] [[threads/t1/0001#^t-13]]
- by: episode, qwen3-8b

> Marta told Ann that she has taken a job as a nurse in Porto.
> She starts on 1 June.
"""
MARTA = Entry(
    entry_id="ep-3f9a2c71d0",
    title="Marta moves to Porto",
    text="Marta told Ann that she has taken a job as a nurse in Porto.\nShe starts on 1 June.",
    when=1_778_248_980_000,
    sources=("threads/t1/0001#^t-12", "threads/t1/0001#^t-13"),
    by="episode, qwen3-8b",
)

_entries = entries_of(
    entry_id=words,
    when=st.integers(0, MAX_TIMESTAMP),
    sources=st.lists(st.just("threads/t1/0001#^t-12") | texts, max_size=3).map(tuple),
    by=texts,
    extra=st.dictionaries(
        words | st.sampled_from(["when", "from", "by", "cell", "until", "fact"]), texts, max_size=3
    ),
)


EntryFile = tuple[str, str, tuple[Entry, ...]]
"""Kind, owner and entries."""


def _files_of(at_least: int) -> st.SearchStrategy[EntryFile]:
    entries = st.lists(_entries, min_size=at_least, max_size=3, unique_by=lambda entry: entry.entry_id)
    return st.tuples(words, words.map("users/{}".format), entries.map(tuple))


_files = _files_of(0)
_damage = st.sampled_from(
    [
        "", "---", "> forged", "## ", "## notes", "## Forged ^forged", "%%", "- when: 2026-05-08T14:03:00Z",
        "- x: y", "x",
    ]
)  # fmt: skip


def _damaged(old: str, new: str) -> str:
    assert DESIGN_SAMPLE.count(old) == 1
    return DESIGN_SAMPLE.replace(old, new)


@unhurried
@given(_files)
def test_every_file_comes_back_exactly_with_crlf_too(file: EntryFile) -> None:
    text = render_entries(*file)
    for written in (text, text.replace("\n", "\r\n")):
        parsed = read_document("", written)
        assert (parsed.kind, parsed.owner, parsed.entries, parsed.problems) == (*file, ())


@settings(unhurried)
@given(_files_of(2), st.none() | _damage | texts, st.data())
def test_damage_to_one_line_leaves_all_other_entries_intact(
    file: EntryFile, damage: str | None, data: st.DataObject
) -> None:
    # A line that takes the name of another entry makes a second one: nobody can say which is meant.
    assume(not any(damage and damage.strip().endswith(f"^{entry.entry_id}") for entry in file[2]))
    lines = render_entries(*file).split("\n")
    at = data.draw(st.integers(0, len(lines) - 1), label="line")
    owner = sum(line.startswith("## ") for line in lines[: at + 1]) - 1
    lines[at : at + 1] = [] if damage is None else [damage.replace("\n", " ")]
    entries = read_document("", "\n".join(lines)).entries
    assert [entry for place, entry in enumerate(file[2]) if place != owner and entry not in entries] == []


@unhurried
@given(texts)
def test_any_text_at_all_is_parsed_without_an_exception(text: str) -> None:
    assert read_document("", text).kind is None


def test_the_sample_in_the_design_is_read() -> None:
    assert read_document("", DESIGN_SAMPLE).entries == (MARTA,)


def test_an_entry_is_written_with_what_only_we_need_in_a_comment() -> None:
    shown = DESIGN_SAMPLE.replace("recollect: 1", "recollect: 3").replace(
        "- by: episode, qwen3-8b", "%% by: episode, qwen3-8b %%"
    )
    assert render_entries("episodes", "users/ann", (MARTA,)) == shown
    assert f"\n{render_first_version(MARTA)}" in DESIGN_SAMPLE


def test_an_entry_has_at_most_three_lines_of_ours_and_all_of_a_persons() -> None:
    extra = {
        "subject": "user", "category": "home", "until": "2026-06-01T00:00:00Z", "superseded_by": "fa-9",
        "mood": "good", "cell": "c-1", "corrected": "2026-05-09T00:00:00Z", "said": "2026-05-09T00:00:00Z",
    }  # fmt: skip
    entry = replace(MARTA, by="facts · 100 %% true", extra=extra)
    assert render_entry(entry).split("\n\n>")[0].split("\n")[1:] == [
        "- when: 2026-05-08T14:03:00Z",
        "- from: [[threads/t1/0001#^t-12]] [[threads/t1/0001#^t-13]]",
        "- superseded_by: fa-9",
        "- mood: good",
        (
            '%% by: "facts \\u00b7 100 \\u0025\\u0025 true" · until: 2026-06-01T00:00:00Z · subject: user · '
            "category: home · corrected: 2026-05-09T00:00:00Z · said: 2026-05-09T00:00:00Z · cell: c-1 %%"
        ),
    ]
    for section in (render_entry(entry), render_first_version(entry)):
        text = DESIGN_SAMPLE.partition("##")[0] + section
        document = read_document("", text)
        assert (document.entries, document.problems) == ((entry,), ())


SENTENCE = replace(MARTA, entry_id="fa-1", title="Marta lives in Porto.", text="Marta lives in Porto.")


def test_a_sentence_is_its_heading_and_a_text_that_no_heading_can_hold_is_quoted() -> None:
    assert render_entry(SENTENCE) == (
        "## Marta lives in Porto. ^fa-1\n"
        "- when: 2026-05-08T14:03:00Z\n"
        "- from: [[threads/t1/0001#^t-12]] [[threads/t1/0001#^t-13]]\n"
        "%% by: episode, qwen3-8b %%\n"
    )
    for text in ("Two\nlines.", "2^3", '"Quoted"', " indented", "100 %% sure"):
        for changed in (replace(SENTENCE, text=text), replace(SENTENCE, title=text, text=text)):
            assert render_entry(changed).endswith("\n> " + text.replace("\n", "\n> ") + "\n")
    assert "\n> " in render_entry(replace(SENTENCE, entry_id="ep-1"))


def test_a_section_that_an_earlier_version_wrote_is_known_as_ours() -> None:
    """Else a person's change of its neighbour would bring its old words back."""
    section = DESIGN_SAMPLE[DESIGN_SAMPLE.index("## ") :]
    digest = hashlib.sha256(section.encode()).hexdigest()[:24]
    assert is_filed(MARTA, {digest})
    assert is_filed(MARTA, {section_digest(MARTA)})
    second = render_entry(SENTENCE) + "\n> Marta lives in Porto.\n"
    assert is_filed(SENTENCE, {hashlib.sha256(second.encode()).hexdigest()[:24]})
    assert not is_filed(replace(MARTA, text="Another."), {digest, section_digest(MARTA)})


HEAD = "---\nrecollect: 3\nkind: facts\nowner: users/ann\n---\n\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%%\n", "%%\n\n> Marta lives in Porto.\n"),
        ("^fa-1\n", "^fa-1\n\n"),
        ("\n%% by", "\n\n%% by"),
        ("%%\n", "%%\n\nMy own words.\n\n- tea: green\n- when: always\n- until: never\n"),
        ("\n- from", "\n\n- from"),
        ("%%\n", "%%\nMy own words.\n"),
        ("%%\n", "%%\n\n# Home ^profile-home\n"),
    ],
)
def test_a_sentence_is_read_however_people_and_their_tools_lay_it_out(old: str, new: str) -> None:
    document = read_document("", HEAD + render_entry(SENTENCE).replace(old, new))
    assert (document.entries, document.problems) == ((SENTENCE,), ())


def test_a_section_whose_heading_is_lost_does_not_become_the_text_of_the_sentence_above() -> None:
    lost = render_entry(replace(MARTA, entry_id="fa-2")).partition("\n")[2]
    document = read_document("", f"{HEAD}{render_entry(SENTENCE)}\n{lost}")
    assert document.entries == (SENTENCE,)
    assert document.damaged == {"fa-1"}


def test_only_a_sentence_may_be_without_a_quoted_text() -> None:
    document = read_document("", HEAD + render_entry(SENTENCE).replace("^fa-1", "^ep-1"))
    assert document.damaged == {"ep-1"}


@pytest.mark.parametrize(("version", "lines"), [("1", [12]), ("2", [12]), ("3", [])])
def test_where_every_text_was_quoted_one_that_is_not_is_reported(version: str, lines: list[int]) -> None:
    text = HEAD.replace("3", version) + render_entry(SENTENCE) + "\nMarta lives in Lisbon.\n"
    document = read_document("", text)
    assert document.intact == {"fa-1": SENTENCE}
    assert [problem.line for problem in document.problems] == lines


def test_a_comment_with_a_key_of_its_own_is_a_persons() -> None:
    text = _damaged("- by: episode, qwen3-8b", "- by: episode, qwen3-8b\n%% by: me · todo: call her %%")
    assert read_document("", text).entries == (MARTA,)


def test_titles_of_every_script_stand_readable() -> None:
    entry = Entry("f-1", 'Ann reads "Dune": नमस्ते, 👩‍👩‍👧 (50 %)', "", 0)
    assert '## Ann reads "Dune": नमस्ते, 👩‍👩‍👧 (50 %) ^f-1\n' in render_entries("facts", "users/ann", (entry,))


@pytest.mark.parametrize(
    ("old", "new", "line", "anchor"),
    [
        (" ^ep-3f9a2c71d0", "", 7, None),
        ("- when: 2026-05-08T14:03:00Z\n", "", 7, "ep-3f9a2c71d0"),
        ("2026-05-08T14:03:00Z", "in May", 8, "ep-3f9a2c71d0"),
        ("2026-05-08T14:03:00Z", "1969-05-08T14:03:00Z", 8, "ep-3f9a2c71d0"),
        ("[[threads/t1/0001#^t-12]]", "[[threads/t1/0001#^t-12", 9, "ep-3f9a2c71d0"),
        ("- by: episode, qwen3-8b", '- by: "episode', 10, "ep-3f9a2c71d0"),
        ("> She starts", "She starts", 13, "ep-3f9a2c71d0"),
    ],
)
def test_damage_is_reported_with_its_line(old: str, new: str, line: int, anchor: str | None) -> None:
    problems = read_document("", _damaged(old, new)).problems
    assert [(problem.line, problem.anchor) for problem in problems] == [(line, anchor)]


def test_an_entry_whose_time_is_damaged_still_has_its_text() -> None:
    assert [
        entry.text for entry in read_document("", _damaged("2026-05-08T14:03:00Z", "in May")).entries
    ] == [MARTA.text]


def test_lines_that_a_person_adds_to_an_entry_are_its_extras() -> None:
    text = _damaged("- by: episode", "- pinned: true\n- by: episode")
    assert [entry.extra for entry in read_document("", text).entries] == [{"pinned": "true"}]


def test_a_line_that_a_person_adds_wins_over_the_comment_that_they_do_not_see() -> None:
    extra = {"fact": "fa-1", "about": "2026-06", "outcome": "done"}
    written = render_entries("facts", "users/ann", [Entry("fa-2", "Ann runs.", "Ann runs.", 0, extra=extra)])
    assert "outcome: done %%" in written
    read = read_document("", written.replace("- about:", "- outcome: failed\n- about:"))
    assert (read.entries[0].extra, read.problems) == ({**extra, "outcome": "failed"}, ())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("recollect: 1", "recollect: 4", "format version 4 (recollect); this code reads version 3"),
        ("kind: episodes\n", "", "no kind"),
        ("owner: users/ann\n", "", "no owner"),
    ],
)
def test_damaged_front_matter_is_reported(old: str, new: str, message: str) -> None:
    parsed = read_document("", _damaged(old, new))
    assert (parsed.kind, [message in problem.message for problem in parsed.problems]) == (None, [True])


@pytest.mark.parametrize(("written", "when"), [("00Z", 0), ("00.5Z", 500), ("00.05Z", 50), ("00.005Z", 5)])
def test_a_time_may_be_written_with_fewer_digits(written: str, when: int) -> None:
    text = _damaged("2026-05-08T14:03:00Z", f"1970-01-01T00:00:{written}")
    assert [entry.when for entry in read_document("", text).entries] == [when]
