"""The index note of a user: how it is rendered and recognised, and when it is written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.markdown.front_matter import split_front_matter
from recollect.domain.markdown.index_note import MOST_DAYS, MOST_LINKS, is_own_index, render_index
from recollect.domain.paths import index_path
from recollect.errors import StorageUnavailable
from recollect.infra.journal.entry_files import SqlSkillFiles
from recollect.service.vault.index_notes import IndexNotes
from recollect.service.vault.notes import NoteFollower
from recollect.service.vault.reader import EditReports, VaultReader
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault

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
    text = render_index(ANN, "ann", files, skills or [])
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
    assert render_index(ANN, "ann", []) is None
    assert render_index(ANN, "ann", [f"{ANN}/facts/2026-05-09.md"]) is None


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


class House:
    """A journal and a vault whose notes are followed, and the index note of the one who writes them."""

    def __init__(self, journal: Journal, vault: PersonsVault) -> None:
        self.files = vault.files
        self.index = IndexNotes(journal.notes, SqlSkillFiles(journal.database, clock=journal.clock), vault)
        self.notes = NoteFollower(journal.notes, vault, VaultReader(vault), EditReports(), self.index.changed)

    async def save(self, name: str, text: str = "Porto.") -> None:
        self.files[f"{ANN}/notes/{name}.md"] = text
        await self.notes.look_at([f"{ANN}/notes/{name}.md"])
        await self.index.write_due()

    def links(self) -> list[str]:
        return re.findall(r"\[\[notes/(.*)\]\]", self.files.get(index_path(ANN), ""))


@pytest.fixture
def house(journal: Journal, vault: PersonsVault) -> House:
    return House(journal, vault)


async def test_where_the_same_files_are_there_the_vault_is_not_looked_at(house: House) -> None:
    await house.save("plans")
    assert house.links() == ["plans"]
    del house.files[index_path(ANN)]
    await house.save("plans", "Lisbon.")
    assert house.links() == []
    await house.save("treasure")
    assert house.links() == ["plans", "treasure"]


async def test_a_note_that_went_with_the_folder_comes_back_with_the_files_that_are_there_again(
    house: House,
) -> None:
    await house.save("plans")
    del house.files[index_path(ANN)]
    await house.index.forget("default")
    assert house.links() == ["plans"]


async def test_forgetting_waits_until_the_note_can_be_written(
    house: House, vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise StorageUnavailable("the disk is full")

    await house.save("plans")
    await house.save("treasure")
    del house.files[f"{ANN}/notes/treasure.md"]
    monkeypatch.setattr(vault, "write_unless_foreign", full)
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await house.index.forget("default")
    await house.index.forget("another")
    monkeypatch.undo()
    await house.index.forget("default")
    assert house.links() == ["plans"]
