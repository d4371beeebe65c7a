"""The index note of a user, as it is rendered and recognised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.markdown.front_matter import split_front_matter
from recollect.domain.markdown.index_note import MOST_DAYS, MOST_LINKS, is_own_index, render_index

ANN = "default/users/ann"
FILES = [
    f"{ANN}/profile.md",
    f"{ANN}/episodes/2026-05-08.md",
    f"{ANN}/episodes/2026-05-08-2.md",
    f"{ANN}/episodes/2026-05-09.md",
    f"{ANN}/facts/2026-05-09.md",
    f"{ANN}/notes/my plans/Porto 你好.md",
]
SKILL = "default/agents/helper/skills/free-a-disk/SKILL.md"


def rendered(files: list[str], skills: list[str] | None = None) -> str:
    text = render_index(ANN, files, skills or [])
    assert text is not None
    return text


def test_it_links_to_the_profile_days_skills_and_notes_newest_days_first() -> None:
    text = rendered(FILES, [SKILL])
    assert text.partition("# ann\n")[2] == (
        "\n[[profile]]\n"
        "\n## Days\n"
        "\n- [[episodes/2026-05-09|2026-05-09]]\n"
        "- [[episodes/2026-05-08-2|2026-05-08-2]]\n"
        "- [[episodes/2026-05-08|2026-05-08]]\n"
        "\n## Skills\n"
        "\n- [[agents/helper/skills/free-a-disk/SKILL|free-a-disk]]\n"
        "\n## Notes\n"
        "\n- [[notes/my plans/Porto 你好]]\n"
    )
    header, _, problems = split_front_matter(text)
    assert problems == ()
    assert header is not None
    assert (header["kind"], header["owner"]) == ("index", "users/ann")


def test_where_there_is_nothing_to_link_to_there_is_no_note() -> None:
    assert render_index(ANN, []) is None
    assert render_index(ANN, [f"{ANN}/facts/2026-05-09.md"]) is None


@pytest.mark.parametrize(
    "name", ["a]b", "a[b", "a#b", "a^b", "a|b", "a%%b", "a\\b", "a\nb", "a\udcffb", "a\u2028b"]
)
def test_a_name_that_no_link_can_hold_is_left_out(name: str) -> None:
    assert rendered([*FILES, f"{ANN}/notes/{name}.md", f"{ANN}/notes/x.markdown"]) == rendered(FILES)


def test_of_very_many_files_the_newest_days_and_the_first_notes_are_linked_and_the_rest_is_counted() -> None:
    days = [f"{ANN}/episodes/{year}-01-{day:02}.md" for year in range(2000, 2020) for day in range(1, 29)]
    notes = [f"{ANN}/notes/{number:04}.md" for number in range(MOST_LINKS + 1)]
    text = rendered([*days, *notes])
    assert (text.count("[[episodes/"), text.count("[[notes/")) == (MOST_DAYS, MOST_LINKS)
    assert "[[episodes/2019-01-28|" in text
    assert "[[notes/0500]]" not in text
    assert (f"- and {len(days) - MOST_DAYS} more\n" in text, "- and 1 more\n" in text) == (True, True)


@given(st.permutations(FILES))
def test_the_same_files_give_the_same_bytes(files: list[str]) -> None:
    assert rendered(files) == rendered(FILES)


def test_a_note_of_ours_is_known_by_its_digest_and_any_change_makes_it_a_persons() -> None:
    text = rendered(FILES, [SKILL])
    assert is_own_index(text)
    assert is_own_index("\ufeff" + text.replace("\n", "\r\n"))
    for theirs in (f"{text}Mine.\n", text.replace("ann", "bob"), text[:-1], "# Mine\n", "", "---\n---\n"):
        assert not is_own_index(theirs)
