"""What a person changed in a transcript: taken in where it is theirs to change, named where it is not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from recollect.domain.markdown.revision import Revision, compare
from recollect.domain.markdown.transcript import parse_part, render_part
from recollect.domain.model import Memcell, Thread, TranscriptPart, Turn

NOON = 1_778_241_600_000
THREAD = Thread("default", "t1", "ann", NOON, NOON, title="Marta", tags=("family",))
TURNS = (
    Turn("t-1", "m1", "user", "ann", "My sister is moving!", NOON),
    Turn(
        "t-2", "m2", "assistant", "helper", "To where?", NOON + 1000, reasoning="ask back", model="qwen3-8b"
    ),
    Turn("t-3", "m3", "user", "ann", "To Lisbon.", NOON + 2000),
)
CELL = Memcell("c-1", ("t-1", "t-2"), "gap")
PART = TranscriptPart(THREAD, 1, TURNS, (CELL,))
TEXT = render_part(PART)


def changed(*edits: tuple[str, str], expected: int = 3, header_is_current: bool = True) -> Revision:
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return compare(parse_part(text), PART, expected=expected, header_is_current=header_is_current)


@pytest.mark.parametrize(
    ("old", "new", "revised"),
    [
        (
            "user · ann · 2026-05-08T12:00:02",
            "user · eve · 2026-05-08T12:00:02",
            replace(TURNS[2], sender_id="eve"),
        ),
        ("ask back", "be curious", replace(TURNS[1], reasoning="be curious")),
        ("- reasoning: ask back\n", "", replace(TURNS[1], reasoning=None)),
        ("%% id: m3 %%\n", "%% id: m3 %%\n- edited: yes\n", TURNS[2]),
        ("Lisbon", "Porto", replace(TURNS[2], content="To Porto.")),
    ],
    ids=["sender", "reasoning", "no reasoning", "mark", "words"],
)
def test_words_sender_and_reasoning_are_a_persons_to_change(old: str, new: str, revised: Turn) -> None:
    assert changed((old, new)) == Revision(turns=[replace(revised, edited=True)])


def test_several_turns_can_be_edited_at_once() -> None:
    revision = changed(("Lisbon", "Porto"), ("My sister", "My brother"))
    assert [turn.content for turn in revision.turns] == ["My brother is moving!", "To Porto."]
    assert revision.is_complete


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n## ", "\n\n\n## "),
        lambda text: text.replace("%% memcell c-1: t-1 t-2 · gap %%\n", ""),
        lambda text: text.replace("gap %%", "gap %% [[facts/2026-05-08#^fa-1]]"),
        lambda text: text.replace("tags: [family]", "tags:\n  - family"),
        lambda text: text.replace('aliases: [Marta, "2026-05-08"]\n', ""),
        lambda text: render_part(PART, 1),
        lambda text: text.replace("> To where?", ">To where?"),
    ],
    ids=[
        "line ends",
        "byte order mark",
        "blank lines",
        "memcell marker gone",
        "a link of before",
        "tags as a list",
        "aliases gone",
        "version 1",
        "quote without space",
    ],
)
def test_what_an_editor_does_to_the_form_is_no_revision(change: Callable[[str], str]) -> None:
    assert compare(parse_part(change(TEXT)), PART, expected=3, header_is_current=True) == Revision()


def test_a_mark_that_is_gone_is_no_revision() -> None:
    """An editor that had the file open when the mark was written saves it without."""
    ours = replace(PART, turns=(replace(TURNS[0], edited=True), *TURNS[1:]))
    assert compare(parse_part(TEXT), ours, expected=3, header_is_current=True) == Revision()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("id: m3 %%", "id: m9 %%"),
        ("%% id: m3 %%\n", ""),
        ("## assistant", "## user"),
        ("12:00:02.000Z", "12:00:03.000Z"),
        ("- model: qwen3-8b", "- model: gpt-9"),
        ("id: m3 %%", "id: m3 · tool_call_id: x %%"),
        ("aliases: [Marta, ", "aliases: [Marta, my sister, "),
        ("> To Lisbon.", ">"),
        ("> To Lisbon.", "> \\u{0}"),
        ("> To Lisbon.", "> To Porto,\nI think."),
        ("%% memcell c-1: t-1 t-2", "%% memcell c-1: t-1 t-3"),
        ("gap %%", "gap %% [[notes/mine]]"),
        ("part: 1", "part: 2"),
        ("owner: users/ann", "owner: users/eve"),
        ("title: Marta", "title: Marta\ncssclasses: wide"),
        ("title: Marta", f"title: {'x' * 1001}"),
        ("kind: transcript", "kind: : :"),
        ("> To Lisbon.\n", "> To Lisbon.\n\na remark\n"),
        (
            "> To Lisbon.\n",
            "> To Lisbon.\n\n## user · eve · 2026-05-08T12:00:09Z ^t-4\n- id: m4\n\n> Me too!\n",
        ),
    ],
)
def test_what_is_not_a_persons_to_change_is_named_and_not_applied(old: str, new: str) -> None:
    revision = changed((old, new))
    assert revision.turns == []
    assert revision.header == {}
    assert revision.refused
    assert not revision.is_complete


def test_an_edit_beside_something_that_cannot_be_taken_in_is_taken_in_all_the_same() -> None:
    revision = changed(("Lisbon", "Porto"), ("\n## assistant", "\na remark\n\n## assistant"))
    assert [turn.content for turn in revision.turns] == ["To Porto."]
    assert not revision.is_complete


def test_a_turn_that_is_gone_is_named() -> None:
    start, end = TEXT.index("## assistant"), TEXT.index("%% memcell")
    revision = compare(parse_part(TEXT[:start] + TEXT[end:]), PART, expected=3, header_is_current=True)
    assert revision.removed == ["t-2"]
    assert not revision.is_complete


def test_a_turn_that_came_after_the_file_was_opened_is_not_gone() -> None:
    text = TEXT[: TEXT.rindex("## user")]
    assert compare(parse_part(text), PART, expected=2, header_is_current=True) == Revision()


def test_turns_in_another_order_are_named() -> None:
    start = TEXT.rindex("## user")
    first = TEXT.index("## user")
    revision = compare(
        parse_part(TEXT[:first] + TEXT[start:] + "\n" + TEXT[first:start]),
        PART,
        expected=3,
        header_is_current=True,
    )
    assert revision.refused == ["the turns stand in another order"]


@pytest.mark.parametrize(
    ("old", "new", "header"),
    [
        ("title: Marta", "title: Porto", {"title": "Porto"}),
        ("title: Marta\n", "", {"title": None}),
        ("tags: [family]", "tags: [family, trip, trip]", {"tags": ("family", "trip")}),
        ("tags: [family]\n", "", {"tags": ()}),
    ],
)
def test_title_and_tags_are_a_persons_to_change(old: str, new: str, header: dict[str, object]) -> None:
    assert changed((old, new)) == Revision(header=header)


def test_a_title_that_was_changed_elsewhere_meanwhile_is_not_changed_back() -> None:
    revision = changed(("title: Marta", "title: Porto"), header_is_current=False)
    assert revision.header == {}
    assert not revision.is_complete


def test_a_later_part_has_no_title_to_change() -> None:
    second = replace(PART, part=2)
    assert compare(parse_part(render_part(second)), second, expected=3, header_is_current=True) == Revision()
