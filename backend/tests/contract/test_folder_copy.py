"""A folder that is pulled from S3 or a shared folder, and pushed back, loses nobody's words."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from recollect.errors import Conflict, InvalidInput, StorageUnavailable
from recollect.infra.object_stores import objects_at
from recollect.infra.objects import Found
from recollect.infra.vault_objects import MARKER
from recollect.service.vault.folder_copy import RECORD, CopyReport, FolderCopy
from tests.buckets import PLACES, ObjectTexts, new_bucket, new_url
from tests.persons_vault import Files

A, B = "default/users/ann/notes/a.md", "default/users/ann/notes/b.md"


class Desk:
    """A person's folder, and the objects that it is a copy of."""

    def __init__(self, folder: Path, place: str) -> None:
        self.objects, self.folder = objects_at(new_url(place)), folder
        self.objects.make()
        self.there, self.here = ObjectTexts(self.objects), Files(folder)

    def pull(self) -> CopyReport:
        return FolderCopy(self.objects, self.folder).pull()

    def push(self, *, force: bool = False) -> CopyReport:
        return FolderCopy(self.objects, self.folder).push(force=force)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def desk(tmp_path: Path, place: str) -> Desk:
    """With two files that were pulled."""
    desk = Desk(tmp_path / "desk", place)
    desk.there[A], desk.there[B] = "a", "b"
    assert desk.pull().brought == [A, B]
    return desk


def test_what_is_pulled_is_the_same_and_a_second_pull_brings_what_changed(desk: Desk) -> None:
    desk.objects.replace("default/users/ann/images/x.png", b"\xff\x00")
    desk.there[A] = "changed"
    assert desk.pull().brought == ["default/users/ann/images/x.png", A]
    assert dict(desk.here) == dict(desk.there)
    assert (desk.folder / "default/users/ann/images/x.png").read_bytes() == b"\xff\x00"
    assert desk.pull() == CopyReport()


def test_what_was_changed_made_or_removed_here_is_pushed(desk: Desk) -> None:
    desk.here[A], desk.here["default/users/ann/notes/new.md"] = "mine", "new"
    del desk.here[B]
    assert len(desk.pull().waiting) == 3
    report = desk.push()
    assert (len(report.sent), report.removed, report.conflicts) == (2, [B], [])
    assert dict(desk.there) == dict(desk.here) == {A: "mine", "default/users/ann/notes/new.md": "new"}
    assert desk.pull() == CopyReport()


@pytest.mark.parametrize("way", ["pull", "push"])
def test_where_both_changed_a_file_both_versions_are_kept(desk: Desk, way: str) -> None:
    desk.here[A], desk.there[A] = "mine", "theirs"
    report = desk.pull() if way == "pull" else desk.push()
    (kept,) = report.conflicts
    assert kept.startswith("default/users/ann/notes/a.conflict-")
    assert desk.here[A] == desk.there[A] == "theirs"
    assert desk.here[kept] == "mine"
    desk.push()
    assert desk.there[kept] == "mine"


def test_the_same_change_on_both_sides_is_no_conflict(desk: Desk) -> None:
    desk.here[A] = desk.there[A] = "the same"
    assert desk.push().conflicts == desk.pull().conflicts == []


def test_what_was_removed_on_one_side_and_changed_on_the_other_stays(desk: Desk) -> None:
    del desk.here[A]
    desk.there[A] = "changed there"
    del desk.there[B]
    desk.here[B] = "changed here"
    desk.push()
    assert dict(desk.here) == dict(desk.there) == {A: "changed there", B: "changed here"}


def test_what_was_removed_there_goes_here_unless_it_was_changed(desk: Desk) -> None:
    desk.here[B] = "changed here"
    del desk.there[A]
    del desk.there[B]
    assert desk.pull().removed == [A]
    assert dict(desk.here) == {B: "changed here"}


def test_a_folder_that_lacks_many_files_removes_none_there_unless_it_is_forced(desk: Desk) -> None:
    for number in range(8):
        desk.there[f"default/users/ann/notes/{number}.md"] = "x"
    desk.pull()
    for number in range(5):
        del desk.here[f"default/users/ann/notes/{number}.md"]
    with pytest.raises(Conflict, match="5 of 10 files"):
        desk.push()
    assert len(desk.there) == 10
    assert len(desk.push(force=True).removed) == 5
    assert len(desk.there) == 5


