"""A part of a transcript comes back exactly, and damage stays where it is."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from recollect.domain.markdown.transcript import is_rendered, parse_part, render_part, render_turn
from recollect.domain.model import (
    MAX_TIMESTAMP,
    ROLES,
    JsonObject,
    Memcell,
    Status,
    Thread,
    TranscriptPart,
    Turn,
)
from tests.unit.awkward_text import texts, unhurried, words

DESIGN_SAMPLE = """\
## user · ann · 2026-05-08T14:03:00.000Z ^t-12

> My sister Marta is moving to Porto!

## assistant · 2026-05-08T14:03:04.120Z ^t-13

> That is lovely news. When does she leave?

%% memcell c-9a1f04: t-12 t-13 %%
"""
THREAD = Thread("default", "t1", "ann", created=1_778_248_980_000, updated=1_778_248_980_000, title="Marta")
MARTA = Turn("t-12", "m1", "user", "ann", "My sister Marta is moving to Porto!", 1_778_248_980_000)
ANSWER = Turn("t-13", "m2", "assistant", "assistant", "Lovely.\n\nWhen?", 1_778_248_984_120, model="qwen3-8b")
LATER = Turn("t-14", "m3", "user", "ann", "In June.", 1_778_248_990_000)
PART = TranscriptPart(THREAD, 1, (MARTA, ANSWER, LATER), (Memcell("c-9a1f04", ("t-12", "t-13"), "gap"),))

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
_objects: st.SearchStrategy[list[JsonObject] | None] = st.none() | st.lists(
    st.dictionaries(texts, _json, max_size=2), max_size=2
)
_statuses: list[Status] = ["queued", "streaming", "complete", "partial", "failed"]
_times = st.integers(0, MAX_TIMESTAMP)
_optional = st.none() | words

_threads = st.builds(
    Thread,
    space=words,
    thread_id=words,
    user_id=words,
    created=_times,
    updated=_times,
    agent_id=_optional,
    title=st.none() | texts,
    tags=st.lists(words, max_size=3).map(tuple),
    preset=_optional,
    backend=_optional,
    pinned=st.booleans(),
    archived=st.booleans(),
    one_shot=st.booleans(),
    incognito=st.booleans(),
    turn_count=st.integers(0, 1000),
)
_turns = st.builds(
    Turn,
    turn_id=st.integers(0, 10**6).map("t-{}".format) | words,
    message_id=words,
    role=st.sampled_from(ROLES),
    sender_id=words | st.sampled_from(["", *ROLES]),
    content=texts,
    timestamp=_times,
    parts=_objects,
    tool_calls=_objects,
    tool_call_id=_optional,
    reasoning=st.none() | texts,
    parent_id=_optional,
    model=_optional,
    status=st.sampled_from(_statuses),
    skip_reason=_optional,
    edited=st.booleans(),
)


_LINKS = ("episodes/2026-05-08#^ep-3f9a2c71d0", "facts/2026-05-08-2#^fa-1", "foresight/plans#^fo-1")


@st.composite
def _parts(draw: st.DrawFn, at_least: int = 0) -> TranscriptPart:
    turns = draw(st.lists(_turns, min_size=at_least, max_size=3, unique_by=lambda turn: turn.turn_id))
    turn_ids = st.sampled_from([turn.turn_id for turn in turns]) | words if turns else words
    memcells = st.builds(
        Memcell,
        memcell_id=words,
        turn_ids=st.lists(turn_ids, max_size=4).map(tuple),
        reason=st.sampled_from(["gap", "topic", "flush"]) | texts,
        links=st.lists(st.sampled_from(_LINKS), max_size=2, unique=True).map(tuple),
    )
    return TranscriptPart(
        draw(_threads),
        draw(st.integers(1, 3)),
        tuple(turns),
        tuple(draw(st.lists(memcells, max_size=3, unique_by=lambda memcell: memcell.memcell_id))),
    )


def _in_file(thread: Thread, part: int) -> Thread:
    """What of a thread a part holds."""
    if part == 1:
        return replace(thread, updated=thread.created, turn_count=0)
    return Thread(thread.space, thread.thread_id, thread.user_id, created=0, updated=0)


def _without_line(text: str, line: int) -> str:
    lines = text.split("\n")
    del lines[line - 1]
    return "\n".join(lines)


def _damaged(part: TranscriptPart, old: str, new: str) -> str:
    text = render_part(part)
    assert text.count(old) == 1
    return text.replace(old, new)


@unhurried
@given(_parts(), st.sampled_from([1, 2]))
def test_every_part_comes_back_exactly_though_an_editor_changed_its_line_ends(
    part: TranscriptPart, version: int
) -> None:
    text = render_part(part, version)
    for written in (text, "\ufeff" + text.replace("\n", "\r\n")):
        parsed = parse_part(written)
        assert (parsed.thread, parsed.part, parsed.turns, parsed.memcells, parsed.problems) == (
            _in_file(part.thread, part.part), part.part, part.turns, part.memcells, (),
        )  # fmt: skip
        assert (parsed.unknown, parsed.aliases) == ((), ())
        links = [memcell.links if version > 1 else () for memcell in part.memcells]
        assert [memcell.links for memcell in parsed.memcells] == links
    assert is_rendered(text, part)


@unhurried
@given(_turns)
def test_every_turn_has_as_many_lines_for_any_editor_as_for_us(turn: Turn) -> None:
    text = render_turn(turn)
    assert text.splitlines() == text.removesuffix("\n").split("\n")


_DAMAGE = (
    "", "---", "> forged", ">", "## ", "## notes", "## user · eve · 2026-05-08T14:03:00.000Z ^forged",
    "# notes", "%%", "%% memcell forged: t-12 · gap %%", "%% mine %%", "%% id: forged %%", "- id: forged", "- forged: x",
    "- parts: [", "forged", "  > x",
)  # fmt: skip


@settings(unhurried)
@given(_parts(at_least=2), st.none() | st.sampled_from(_DAMAGE) | texts, st.data())
def test_damage_to_one_line_leaves_all_other_turns_intact(
    part: TranscriptPart, damage: str | None, data: st.DataObject
) -> None:
    # A line that takes the name of another turn makes a second one: nobody can say which is meant.
    assume(not any(damage and damage.strip().endswith(f"^{turn.turn_id}") for turn in part.turns))
    lines = render_part(part).split("\n")
    at = data.draw(st.integers(0, len(lines) - 1), label="line")
    owner = sum(line.startswith("## ") for line in lines[: at + 1]) - 1
    lines[at : at + 1] = [] if damage is None else [damage.replace("\n", " ")]
    turns = parse_part("\n".join(lines)).turns
    assert [turn for place, turn in enumerate(part.turns) if place != owner and turn not in turns] == []


@unhurried
@given(texts)
def test_any_text_at_all_is_parsed_without_an_exception(text: str) -> None:
    assert parse_part(text).thread is None


def test_a_part_has_the_form_that_people_know() -> None:
    assert render_part(replace(PART, turns=PART.turns[:2])) == (
        '---\nrecollect: 2\nkind: transcript\nspace: default\nowner: users/ann\nthread: t1\npart: 1\n'
        'aliases: [Marta, "2026-05-08"]\ncreated: "2026-05-08T14:03:00.000Z"\ntitle: Marta\n---\n'
        "\n## user · ann · 2026-05-08T14:03:00.000Z ^t-12\n%% id: m1 %%\n\n"
        "> My sister Marta is moving to Porto!\n"
        "\n## assistant · 2026-05-08T14:03:04.120Z ^t-13\n%% id: m2 %%\n- model: qwen3-8b\n\n"
        "> Lovely.\n>\n> When?\n"
        "\n%% memcell c-9a1f04: t-12 t-13 · gap %%\n"
    )  # fmt: skip


def test_a_memcell_may_begin_in_an_earlier_part() -> None:
    part = TranscriptPart(THREAD, 2, (LATER,), (Memcell("c-2", ("t-13", "t-14"), "flush"),))
    assert parse_part(render_part(part)).memcells == part.memcells


def test_a_memcell_links_to_the_memories_made_of_it_and_files_without_the_links_are_sound() -> None:
    cell = replace(PART.memcells[0], links=_LINKS[:2])
    linked = replace(PART, memcells=(cell,))
    marker = "%% memcell c-9a1f04: t-12 t-13 · gap %%"
    assert f"\n{marker} [[{_LINKS[0]}]] [[{_LINKS[1]}]]\n" in render_part(linked)
    assert all(is_rendered(render_part(PART, version), linked) for version in (1, 2))
    assert not is_rendered(render_part(linked), PART)
    assert len(parse_part(_damaged(linked, _LINKS[0], "notes/mine#^x")).problems) == 1


def test_the_sample_in_the_design_is_read() -> None:
    parsed = parse_part(DESIGN_SAMPLE)
    assert [(turn.turn_id, turn.role, turn.sender_id, turn.content) for turn in parsed.turns] == [
        ("t-12", "user", "ann", "My sister Marta is moving to Porto!"),
        ("t-13", "assistant", "", "That is lovely news. When does she leave?"),
    ]
    assert parsed.memcells == (Memcell("c-9a1f04", ("t-12", "t-13"), ""),)


@pytest.mark.parametrize(
    ("old", "new", "line", "anchor"),
    [
        ("## user · ann · 2026-05-08T14:03:00.000Z", "## user · ann · yesterday", 13, None),
        ("2026-05-08T14:03:04.120Z", "2026-13-08T14:03:04.120Z", 18, None),
        ("%% id: m1 %%\n", "", 13, "t-12"),
        ("%% id: m1 %%", "- id:", 14, "t-12"),
        ("id: m2 %%", 'id: "m2 %%', 19, "t-13"),
        ("%% id: m2 %%", "%% id: m2 %%\n- parts: [", 20, "t-13"),
        ("%% id: m2 %%", '%% id: m2 %%\n- parts: {"a": 1}', 20, "t-13"),
        ("id: m2 %%", 'id: m2 · parent: "\\ud800" %%', 19, "t-13"),
        ("%% id: m2 %%", "%% id: m2 %%\n- status: asleep", 20, "t-13"),
        ("%% id: m2 %%", "%% id: m2 %%\n- mood: good", 20, "t-13"),
        ("%% id: m2 %%", "%% id: m2 %%\n- id: m9", 20, "t-13"),
        ("%% id: m2 %%", "%% id: m2 · id: m9 %%", 19, "t-13"),
        ("%% id: m1 %%", "%% id: m1 %%\n%% mine %%", 15, None),
        ("> Lovely.", "Lovely.", 22, "t-13"),
        ("> Lovely.\n>\n> When?\n", "", 18, "t-13"),
        (">\n", "But:\n", 23, "t-13"),
        (">\n", "\n", 24, "t-13"),
        ("> In June.\n", "> In June.\n\nMy own thoughts.\nMore.\n", 33, None),
        ("memcell c-9a1f04: t-12 t-13 · gap %%", "memcell c-9a1f04 t-12 t-13 · gap %%", 26, None),
        ("gap %%\n", "gap %%\n%% memcell c-9a1f04: t-14 %%\n", 27, None),
        ("^t-13", "^t-12", 18, "t-12"),
    ],
)
def test_damage_is_reported_once_with_its_line(old: str, new: str, line: int, anchor: str | None) -> None:
    problems = parse_part(_damaged(PART, old, new)).problems
    assert [(problem.line, problem.anchor) for problem in problems] == [(line, anchor)]


@pytest.mark.parametrize("between", ["no mark\n", "- id: x\n"])
def test_an_interrupted_quote_yields_what_is_quoted(between: str) -> None:
    assert parse_part(_damaged(PART, ">\n", between)).turns[1].content == "Lovely.\nWhen?"


def test_a_turn_without_its_heading_is_reported_and_does_not_run_into_the_turn_above() -> None:
    parsed = parse_part(_without_line(render_part(PART), 18))
    assert (parsed.turns, parsed.problems[0].line) == ((MARTA, LATER), 18)


def test_of_two_turns_with_one_id_the_intact_one_is_kept() -> None:
    forged = "## user · ann · 2026-05-08T14:03:00.000Z ^t-14\n\n> forged\n\n## assistant"
    assert parse_part(_damaged(PART, "## assistant", forged)).turns == PART.turns


def test_of_two_intact_turns_with_one_id_the_first_is_kept() -> None:
    text = render_part(PART) + "\n" + render_turn(replace(LATER, content="again"))
    assert parse_part(text).turns == PART.turns


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("owner: users/ann", "owner: [", "not YAML"),
        ("owner: users/ann\n", "", "no owner"),
        ("owner: users/ann", "owner: agents/ann", "owner"),
        ("thread: t1", "thread: [t1]", "thread is not text"),
        ("part: 1", "part: one", "part"),
        ("kind: transcript", "kind: episodes", "kind episodes, not transcript"),
        ("recollect: 2", "recollect: 3", "this code reads version 2"),
        ("recollect: 2\n", "", "no format version"),
        ('"2026-05-08T14:03:00.000Z"\ntitle', "yesterday\ntitle", "UTC time"),
        ("title: Marta", "title: {a: b}", "title is not text"),
        ("title: Marta", "tags: [[a]]", "tags"),
        ("title: Marta", "incognito: maybe", "incognito"),
        ("---\n\n", "\n", "not closed"),
    ],
)
def test_damaged_front_matter_is_reported(old: str, new: str, message: str) -> None:
    parsed = parse_part(_damaged(PART, old, new))
    assert (parsed.thread, [message in problem.message for problem in parsed.problems]) == (None, [True])


def test_turns_are_read_below_damaged_front_matter() -> None:
    assert parse_part(_damaged(PART, "owner: users/ann", "owner: [")).turns == PART.turns


def test_a_sender_that_is_the_role_is_said_once_and_one_that_is_nobody_is_told_from_it() -> None:
    unnamed = replace(ANSWER, sender_id="")
    assert "\n## assistant · 2026-05-08T14:03:04.120Z ^t-13\n" in render_part(PART)
    for answer in (ANSWER, unnamed):
        for version in (1, 2):
            part = replace(PART, turns=(MARTA, answer))
            assert parse_part(render_part(part, version)).turns == part.turns


def test_aliases_are_title_and_day_and_any_other_is_a_persons() -> None:
    assert parse_part(_damaged(PART, "[Marta, ", "[Marta, my sister, ")).aliases == ("my sister",)
    assert parse_part(render_part(PART)).aliases == ()
    odd = parse_part(_damaged(PART, "[Marta, ", "[[Marta], "))
    assert (odd.thread, len(odd.problems)) == (parse_part(render_part(PART)).thread, 1)
    second = render_part(replace(PART, part=2))
    assert '\naliases: ["2026-05-08"]\n' in second


def test_what_obsidian_does_to_properties_is_understood() -> None:
    text = _damaged(
        PART, "title: Marta", "title: 2026-05-08 # a date\ntags:\n  - porto\n  - 7\ncssclasses: wide"
    )
    assert parse_part(text).thread == replace(THREAD, title="2026-05-08", tags=("porto", "7"))
