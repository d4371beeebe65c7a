"""A skill is a file that agents read and people change; what they wrote there stays."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from skills_ref.parser import parse_frontmatter
from skills_ref.validator import validate_metadata

from recollect.domain.extraction.answer import plain_line
from recollect.domain.extraction.skill import Example, Skill, agents_name, skill_description
from recollect.domain.markdown.skill_file import for_agents, parse_skill, refused_by_agents, render_skill
from recollect.domain.markdown.skill_merge import (
    in_persons_words,
    is_as_written,
    merge_skill,
    sealed,
    without_forgotten,
)
from tests.unit.awkward_text import texts, unhurried

TASK = "Find out why the backup failed"
EXAMPLES = tuple(
    Example(f"cases/2026-05-0{number}#^ca-{number}", outcome, TASK)
    for number, outcome in enumerate(("worked", "worked", "failed"), 1)
)
SKILL = Skill(
    "find-out-backup-failed",
    f"For tasks such as: {TASK} (tools: read_log, delete_files)",
    when=(TASK,),
    steps=("`read_log`: path = /var/log", "`delete_files`: pattern = old-*"),
    examples=EXAMPLES[:2],
    tools=("read_log", "delete_files"),
    cases=("ca-1", "ca-2"),
)
BETTER = replace(
    SKILL,
    pitfalls=("`read_log`: path = /tmp -> failed: no such file",),
    examples=EXAMPLES,
    cases=("ca-1", "ca-2", "ca-3"),
)


# The file


FILE = """\
---
name: find-out-backup-failed
description: "For tasks such as: Find out why the backup failed (tools: read_log, delete_files)"
metadata:
  recollect: "1"
  tools: "read_log, delete_files"
  cases: "ca-1, ca-2"
---

# Find out backup failed

## When to use
- Find out why the backup failed

## Steps
1. `read_log`: path = /var/log
2. `delete_files`: pattern = old-*