def test_hidden_files_and_links_stay_where_they_are(desk: Desk, tmp_path: Path) -> None:
    (desk.folder / ".obsidian").mkdir()
    (desk.folder / ".obsidian/app.md").write_text("x")
    (tmp_path / "secret.md").write_text("x")
    (desk.folder / "link.md").symlink_to(tmp_path / "secret.md")
    assert desk.push() == CopyReport()
    assert set(desk.there) == {A, B}


def test_nothing_is_written_through_a_link_out_of_the_folder(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (desk.folder / "out").symlink_to(tmp_path / "elsewhere")
    desk.there["out/x.md"] = "x"
    with pytest.raises(InvalidInput, match="link"):
        desk.pull()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_is_a_copy_of_something_else_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="is a copy of"):
        FolderCopy(objects_at(new_url()), desk.folder)


def test_a_pull_that_was_broken_off_goes_on(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.there[A], desk.there[B] = "newer a", "newer b"
    put, puts = FolderCopy._put, list[str]()

    def once(self: FolderCopy, path: str, content: bytes) -> None:
        puts.append(path)
        if path == B and puts.count(B) == 1:
            raise KeyboardInterrupt
        put(self, path, content)

    monkeypatch.setattr(FolderCopy, "_put", once)
    with pytest.raises(KeyboardInterrupt):
        desk.pull()
    assert len(json.loads((desk.folder / RECORD).read_bytes())["files"]) == 2
    assert desk.pull() == CopyReport(brought=[B])


def test_what_is_saved_here_while_a_pull_runs_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.there[A] = "theirs"
    del desk.there[B]
    fetched = FolderCopy._fetched

    def saving(self: FolderCopy, paths: Sequence[str]) -> Iterator[tuple[str, Found | None]]:
        found = list(fetched(self, paths))
        desk.here[A], desk.here[B] = "mine", "mine, too"
        return iter(found)

    monkeypatch.setattr(FolderCopy, "_fetched", saving)
    (kept,) = desk.pull().conflicts
    assert dict(desk.here) == {A: "theirs", kept: "mine", B: "mine, too"}


def test_names_that_a_disk_takes_for_one_are_told_and_none_is_removed_or_mixed(desk: Desk) -> None:
    other, folder = A.replace("a.md", "A.md"), A.replace("ann", "Ann").replace("a.md", "c.md")
    desk.there[other], desk.there[folder] = "another", "in another folder"
    report = desk.pull()
    assert [each.partition(":")[0] for each in report.left_out] == [folder, other]
    assert dict(desk.here) == {A: "a", B: "b"}
    desk.push()
    assert len(desk.there) == 4
    assert desk.there[other] == "another"


@pytest.mark.parametrize("place", ["s3"], indirect=True)  # A folder can't hold both names.
def test_a_file_that_the_disk_refuses_keeps_no_other_waiting(desk: Desk) -> None:
    desk.there["a"] = desk.there["a/b.md"] = desk.there["c.md"] = "x"
    report = desk.pull()
    assert report.brought == ["a", "c.md"]
    assert [each.partition(":")[0] for each in report.left_out] == ["a/b.md"]


def test_a_name_that_s3_could_not_list_is_not_pushed(desk: Desk) -> None:
    desk.here["a\tb.md"] = desk.here["c.md"] = "x"
    report = desk.push()
    assert (report.sent, len(report.left_out)) == (["c.md"], 1)


def test_the_other_version_of_an_image_is_an_image(desk: Desk) -> None:
    desk.objects.replace("x.png", b"1")
    desk.pull()
    desk.here["x.png"] = "2"
    desk.objects.replace("x.png", b"3")
    (kept,) = desk.pull().conflicts
    assert kept.startswith("x.conflict-")
    assert kept.endswith(".png")


def test_a_removal_that_is_not_taken_is_pushed_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.pull()
    del desk.here[A]

    def down(*_: object) -> None:
        raise StorageUnavailable("S3 does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(desk.objects), "remove", down)
        with pytest.raises(StorageUnavailable):
            desk.push(force=True)
    assert desk.push(force=True).removed == [A]
    assert list(desk.there) == [B]


async def test_a_folder_that_is_pushed_to_an_empty_prefix_becomes_the_vault_of_the_next_home(
    tmp_path: Path, place: str
) -> None:
    vault = await new_bucket(place)
    await vault.write(A, "a", frozenset())
    desk = Desk(tmp_path / "desk", place)
    FolderCopy(vault.objects, desk.folder).pull()
    (desk.folder / RECORD).unlink()
    assert desk.push().sent == [A]
    found = desk.objects.get(MARKER)
    assert found is not None
    assert found.content == b""
    moved = type(vault)(desk.objects.url)
    await moved.open(expected=True)
    assert moved.is_there()
    shutil.rmtree(desk.folder)
