"""Entries from the command line, for people and for scripts."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.domain.entries.entry import PROFILE
from tests.http_client import QUICK, opened
from tests.processes import Server, recollect, recollect_json
from tests.unit.made_entries import DAY, WHEN, known

BOB = "default/users/bob"
FILLED = [
    known("fa-1", turns=("t-1",), extra={"subject": "Ann"}),
    known("pr-1", title="Home", kind=PROFILE, when=WHEN + DAY, by="profile, rules", extra={"fact": "fa-1"}),
    known("fa-changed", owner=BOB),
    known("fa-late", owner=BOB),
    known("fa-deleted", owner=BOB),
    known("pr-deleted", owner=BOB, kind=PROFILE, extra={"fact": "fa-deleted"}),
]
"""A fact and a line of Ann's, made of what she said; the others are each for one test."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One that is served."""
    folder = tmp_path_factory.mktemp("entries") / "home"
    asyncio.run(_fill(folder))
    with Server(folder, {**QUICK, "RECOLLECT_STRATEGIES__PROFILE__ENABLED": "false"}):
        yield folder


async def _fill(folder: Path) -> None:
    async with opened(folder) as home:
        await home.add("t1", "I live in Berlin.", user_id="ann")
        await home.put(*FILLED)


def said(home: Path, *arguments: str, text: str | None = None) -> str:
    done = recollect(home, *arguments, text=text)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_entries_are_listed_for_people_and_for_scripts(home: Path) -> None:
    listed = said(home, "entries", "--user", "ann")
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["pr-1", "profile", "users/ann"],
        ["fa-1", "facts", "users/ann"],
    ]
    found = recollect_json(home, "entries", "--user", "ann", "--kind", "facts", "--until", "2026-05-09")
    assert [entry["id"] for entry in found["entries"]] == ["fa-1"]


def test_skills_are_listed_with_their_files_and_as_entries(home: Path) -> None:
    mixed = recollect(home, "entries", "--kind", "skills", "--kind", "cases")
    assert (mixed.returncode, "skills are listed alone" in mixed.stderr) == (1, True)
    folder = home / "vault/default/agents/clerk/skills/free-disk"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: free-disk\ndescription: How to free a disk.\n---\n")
    assert said(home, "skills").splitlines() == [
        "free-disk (agent clerk, of 0 cases)",
        "  How to free a disk.",
        "  default/agents/clerk/skills/free-disk/SKILL.md",
    ]
    assert [skill["name"] for skill in recollect_json(home, "skills")["skills"]] == ["free-disk"]
    (entry,) = recollect_json(home, "entries", "--kind", "skills")["entries"]
    assert (entry["title"], entry["owner"]) == ("free-disk", "agents/clerk")


def test_a_skill_is_corrected_taken_back_and_deleted(home: Path, tmp_path: Path) -> None:
    file = home / "vault/default/agents/baker/skills/bake/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: bake\ndescription: How to bake.\n---\n")
    listed = recollect_json(home, "entries", "--kind", "skills", "--agent", "baker")
    name = listed["entries"][0]["id"]
    (tmp_path / "mine.md").write_text(file.read_text().replace("How to bake.", "How to bake bread."))
    assert f"{name} is yours now (revision 2): bake" in said(
        home, "edit", name, "--file", str(tmp_path / "mine.md")
    )
    assert "How to bake bread." in said(home, "show", name)
    assert "text changed by a person" in said(home, "history", name)
    assert "is as it was (revision 3)" in said(home, "undo", name)
    assert "bread" not in file.read_text()
    assert said(home, "why", name).startswith(name)
    refused = recollect(home, "pin", name)
    assert (refused.returncode, "a skill can't be pinned" in refused.stderr) == (1, True)
    assert said(home, "delete", name, "--yes") == f"deleted {name}\n"
    assert not file.parent.exists()


def test_a_long_list_says_how_to_go_on(home: Path) -> None:
    listed = said(home, "entries", "--user", "ann", "--limit", "1")
    assert listed.endswith("there is more: --after pr-1\n")
    rest = recollect_json(home, "entries", "--user", "ann", "--after", "pr-1")
    assert [entry["id"] for entry in rest["entries"]] == ["fa-1"]


def test_an_entry_is_shown_with_the_words_it_came_from(home: Path) -> None:
    shown = said(home, "show", "fa-1")
    assert shown.startswith("Ann lives in Berlin.\n")
    assert "id: fa-1 (facts of users/ann, revision 1)\n" in shown
    assert shown.endswith("> I live in Berlin.\n")


def test_a_memory_is_corrected_pinned_and_taken_back(home: Path) -> None:
    assert said(home, "edit", "fa-changed", "--text", "I live in Porto.") == (
        "fa-changed is yours now (revision 2): I live in Porto.\n"
    )
    assert said(home, "pin", "fa-changed").startswith("fa-changed is pinned (revision 3)")
    assert "pinned, edited" in said(home, "entries", "--user", "bob")
    assert said(home, "unpin", "fa-changed").startswith("fa-changed is no longer pinned (revision 4)")
    assert said(home, "undo", "fa-changed", "--revision", "1") == (
        "fa-changed is as it was (revision 5): Ann lives in Berlin.\n"
    )
    lines = said(home, "history", "fa-changed").splitlines()
    headings = [line.split("  ")[0] for line in lines if line.startswith("revision")]
    assert headings == ["revision 1", "revision 2", "revision 3", "revision 4", "revision 5 (in force)"]
    assert lines[0] == "revision 1  facts, rules"
    assert any(line.endswith(": text changed by a person") for line in lines)


@pytest.mark.parametrize(
    ("options", "words"),
    [([], "say what to change"), (["--text", "x", "--file", "y"], "either --text or --file")],
)
def test_an_edit_that_is_not_understood_is_refused(home: Path, options: list[str], words: str) -> None:
    refused = recollect(home, "edit", "fa-late", *options)
    assert (refused.returncode, words in refused.stderr) == (2, True)


def test_an_old_revision_is_refused_in_words(home: Path) -> None:
    said(home, "pin", "fa-late")
    late = recollect(home, "edit", "fa-late", "--text", "x", "--revision", "1")
    assert (late.returncode, "it is at revision 2, not 1" in late.stderr) == (1, True)


def test_a_deleted_memory_is_gone_with_what_was_made_of_it(home: Path) -> None:
    assert said(home, "delete", "fa-deleted") == (
        "deleted fa-deleted\ndeleted pr-deleted (profile), which was made of it\n"
    )
    undone = recollect(home, "undo", "fa-deleted")
    assert (undone.returncode, "can't be brought back" in undone.stderr) == (1, True)


def test_why_prints_the_chain_down_to_the_words(home: Path) -> None:
    assert said(home, "why", "pr-1") == (
        "pr-1 (profile, 2026-05-09 14:03:00Z): Home\n"
        "  Ann lives in Berlin.\n"
        "  made by profile, rules\n"
        "  made of:\n"
        "    fa-1 (facts, 2026-05-08 14:03:00Z): Ann lives in Berlin.\n"
        "      made by facts, rules\n"
        "      from t1 t-1, ann (user), 2026-02-02 02:40:00Z:\n"
        "        > I live in Berlin.\n"
    )