## Examples
- [[cases/2026-05-01#^ca-1]] worked: Find out why the backup failed
- [[cases/2026-05-02#^ca-2]] worked: Find out why the backup failed
"""


def test_a_skill_is_a_file_that_agents_read() -> None:
    assert render_skill(SKILL) == FILE


_lines = texts.map(plain_line).filter(bool)
_items = st.lists(
    _lines.filter(lambda line: not line.startswith(("-", "*", "+")) and not line[:1].isdigit()), max_size=3
)
_skills = st.builds(
    Skill,
    name=st.just("mend-backups"),
    description=_lines,
    when=_items.map(tuple),
    steps=_items.map(tuple),
    pitfalls=_items.map(tuple),
    examples=st.lists(
        st.builds(Example, st.just("cases/1#^ca-1"), st.just("worked"), _lines), max_size=2
    ).map(tuple),
    tools=st.lists(_lines, max_size=2).map(tuple),
    cases=st.lists(_lines, max_size=2).map(tuple),
    edited=st.lists(_lines, max_size=2).map(tuple),
)


@unhurried
@given(_skills)
def test_every_skill_is_read_back_as_it_was_written(skill: Skill) -> None:
    assert parse_skill(render_skill(skill)).skill == skill


def refusals(text: str, folder: str) -> list[str]:
    """What the reference validator of the Agent Skills specification says of a file."""
    found: list[str] = validate_metadata(parse_frontmatter(text)[0], Path(folder))
    return found


@unhurried
@given(_skills)
def test_the_reference_validator_accepts_every_skill(skill: Skill) -> None:
    assert (
        refusals(render_skill(replace(skill, description=skill_description(skill.description))), skill.name)
        == []
    )


OLD = FILE.replace('"1"', "1").replace('"read_log, delete_files"', "[read_log, delete_files]")
OLD = OLD.replace('"ca-1, ca-2"', "[ca-1, ca-2]")


def test_a_file_with_lists_in_brackets_is_read_and_written_as_agents_read_it() -> None:
    assert parse_skill(OLD).skill == SKILL
    merged = merge_skill(OLD, OLD, BETTER)
    assert (merged.text, merged.kept) == (render_skill(BETTER), ())
    assert in_persons_words(OLD, SKILL, OLD) == FILE


THEIRS = OLD.replace(
    "metadata:\n", "tags: [a, b]\nallowed-tools: [Read, Bash]\nmetadata:\n  owner:\n    team: a---b\n"
).replace("name: find-out-backup-failed", "name: Backups!")


def test_whatever_a_person_wrote_into_the_front_matter_is_exported_as_agents_read_it() -> None:
    with pytest.raises(Exception, match="YAML"):
        refusals(THEIRS, "backups")
    text = for_agents(THEIRS, "backups")
    assert refusals(text, "backups") == []
    metadata = parse_frontmatter(text)[0]
    assert metadata["allowed-tools"] == "Read Bash"
    assert metadata["metadata"] | {"tags": "a, b", "owner": '{"team": "a---b"}'} == metadata["metadata"]
    assert text.partition("---\n\n")[2] == FILE.partition("---\n\n")[2]
    assert for_agents(FILE, SKILL.name) == FILE


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tags: a", "goes below metadata"),
        ("license: [MIT]", "license: must be a text"),
        ("compatibility: " + "x" * 501, "500 characters"),
        ("license: a---b", "three hyphens"),
    ],
)
def test_front_matter_that_agents_refuse_is_told_before_it_is_written(line: str, why: str) -> None:
    assert refused_by_agents(FILE) is None
    assert refused_by_agents(OLD) is None
    assert why in str(refused_by_agents(FILE.replace("metadata:", f"{line}\nmetadata:")))


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        ("free-disk", "free-disk"),
        ("проверка-диска", "проверка-диска"),
        ("Größe prüfen", "grosse-prufen"),
        ("清理 磁盘", "read-log"),
        ("ดิสก์เต็ม", "read-log"),
        ("con", "con-skill"),
        ("-a--b-", "a-b"),
        ("x" * 65, "read-log"),
        ("taken", "taken-2"),
    ],
)
def test_a_name_in_any_script_is_one_that_the_validator_accepts(chosen: str, name: str) -> None:
    assert agents_name(chosen, ["read_log"], ["taken"]) == name
    assert refusals(for_agents(FILE, name), name) == []


@unhurried
@given(texts)
def test_no_file_breaks_the_reader(text: str) -> None:
    assert parse_skill(text).skill is None or text.startswith("---")
    assert parse_skill(FILE + text).skill is not None


def test_what_people_do_to_lists_is_understood() -> None:
    edited = FILE.replace("1. `read_log`: path = /var/log\n", "* Read the\n  log first.\n\nThen think.\n\n")
    parsed = parse_skill(edited).skill
    assert parsed is not None
    assert parsed.steps == ("Read the log first.", "Then think.", "`delete_files`: pattern = old-*")


# A person at work on it


def test_a_file_that_nobody_touched_is_written_again() -> None:
    merged = merge_skill(FILE, FILE, BETTER)
    assert (merged.text, merged.kept, merged.conflicts) == (render_skill(BETTER), (), ())
    assert merge_skill(None, None, BETTER).text == render_skill(BETTER)


def test_a_section_that_a_person_changed_stays_and_the_others_improve() -> None:
    theirs = FILE.replace("1. `read_log`: path = /var/log", "1. Ask the operator first.")
    merged = merge_skill(FILE, theirs, BETTER)
    assert "1. Ask the operator first." in merged.text
    assert "no such file" in merged.text
    assert "ca-3" in merged.text
    assert merged.kept == ("steps",)
    assert merged.conflicts == ("steps",)


def test_what_a_person_wrote_stays_for_ever() -> None:
    theirs = FILE.replace("1. `read_log`: path = /var/log", "1. Ask the operator first.")
    text = merge_skill(FILE, theirs, BETTER).text
    again = merge_skill(text, text, replace(BETTER, steps=("Something else.",)))
    assert "1. Ask the operator first." in again.text
    assert "Something else." not in again.text
    assert (again.kept, again.conflicts) == (("steps",), ())


def test_what_a_person_added_stays_where_it_was() -> None:
    theirs = FILE.replace("## Steps", "## Safety\nNever on Fridays.\n\n## Steps").replace(
        "metadata:\n", "license: MIT # ours\nmetadata:\n  owner:\n    team: ops\n"
    )
    text = merge_skill(FILE, theirs, BETTER).text
    assert text.index("## When to use") < text.index("## Safety\nNever on Fridays.\n\n## Steps")
    assert "license: MIT # ours\n" in text
    assert "  owner:\n    team: ops\n" in text
    assert parse_skill(text).problems == ()


def test_a_section_of_ours_that_a_person_wrote_first_is_theirs() -> None:
    assert "## Pitfalls" not in FILE
    theirs = FILE + "\n## Pitfalls\n- Never on Fridays.\n"
    merged = merge_skill(FILE, theirs, BETTER)
    assert "- Never on Fridays." in merged.text
    assert merged.kept == ("pitfalls",)


def test_a_persons_text_keeps_our_properties_and_marks_what_is_theirs() -> None:
    standing = replace(SKILL, edited=("when to use",))
    theirs = "---\nname: x\ndescription: Mine.\nlicense: MIT\n---\n# X\n\n## Steps\n1. Ask.\n"
    written = in_persons_words(FILE, standing, theirs)
    skill = parse_skill(written).skill
    assert skill is not None
    assert (skill.cases, skill.tools) == (SKILL.cases, SKILL.tools)
    assert set(skill.edited) == {"description", "when to use", "steps", "examples", "(top)"}
    assert written.endswith("---\n\n# X\n\n## Steps\n1. Ask.\n")
    assert "license: MIT\n" in written
    assert in_persons_words(FILE, skill, FILE, undo=True) == FILE


def test_what_a_person_removed_does_not_come_back() -> None:
    begin, end = FILE.index("## When to use"), FILE.index("## Steps")
    text = merge_skill(FILE, FILE[:begin] + FILE[end:], BETTER).text
    assert "## When to use" not in text
    assert "## When to use" not in merge_skill(text, text, BETTER).text


def test_a_description_that_a_person_wrote_stays() -> None:
    parsed = parse_skill(FILE).skill
    assert parsed is not None
    theirs = FILE.replace(json.dumps(parsed.description), "Mends backups.")
    merged = merge_skill(FILE, theirs, replace(BETTER, description="Another one."))
    assert "description: Mends backups.\n" in merged.text
    assert merged.conflicts == ("description",)


def test_a_section_that_has_nothing_left_goes() -> None:
    written = render_skill(BETTER)
    assert "## Pitfalls" in written
    assert "## Pitfalls" not in merge_skill(written, written, replace(BETTER, pitfalls=())).text


def test_blank_space_and_other_line_ends_are_no_change() -> None:
    theirs = FILE.replace("\n## ", "\n\n## ").replace("\n", "\r\n")
    merged = merge_skill(FILE, theirs, BETTER)
    assert merged.kept == ()


def test_a_file_that_cannot_be_read_is_left_alone_and_reported() -> None:
    broken = FILE.replace("---\n\n# Find", "\n# Find")
    merged = merge_skill(FILE, broken, BETTER)
    assert (merged.text, merged.conflicts) == (broken, ("front matter",))


def test_without_what_was_last_written_whatever_differs_is_a_persons() -> None:
    theirs = FILE.replace("1. `read_log`: path = /var/log", "1. Ask the operator first.")
    assert "1. Ask the operator first." in merge_skill(None, theirs, BETTER).text


@unhurried
@given(
    texts, st.sampled_from(["## When to use\n", "## Steps\n", "## Examples\n", "# Find out backup failed\n"])
)
def test_whatever_a_person_types_into_a_section_survives(text: str, place: str) -> None:
    typed = plain_line(text)
    assume(typed and not typed.startswith(("#", "```", "~~~")))
    merged = merge_skill(FILE, FILE.replace(place, f"{place}{typed}\n"), BETTER)
    assert f"{place}{typed}\n" in merged.text


@unhurried
@given(_skills, _skills)
def test_merging_over_our_own_file_gives_our_own_file(one: Skill, other: Skill) -> None:
    one, other = replace(one, edited=()), replace(other, edited=())
    assert merge_skill(render_skill(one), render_skill(one), other).text == render_skill(other)


def test_a_new_journal_tells_by_its_digest_that_nobody_touched_a_file() -> None:
    written = sealed(FILE)
    assert (is_as_written(written), is_as_written(FILE)) == (True, False)
    merged = merge_skill(None, written, BETTER)
    assert (sealed(merged.text), merged.kept, merged.conflicts) == (sealed(render_skill(BETTER)), (), ())
    touched = written.replace("## Steps", "## Steps\n0. Ask.")
    assert not is_as_written(touched)
    assert "steps" in merge_skill(None, touched, BETTER).kept


@pytest.mark.parametrize("text", ["", "---\nname: [\n---\n", sealed(FILE)])
def test_what_is_sealed_stays_as_it_is_when_it_is_sealed_again(text: str) -> None:
    assert sealed(text) == text


def test_what_a_forgotten_case_left_in_a_persons_section_goes_and_their_own_lines_stay() -> None:
    written = sealed(FILE)
    (first, *_) = parse_skill(FILE).skill.examples  # type: ignore[union-attr]
    theirs = written.replace("## When to use\n", "## When to use\n- My own line.\n- ca-1 was hard.\n")
    left = without_forgotten(theirs, replace(BETTER, when=(), examples=()), ["ca-1"], [written])
    assert "- My own line." in left
    for gone in ("[[cases/2026-05-01#^ca-1]]", "ca-1 was hard", f"- {first.task}\n"):
        assert (gone in theirs, gone in left.partition("## When")[2]) == (True, False)
