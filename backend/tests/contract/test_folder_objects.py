"""What only a shared folder can get wrong: links, other processes, kills between two steps, and a share that is gone."""

import errno
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra import folder_objects
from recollect.infra.folder_objects import GUARD, FolderObjects
from recollect.infra.objects import Changed
from recollect.infra.vault_read import name_for_exchange
from tests.files_under import files_under

A = "default/users/ann/notes/a.md"
KEPT = "default/users/ann/notes/a.conflict-"


class Shared:
    """A shared folder with one file, and a person who saves files past the server."""

    def __init__(self, root: Path) -> None:
        self.root, self.url = root, f"file://{root}"
        self.objects = FolderObjects(self.url)
        self.objects.make()
        self.etag = self.objects.put(A, b"ours", None)

    def save(self, text: str) -> None:
        """As editors do, by renaming."""
        beside = self.root / A.replace("a.md", ".a.swp")
        beside.write_text(text)
        beside.replace(self.root / A)

    def files(self) -> dict[str, str]:
        found = files_under(self.root)
        names = {path.relative_to(self.root).as_posix(): content.decode() for path, content in found.items()}
        return {path: text for path, text in names.items() if path != GUARD}

    def run(self, code: str, *arguments: str) -> int:
        """In another process, which is killed where the code says so."""
        begun = (
            f"import sys\nfrom {folder_objects.__name__} import *\nobjects = FolderObjects({self.url!r})\n"
        )
        return subprocess.run([sys.executable, "-c", begun + code, *arguments], timeout=60).returncode

    def step(self, work: Callable[[], None]) -> None:
        """What is done while nothing has the file's name."""

        class Step(FailPoints):
            def reach(self, name: str) -> None:
                work()

        self.objects = FolderObjects(self.url, fail_points=Step())


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "shared")


# Links, and names.


@pytest.mark.parametrize("link", [A, "default/users/ann/notes", "default/users/ann", "default"])
def test_nothing_is_read_or_written_through_a_link(shared: Shared, tmp_path: Path, link: str) -> None:
    (shared.root / link).rename(tmp_path / "elsewhere")
    (shared.root / link).symlink_to(tmp_path / "elsewhere")
    before = files_under(tmp_path / "elsewhere") or (tmp_path / "elsewhere").read_text()
    assert shared.objects.get(A) is None
    assert list(shared.objects.list()) == list(shared.objects.list("default/users/ann/notes")) == []
    for work in (
        lambda: shared.objects.put(A, b"new", None),
        lambda: shared.objects.replace(A, b"new"),
        lambda: shared.objects.remove(A, shared.etag),
        lambda: shared.objects.delete([A]),
    ):
        with pytest.raises(StorageUnavailable, match="is a link"):
            work()
    assert (shared.root / link).is_symlink()
    assert (files_under(tmp_path / "elsewhere") or (tmp_path / "elsewhere").read_text()) == before


@pytest.mark.parametrize("path", ["../b.md", "default/../../b.md", "/etc/b.md", "a//b.md", "", ".", "a\0b"])
def test_no_path_leads_out_of_the_folder(shared: Shared, tmp_path: Path, path: str) -> None:
    (tmp_path / "b.md").write_text("not ours")
    assert shared.objects.get(path) is None
    with pytest.raises(StorageUnavailable):
        shared.objects.put(path, b"x", None)
    with pytest.raises(StorageUnavailable):
        shared.objects.delete([path])
    assert (shared.files(), (tmp_path / "b.md").read_text()) == ({A: "ours"}, "not ours")


def test_a_folder_that_has_the_name_of_a_file_is_left_alone(shared: Shared) -> None:
    assert shared.objects.is_blocked("default/users")
    assert shared.objects.is_blocked(f"{A}/b.md")
    assert not shared.objects.is_blocked(A)
    with pytest.raises(StorageUnavailable, match="has the name of a file"):
        shared.objects.replace("default/users", b"x")
    with pytest.raises(StorageUnavailable):
        shared.objects.put(f"{A}/b.md", b"x", None)
    assert shared.files() == {A: "ours"}


