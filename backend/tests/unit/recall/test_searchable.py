"""What of a conversation or a note is searched."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.model import JsonObject, Note, Thread, Turn
from recollect.domain.recall.rows import NOTE, TURN, meaning_of, note_rows, turn_row, words_of
from recollect.domain.recall.words import words_asked_for, words_in
from tests.unit.awkward_text import texts, unhurried

THREAD = Thread("default", "t1", "ann", created=1, updated=2, agent_id="tutor", tags=("home",))
TURN_12 = Turn("t-12", "m1", "user", "Ann", "Marta moves to Porto!", 1_683_554_580_000)
NOTE_FILE = Note("default/ann/notes/My trip.md", "default/ann", "0" * 64, 1_683_554_580_000)


def passages(text: str) -> list[str]:
    return [row.text for row in note_rows(NOTE_FILE, text)]


def test_a_turn_is_a_row_that_says_where_it_comes_from() -> None:
    row = turn_row(THREAD, TURN_12)
    assert row is not None
    assert (row.type, row.text, row.role, row.sender) == (TURN, "Marta moves to Porto!", "user", "Ann")
    assert (row.thread_id, row.position, row.message_ids, row.timestamp) == (
        "t1",
        12,
        ("m1",),
        TURN_12.timestamp,
    )
    assert (row.agent_id, row.tags) == ("tutor", ("home",))
    assert row.path.endswith("t1")


def test_a_turn_that_memory_skips_is_not_searched() -> None:
    assert turn_row(THREAD, replace(TURN_12, skip_reason="system")) is None


@pytest.mark.parametrize("content", ["", " ", "\n\t\u3000"])
def test_a_turn_that_says_nothing_is_not_searched(content: str) -> None:
    assert turn_row(THREAD, replace(TURN_12, content=content)) is None


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        ([{"function": {"name": "weather", "arguments": '{"city": "Porto"}'}}], 'weather {"city": "Porto"}'),
        ([{"function": {"name": "weather", "arguments": {"city": "北京"}}}], 'weather {"city": "北京"}'),
        ([{"name": "weather", "arguments": None}, {"name": "clock"}], "weather\nclock"),
        ([{"function": "weather", "name": "clock"}], "clock"),
        ([{"name": {"odd": 1}}], '{"odd": 1}'),
    ],
)
def test_a_turn_without_words_is_found_by_its_tool_calls(calls: list[JsonObject], text: str) -> None:
    row = turn_row(THREAD, replace(TURN_12, content=" ", tool_calls=calls))
    assert row is not None
    assert (row.text, row.only_calls) == (text, True)


@pytest.mark.parametrize("calls", [[{}], [{}, {}], [{"function": None}], [{"id": "c1"}], [{"name": ""}]])
def test_tool_calls_that_say_nothing_are_not_searched(calls: list[JsonObject]) -> None:
    assert turn_row(THREAD, replace(TURN_12, content="", tool_calls=calls)) is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "arguments"]), inner)
    ),
    max_leaves=4,
)


@given(st.lists(st.dictionaries(st.sampled_from(["function", "name", "arguments", "id"]), _json), max_size=3))
def test_any_tool_calls_can_be_searched(calls: list[JsonObject]) -> None:
    row = turn_row(THREAD, replace(TURN_12, content="", tool_calls=calls))
    assert row is None or row.text.strip()


def test_a_row_depends_on_what_the_vault_holds_alone() -> None:
    later = replace(THREAD, updated=99, turn_count=7, title="New title", backend="local", preset="short")
    first, second = turn_row(THREAD, TURN_12), turn_row(later, replace(TURN_12, model="m", edited=True))
    assert first == second
    assert first is not None
    assert second is not None
    assert first.digest == second.digest


def test_rows_of_two_threads_never_share_an_id() -> None:
    rows = [
        turn_row(replace(THREAD, space=space, thread_id=thread), TURN_12)
        for space, thread in [("a", "b:t-12"), ("a:b", "t-12"), ("a", "b"), ("ab", "")]
    ]
    assert len({row.row_id for row in rows if row}) == 4


def test_a_row_is_found_by_its_date_and_its_sender() -> None:
    row = turn_row(THREAD, TURN_12)
    assert row is not None
    terms = words_of(row).split()
    for asked in ("8 May 2023", "Monday", "Ann", "Porto", "moving"):
        assert set(words_asked_for(asked)) <= set(terms), asked
    assert meaning_of(row) == "Ann: Marta moves to Porto!"


def test_a_very_long_text_is_found_by_its_last_word_too_and_is_no_heavier_for_that() -> None:
    row = turn_row(THREAD, replace(TURN_12, content="begin " + "word " * 100_000 + "finish"))
    assert row is not None
    terms = words_of(row).split()
    assert {"begin", "word", "finish"} <= set(terms)
    assert len(terms) < 30_000
    assert len(meaning_of(row)) < 3_000


@pytest.mark.parametrize("text", ["word ", "字", "字。", "wörd "])
def test_a_very_long_text_is_read_in_blocks_and_no_word_is_cut(text: str) -> None:
    row = turn_row(THREAD, replace(TURN_12, content=text * 40_000))
    assert row is not None
    rest = {word for word in words_of(row).split()[10:] if not word.isdigit()}
    assert rest == set(words_in(text * 2))


def test_a_short_note_is_one_passage_under_the_name_of_its_file() -> None:
    (row,) = note_rows(NOTE_FILE, "We go to Porto.\n\nIn June.\n")
    assert (row.type, row.text, row.sender) == (NOTE, "We go to Porto.\n\nIn June.", "My trip")
    assert (row.path, row.timestamp, row.message_ids) == (NOTE_FILE.path, NOTE_FILE.modified, ())


def test_front_matter_is_no_text_but_for_what_it_calls_the_note() -> None:
    assert passages("---\ncssclass: wide\n---\nWe go to Porto.") == ["We go to Porto."]
    assert passages(
        "---\ntitle: Corncrake\naliases: [Crex, land rail]\n---\n# One\nfirst\n# Two\nsecond"
    ) == [
        "Corncrake\nCrex\nland rail\n\n# One\nfirst",
        "# Two\nsecond",
    ]


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("tags: [birds, land rail]", ("birds", "land rail")),
        ("tags:\n  - '#birds'\n  - birds\n  - 2023", ("birds", "2023")),
        ("tags: birds, marsh", ("birds", "marsh")),
        ("tag: birds", ("birds",)),
        ("tags:", ()),
        ("tags: {a: b}", ()),
    ],
)
def test_a_note_has_the_tags_of_its_front_matter_and_is_found_by_them(
    written: str, tags: tuple[str, ...]
) -> None:
    rows = note_rows(NOTE_FILE, f"\ufeff---\r\n{written}\r\n---\r\n# One\n\nWe go.\n# Two\n\nOn.")
    assert [row.tags for row in rows] == [tags, tags]
    assert rows[0].text.startswith(" ".join(tags) or "# One")


def test_a_note_of_front_matter_alone_is_found() -> None:
    assert passages("---\ntitle: Corncrake\ntags: [birdlist]\n---\n") == ["Corncrake\nbirdlist"]


def test_front_matter_that_is_none_is_text() -> None:
    assert "tags: [a" in "\n".join(passages("---\ntags: [a\n---\nWe go."))
    assert "half: open" in "\n".join(passages("---\nhalf: open\nWe go."))


def test_each_heading_begins_a_passage() -> None:
    assert passages("Intro\n# One\nfirst\n## Two\nsecond") == ["Intro", "# One\nfirst", "## Two\nsecond"]
    assert passages("\ufeff# One\nfirst\n# Two\nsecond") == ["# One\nfirst", "# Two\nsecond"]


def test_the_short_sections_of_a_note_of_very_many_share_passages_and_nothing_is_lost() -> None:
    text = "\n".join(f"# h{number}\n\nx{number}" for number in range(45_000))
    found = passages(text)
    assert len(found) < 2 * len(text) / 1_200
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_hash_without_a_title_is_no_heading() -> None:
    assert passages("#tag\n#\nnext line") == ["#tag\n#\nnext line"]


def test_a_long_section_repeats_its_heading() -> None:
    section = "# Porto\n\n" + "\n\n".join(f"{n} " + "words " * 100 for n in range(6))
    first, *others = passages(section)
    assert first.startswith("# Porto")
    assert len(others) >= 2
    assert all(each.startswith("Porto\n\n") for each in others)


@pytest.mark.parametrize("text", ["", "\n\n", "---\na: 1\n---\n", "\ufeff", " \n\t\n"])
def test_an_empty_note_has_no_passages(text: str) -> None:
    assert passages(text) == []


def test_a_heading_of_a_megabyte_does_not_multiply() -> None:
    text = "# " + "long " * 100_000 + "\n\n" + "text " * 100_000
    assert sum(map(len, passages(text))) < 2 * len(text)


_blocks = st.lists(
    st.sampled_from(
        ["# Title", "## Sub", "text " * 30, "word", "", "", "x" * 1500, "- item", "```", "#", "   code"]
    )
    | texts,
    max_size=25,
).map("\n".join)


@unhurried
@given(_blocks)
def test_every_line_of_a_note_is_in_some_passage(body: str) -> None:
    text = "Begin.\n" + body
    rows = note_rows(NOTE_FILE, text)
    together = "".join("".join(row.text.split()) for row in rows)
    for line in text.split("\n"):
        plain = "".join(line.split())
        assert len(plain) > 1200 or plain in together, line
    assert all(row.text.strip() for row in rows)
    assert len({row.row_id for row in rows}) == len(rows)
    assert all(len(row.text) <= 2_000 for row in rows)