def test_a_folder_goes_with_its_last_file(shared: Shared) -> None:
    shared.objects.put("default/users/bob/notes/b.md", b"b", None)
    shared.objects.delete([A])
    assert [path.name for path in (shared.root / "default/users").iterdir()] == ["bob"]
    found = shared.objects.get("default/users/bob/notes/b.md")
    assert found is not None
    shared.objects.remove("default/users/bob/notes/b.md", found.etag)
    assert [path.name for path in shared.root.iterdir()] == [GUARD]


# A person saves.


@pytest.mark.parametrize("way", ["put", "remove"])
def test_what_a_person_saves_after_the_look_stays(
    shared: Shared, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named_after_a_save(*names: object) -> Path:
        shared.save("theirs")
        return name_for_exchange(*names)  # type: ignore[arg-type]

    monkeypatch.setattr(folder_objects, "name_for_exchange", named_after_a_save)
    with pytest.raises(Changed):
        write(shared, way)
    assert shared.files() == {A: "theirs"}


def write(shared: Shared, way: str) -> None:
    if way == "put":
        shared.objects.put(A, b"new", shared.etag)
    else:
        shared.objects.remove(A, shared.etag)


def test_what_a_person_saves_while_nothing_has_the_name_stays(shared: Shared) -> None:
    shared.step(lambda: shared.save("theirs"))
    with pytest.raises(Changed):
        shared.objects.put(A, b"new", shared.etag)
    assert shared.files() == {A: "theirs"}


def test_of_two_saves_one_of_them_while_nothing_has_the_name_both_are_kept(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named_after_a_save(*names: object) -> Path:
        shared.save("theirs")
        return name_for_exchange(*names)  # type: ignore[arg-type]

    monkeypatch.setattr(folder_objects, "name_for_exchange", named_after_a_save)
    shared.step(lambda: shared.save("and again"))
    with pytest.raises(Changed):
        shared.objects.put(A, b"new", shared.etag)
    assert shared.files() == {A: "and again", f"{KEPT}{digest('theirs')[:8]}.md": "theirs"}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_disk_that_fails_midway_has_the_old_file_back(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, left = os.link, [OSError(errno.ENOSPC, "")]

    def failing(source: Path, target: Path) -> None:
        if left:
            raise left.pop()
        link(source, target)

    monkeypatch.setattr(os, "link", failing)
    with pytest.raises(StorageUnavailable, match="the disk is full"):
        shared.objects.put(A, b"new", shared.etag)
    assert shared.files() == {A: "ours"}


def test_what_a_disk_that_fails_leaves_aside_is_brought_back_by_the_next_look(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", failing)
        with pytest.raises(StorageUnavailable, match="Input/output error"):
            shared.objects.put(A, b"new", shared.etag)
    assert A not in shared.files()
    found = shared.objects.get(A)
    assert found is not None
    assert (found.content, found.etag, shared.files()) == (b"ours", shared.etag, {A: "ours"})


# Other processes.


def test_of_two_processes_that_replace_the_same_file_none_overwrites_the_other(shared: Shared) -> None:
    """Each adds its lines, one by one, to what it finds."""
    code = """
for number in range(100):
    while True:
        found = objects.get("lines")
        try:
            before = b"" if found is None else found.content
            line = f"{sys.argv[1]}-{number}\\n".encode()
            objects.put("lines", before + line, None if found is None else found.etag)
            break
        except Changed:
            continue
"""
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda name: shared.run(code, name), "abc")) == [0, 0, 0]
    lines = shared.files()["lines"].splitlines()
    assert sorted(lines) == sorted(f"{name}-{number}" for name in "abc" for number in range(100))
    assert set(shared.files()) == {A, "lines"}


def test_whoever_waits_for_a_process_that_hangs_is_told(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_objects, "_LOCK_SECONDS", 0.05)
    with (shared.root / GUARD).open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for work in (lambda: shared.objects.put(A, b"new", shared.etag), lambda: shared.objects.get("b.md")):
            with pytest.raises(StorageUnavailable, match="if it hangs, end it"):
                work()  # What is not found may be set aside.
    shared.objects.put(A, b"new", shared.etag)
    assert shared.files() == {A: "new"}


DIES = "objects = FolderObjects(objects.url, fail_points=FailPoints('vault.set_aside'))\n"


@pytest.mark.parametrize("how", ["start", "look"])
@pytest.mark.parametrize(
    ("code", "then"),
    [
        ("objects.put(sys.argv[1], b'new', sys.argv[2])", {A: "ours"}),
        ("objects.remove(sys.argv[1], sys.argv[2])", {}),
    ],
    ids=["replaced", "removed"],
)
def test_a_kill_while_a_file_is_set_aside_is_made_good_by_the_next_process(
    shared: Shared, code: str, then: dict[str, str], how: str
) -> None:
    assert shared.run(DIES + code, A, shared.etag) == -signal.SIGKILL
    assert A not in shared.files()
    assert len(shared.files()) > 0
    assert list(shared.objects.list()) == []
    if how == "look":
        found = FolderObjects(shared.url).get(A)
        assert (None if found is None else found.content.decode()) == then.get(A)
    FolderObjects(shared.url).probe()
    assert shared.files() == then


def test_what_a_person_saved_before_and_after_a_kill_is_kept(shared: Shared) -> None:
    """The version that was set aside was not looked at yet."""
    shared.save("theirs")
    (shared.root / A).rename(name_for_exchange(shared.root / A, digest("new"), digest("ours")))
    shared.save("and again")
    FolderObjects(shared.url).probe()
    assert shared.files() == {A: "and again", f"{KEPT}{digest('theirs')[:8]}.md": "theirs"}


def test_what_a_killed_process_was_writing_goes(shared: Shared) -> None:
    code = """
import os
from recollect.infra import folder_objects
folder_objects._etag_of = lambda file: os.kill(os.getpid(), 9)
objects.put("default/b.md", b"b", None)
"""
    assert shared.run(code) == -signal.SIGKILL
    assert len(shared.files()) == 2
    assert [each.path for each in shared.objects.list()] == [A]
    FolderObjects(shared.url).probe()
    assert shared.files() == {A: "ours"}


# The share, and what it needs.


def test_a_share_that_is_not_mounted_is_no_empty_folder(shared: Shared, tmp_path: Path) -> None:
    shared.root.rename(tmp_path / "elsewhere")
    for there in (False, True):  # A mount point may be left.
        if there:
            shared.root.mkdir()
        assert not shared.objects.is_made()
        for work in (
            lambda: shared.objects.get(A),
            lambda: list(shared.objects.list()),
            shared.objects.folders,
            lambda: shared.objects.put(A, b"new", shared.etag),
            lambda: shared.objects.put(A, b"new", None),
            lambda: shared.objects.replace(A, b"new"),
            lambda: shared.objects.remove(A, shared.etag),
            lambda: shared.objects.delete([A]),
            shared.objects.for_lance,
            shared.objects.probe,
        ):
            with pytest.raises(StorageUnavailable, match="is it mounted"):
                work()
    assert list(shared.root.iterdir()) == []


def test_a_folder_is_made_where_its_parent_is(tmp_path: Path) -> None:
    FolderObjects(f"file://{tmp_path}/one%20two").make()
    assert (tmp_path / "one two" / GUARD).is_file()
    with pytest.raises(StorageUnavailable, match="is it mounted"):
        FolderObjects(f"file://{tmp_path}/missing/shared").make()
    assert not (tmp_path / "missing").exists()


def test_an_index_is_down_where_the_disk_fails_and_damaged_where_files_are_missing(
    shared: Shared, tmp_path: Path
) -> None:
    assert shared.objects.is_down("LanceError(IO): Input/output error (os error 5), file.rs:1")
    missing = "LanceError(IO): Object at location x not found: No such file or directory (os error 2)"
    assert not shared.objects.is_down(missing)
    shared.root.rename(tmp_path / "elsewhere")
    assert shared.objects.is_down(missing)


def test_it_needs_no_library_for_s3(shared: Shared) -> None:
    code = """
sys.modules["obstore"] = None
from recollect.infra.files import files_of
from recollect.infra.object_stores import objects_at
from recollect.settings import Settings
from pathlib import Path
files = files_of(Settings(home=Path(sys.argv[1]), files_url=objects.url), FailPoints(), None)
files.vault.objects.put("b.md", b"b", None)
"""
    assert shared.run(code, str(shared.root.parent / "home")) == 0
    assert shared.files() == {A: "ours", "b.md": "b"}
