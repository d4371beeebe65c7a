"""What the vault promises."""

import asyncio
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from recollect.domain.identity import text_digest
from recollect.domain.paths import transcript_path
from recollect.domain.vault_file import FileStamp
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.vault import Vault
from recollect.infra.vault_read import put_in_place, stamp_of

NOBODYS: frozenset[str] = frozenset()
PATH = "default/users/ann/threads/t1/0001.md"


@dataclass(frozen=True)
class Folder:
    """A vault, and what a person can do to it."""

    vault: Vault
    put: Callable[[str, str], None]
    take_away: Callable[[], None]


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    root = tmp_path / "vault"
    vault = Vault(root)
    await vault.open(expected=False)

    def put(path: str, text: str) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())

    def take_away() -> None:
        root.rename(tmp_path / "elsewhere")

    return Folder(vault, put, take_away)


@pytest.fixture
def vault(folder: Folder) -> Vault:
    return folder.vault


async def test_a_healthy_vault_has_no_problem(vault: Vault) -> None:
    assert vault.problem() is None


async def test_a_file_that_is_not_there_reads_as_none(vault: Vault) -> None:
    assert await vault.read(PATH) is None


@pytest.mark.parametrize("text", ["", "one\n", "a\r\nb\rc\n\n", "\ufeff你好 👩‍👩‍👧 e\u0301\u2028"])
async def test_what_is_written_reads_the_same(vault: Vault, text: str) -> None:
    await vault.write(PATH, text, NOBODYS)
    assert await vault.read(PATH) == text


async def test_what_is_ours_is_replaced_without_a_trace(vault: Vault) -> None:
    await vault.write(PATH, "old", NOBODYS)
    assert await vault.write(PATH, "new", frozenset({text_digest("old")})) is None
    assert await vault.list_files() == [PATH]
    assert await vault.read(PATH) == "new"


async def test_what_a_person_wrote_is_kept_beside(folder: Folder) -> None:
    folder.put(PATH, "edited by hand")
    conflict = await folder.vault.write(PATH, "ours", frozenset({text_digest("old")}))
    assert conflict is not None
    assert await folder.vault.read(conflict) == "edited by hand"
    assert await folder.vault.read(PATH) == "ours"


async def test_a_conflict_file_lies_beside_and_is_markdown(folder: Folder) -> None:
    folder.put(PATH, "edited by hand")
    conflict = await folder.vault.write(PATH, "ours", NOBODYS)
    assert conflict is not None
    assert conflict.startswith("default/users/ann/threads/t1/0001.conflict-")
    assert conflict.endswith(".md")
    assert await folder.vault.list_files() == sorted([conflict, PATH])


async def test_two_edits_are_kept_as_two_files(folder: Folder) -> None:
    kept = []
    for text in ("first edit", "second edit"):
        folder.put(PATH, text)
        kept.append(await folder.vault.write(PATH, "ours", NOBODYS))
    assert [await folder.vault.read(str(path)) for path in kept] == ["first edit", "second edit"]


async def test_the_same_edit_twice_is_kept_once(folder: Folder) -> None:
    kept = set()
    for _ in range(2):
        folder.put(PATH, "the same edit")
        kept.add(await folder.vault.write(PATH, "ours", NOBODYS))
    assert len(kept) == 1


async def test_a_persons_version_is_returned_and_left_alone(folder: Folder) -> None:
    folder.put(PATH, "theirs")
    found = await folder.vault.write_unless_foreign(PATH, "ours", NOBODYS)
    assert found is not None
    assert (found.text, found.digest, found.is_whole) == ("theirs", text_digest("theirs"), True)
    assert await folder.vault.list_files() == [PATH]
    assert await folder.vault.read(PATH) == "theirs"


@pytest.mark.parametrize("there", [None, "old", "new"], ids=["nothing", "ours", "the same words"])
async def test_where_nobody_changed_anything_the_file_is_written(folder: Folder, there: str | None) -> None:
    if there is not None:
        folder.put(PATH, there)
    assert await folder.vault.write_unless_foreign(PATH, "new", frozenset({text_digest("old")})) is None
    assert await folder.vault.read(PATH) == "new"
    assert await folder.vault.list_files() == [PATH]
    assert folder.vault.is_own(PATH, text_digest("new"))
    assert not folder.vault.is_own(PATH, text_digest("old"))


async def test_a_copy_of_a_persons_version_is_kept_and_the_file_stays(folder: Folder) -> None:
    folder.put(PATH, "theirs")
    kept = await folder.vault.keep_copy(PATH, text_digest("theirs"))
    assert kept is not None
    assert await folder.vault.read(kept) == await folder.vault.read(PATH) == "theirs"


async def test_a_version_that_is_there_no_longer_is_not_kept(folder: Folder) -> None:
    folder.put(PATH, "newer")
    assert await folder.vault.keep_copy(PATH, text_digest("theirs")) is None
    assert await folder.vault.keep_copy("default/users/ann/x.md", text_digest("theirs")) is None
    assert await folder.vault.list_files() == [PATH]


async def test_a_look_at_no_file_finds_none(vault: Vault) -> None:
    assert await vault.look(PATH) is None


async def test_a_look_with_a_limit_reads_so_far_and_says_so(folder: Folder) -> None:
    folder.put(PATH, "0123456789")
    found, whole = await folder.vault.look(PATH, 4), await folder.vault.look(PATH, 10)
    assert found is not None
    assert whole is not None
    assert (found.text, found.is_whole, whole.text, whole.is_whole) == ("0123", False, "0123456789", True)


async def test_a_stamp_changes_with_the_file(folder: Folder) -> None:
    folder.put(PATH, "one")
    before = await folder.vault.stamps()
    folder.put(PATH, "three")
    after = await folder.vault.stamps("default/users")
    assert list(before) == list(after) == [PATH]
    assert before != after
    assert await folder.vault.stamps("elsewhere") == {}


async def test_files_are_listed_sorted_and_below_a_folder_alone(vault: Vault) -> None:
    for path in ("b/2.md", "b/1.md", "a/1.md", "bb/1.md"):
        await vault.write(path, "x", NOBODYS)
    assert await vault.list_files() == ["a/1.md", "b/1.md", "b/2.md", "bb/1.md"]
    assert await vault.list_files("b") == ["b/1.md", "b/2.md"]


async def test_a_folder_goes_with_all_that_is_in_it_and_nothing_else(vault: Vault) -> None:
    for path in ("a/t1/0001.md", "a/t1/deep/x.md", "a/t10/0001.md"):
        await vault.write(path, "x", NOBODYS)
    await vault.remove_folder("a/t1")
    assert await vault.list_files() == ["a/t10/0001.md"]


async def test_a_folder_that_is_gone_already_can_be_removed(vault: Vault) -> None:
    await vault.remove_folder("a/t1")
    assert await vault.list_files() == []


async def test_a_missing_vault_says_so_and_takes_nothing(folder: Folder) -> None:
    folder.take_away()
    assert folder.vault.problem() is not None
    with pytest.raises(StorageUnavailable):
        await folder.vault.write(PATH, "x", NOBODYS)
    with pytest.raises(StorageUnavailable):
        await folder.vault.remove_folder("a")


@pytest.mark.parametrize(
    "thread_id", ["../../etc/x", ".index", "CON", "x" * 300, "你好", "👩‍👩‍👧", "a/b", "A"]
)
async def test_any_id_has_a_file_of_its_own_inside_the_vault(vault: Vault, thread_id: str) -> None:
    path = transcript_path("default", "ann", thread_id, 1)
    await vault.write(path, thread_id, NOBODYS)
    assert await vault.list_files("default/users/ann/threads") == [path]
    assert await vault.read(path) == thread_id


# What only a disk can get wrong.


@pytest.fixture
async def disk(tmp_path: Path) -> Vault:
    vault = Vault(tmp_path / "vault")
    await vault.open(expected=False)
    return vault


async def test_a_write_leaves_no_other_file_behind(disk: Vault) -> None:
    await disk.write(PATH, "x", NOBODYS)
    assert [path.name for path in (disk.root / PATH).parent.iterdir()] == ["0001.md"]


async def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    disk: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    await disk.write(PATH, "old", NOBODYS)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailable):
        await disk.write(PATH, "new", frozenset({text_digest("old")}))
    assert [path.read_text() for path in (disk.root / PATH).parent.iterdir()] == ["old"]


async def test_what_a_kill_left_beside_is_gone_after_the_next_start_and_a_persons_own_files_stay(
    disk: Vault,
) -> None:
    await disk.write(PATH, "x", NOBODYS)
    folder = (disk.root / PATH).parent
    for name in ("0001.md.0a1b2c3d.tmp", "mine.tmp", "0001.md.draft.tmp"):
        (folder / name).write_text("left")
    await asyncio.sleep(0.01)  # The clock of a disk is coarse.
    await Vault(disk.root).open(expected=True)
    assert {path.name for path in folder.iterdir()} == {"0001.md", "mine.tmp", "0001.md.draft.tmp"}


async def test_two_writers_of_one_file_do_not_disturb_each_other(disk: Vault) -> None:
    texts = [str(number) * 50_000 for number in range(10)]
    ours = frozenset(text_digest(text) for text in texts)
    for _ in range(5):
        await asyncio.gather(*(disk.write(PATH, text, ours) for text in texts))
        assert await disk.read(PATH) in texts


async def test_a_missing_vault_where_files_are_expected_is_not_made_anew(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    await vault.open(expected=True)
    assert vault.problem() is not None
    assert not vault.root.exists()


async def test_a_vault_that_comes_back_is_written_again(tmp_path: Path, disk: Vault) -> None:
    disk.root.rename(tmp_path / "elsewhere")
    late = Vault(disk.root)
    await late.open(expected=True)
    (tmp_path / "elsewhere").rename(disk.root)
    await late.write(PATH, "x", NOBODYS)
    assert await late.read(PATH) == "x"


async def test_a_vault_that_is_gone_for_good_can_be_made_anew(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    await vault.open(expected=True)
    await vault.make_anew()
    assert vault.problem() is None


@pytest.mark.parametrize("mount_point", [False, True], ids=["gone", "empty mount point"])
async def test_a_vault_that_goes_while_it_is_open_is_not_taken_for_an_empty_one(
    tmp_path: Path, disk: Vault, mount_point: bool
) -> None:
    disk.root.rename(tmp_path / "elsewhere")
    if mount_point:
        disk.root.mkdir()
    with pytest.raises(StorageUnavailable):
        await disk.write(PATH, "x", NOBODYS)


async def test_bytes_that_are_no_text_are_read_with_marks_in_their_place(disk: Vault) -> None:
    (disk.root / "x.md").write_bytes(b"a\xff\xfeb")
    assert await disk.read("x.md") == "a\ufffd\ufffdb"


async def test_an_edit_that_is_no_text_is_kept_byte_for_byte(disk: Vault) -> None:
    (disk.root / "x.md").write_bytes(b"a\xff\xfeb")
    conflict = await disk.write("x.md", "ours", NOBODYS)
    assert conflict is not None
    assert (disk.root / conflict).read_bytes() == b"a\xff\xfeb"


async def test_a_look_at_what_is_no_text_says_so(disk: Vault) -> None:
    (disk.root / "x.md").write_bytes(b"a\xff\xfeb")
    found = await disk.look("x.md")
    assert found is not None
    assert (found.text, found.is_whole) == ("a\ufffd\ufffdb", False)


async def test_a_file_that_was_just_written_has_no_stamp_to_rely_on(disk: Vault) -> None:
    """A second edit of the same length could come within one tick of the disk's clock."""
    (disk.root / "x.md").write_text("new")
    new = await disk.look("x.md")
    os.utime(disk.root / "x.md", (1_000_000_000, 1_000_000_000))
    old = await disk.look("x.md")
    assert new is not None
    assert old is not None
    assert new.stamp is None
    assert old.stamp == (await disk.stamps())["x.md"]


async def test_hidden_files_and_those_being_written_have_no_stamps(disk: Vault) -> None:
    for name in (".obsidian/x.md", "notes/.#x.md", "x.md.0a1b2c3d.tmp", "image.png"):
        (disk.root / name).parent.mkdir(exist_ok=True)
        (disk.root / name).write_text("x")
    assert await disk.stamps() == {}


async def test_an_editor_that_is_saving_is_waited_for(disk: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has emptied the file, and writes it while we look."""
    target = disk.root / "x.md"
    target.write_text("")

    def look_while_it_saves(file: Path) -> FileStamp | None:
        before = stamp_of(file)
        target.write_text("theirs")
        return before

    monkeypatch.setattr("recollect.infra.vault.stamp_of", look_while_it_saves)
    found = await disk.write_unless_foreign("x.md", "ours", NOBODYS)
    assert found is not None
    assert found.text == "theirs"


async def test_what_is_saved_in_the_very_moment_of_a_write_is_kept(
    disk: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = disk.root / "x.md"
    await disk.write("x.md", "old", NOBODYS)

    def put_in_place_after_a_save(new: Path, place: Path) -> bool:
        target.write_text("theirs")
        return put_in_place(new, place)

    monkeypatch.setattr("recollect.infra.vault.put_in_place", put_in_place_after_a_save)
    conflict = await disk.write("x.md", "new", frozenset({text_digest("old")}))
    assert target.read_text() == "new"
    assert conflict is not None
    assert (disk.root / conflict).read_text() == "theirs"
    assert sorted(path.name for path in disk.root.iterdir()) == sorted([".recollect-vault", "x.md", conflict])


async def test_a_disk_that_fills_up_while_an_edit_is_kept_leaves_no_half_of_it_and_the_next_write_keeps_it(
    disk: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def half_of_it(_source: Path, target: Path) -> None:
        target.write_text("edited")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("recollect.infra.vault.os.link", no_links)
    (disk.root / "x.md").write_text("edited by hand")
    with monkeypatch.context() as full:
        full.setattr("recollect.infra.vault.shutil.copyfile", half_of_it)
        with pytest.raises(StorageUnavailable):
            await disk.write("x.md", "ours", NOBODYS)
    assert sorted(path.name for path in disk.root.iterdir()) == [".recollect-vault", "x.md"]
    conflict = await disk.write("x.md", "ours", NOBODYS)
    assert conflict is not None
    assert (disk.root / conflict).read_text() == "edited by hand"


class _KilledError(Exception):
    """In the place of a kill."""


class _KilledAfterTheRename(FailPoints):
    def reach(self, name: str) -> None:
        if name == "vault.renamed":
            raise _KilledError


async def test_forgetting_removes_what_could_not_be_removed_a_while_ago(
    disk: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = disk.root / "a" / "x.md.00000000-00000000-0a1b2c3d.tmp"
    await disk.write("a/x.md", "x", NOBODYS)
    left.write_text("what is to be forgotten")
    await disk.remove_leftovers("a")
    assert left.exists()  # It may be on its way into its place.
    now = time.time()
    monkeypatch.setattr("recollect.infra.vault.time.time", lambda: now + 700)
    await disk.remove_leftovers("a")
    assert not left.exists()


async def test_what_the_kill_of_another_process_left_goes_with_a_later_write_into_its_folder(
    disk: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = disk.root / "a" / "y.md.0a1b2c3d.tmp"
    await disk.write("a/x.md", "1", NOBODYS)
    left.write_text("half")
    await disk.write("a/x.md", "2", frozenset({text_digest("1")}))
    assert left.exists()  # It may be being written.
    now = time.time()
    monkeypatch.setattr("recollect.infra.vault.time.time", lambda: now + 3600)
    await disk.write("a/x.md", "3", frozenset({text_digest("2")}))
    assert not left.exists()


@pytest.mark.parametrize("saved", [True, False], ids=["a person saved", "nobody saved"])
async def test_only_what_is_saved_in_the_very_moment_of_a_write_that_is_killed_is_kept_at_the_next_start(
    disk: Vault, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    target = disk.root / "x.md"
    await disk.write("x.md", "old", NOBODYS)

    def put_in_place_after_a_save(new: Path, place: Path) -> bool:
        if saved:
            target.write_text("theirs")
        return put_in_place(new, place)

    monkeypatch.setattr("recollect.infra.vault.put_in_place", put_in_place_after_a_save)
    killed = Vault(disk.root, fail_points=_KilledAfterTheRename())
    with pytest.raises(_KilledError):
        await killed.write("x.md", "new", frozenset({text_digest("old")}))
    assert len(list(disk.root.glob("*.tmp"))) == 1
    await asyncio.sleep(0.01)  # The clock of a disk is coarse.
    await Vault(disk.root).open(expected=True)
    assert sorted(path.read_text() for path in disk.root.glob("x*")) == (
        ["new", "theirs"] if saved else ["new"]
    )
    assert not list(disk.root.glob("*.tmp"))


async def test_forgetting_removes_leftovers_whoever_wrote_them(disk: Vault) -> None:
    await disk.write("a/x.md", "ours", NOBODYS)
    left = disk.root / "a" / "x.md.00000000-00000000-0a1b2c3d.tmp"
    left.write_text("what a person saved")
    await asyncio.sleep(0.01)  # The clock of a disk is coarse.
    later = Vault(disk.root)
    await later.remove_leftovers("a")
    assert [path.name for path in (disk.root / "a").iterdir()] == ["x.md"]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL])
async def test_a_disk_that_cannot_exchange_files_is_written_all_the_same(
    disk: Vault, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(_one: Path, _other: Path) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("recollect.infra.vault_read._exchange", refuse)
    for text in ("old", "new"):
        await disk.write("x.md", text, frozenset({text_digest("old")}))
    assert (disk.root / "x.md").read_text() == "new"
    assert sorted(path.name for path in disk.root.iterdir()) == [".recollect-vault", "x.md"]


async def test_a_file_that_is_removed_is_gone_and_its_neighbours_are_not(vault: Vault) -> None:
    for path in ("a/one.md", "a/two.md"):
        await vault.write(path, "text", NOBODYS)
    assert await vault.remove_file("a/one.md", frozenset({text_digest("text")})) is None
    assert await vault.list_files() == ["a/two.md"]


async def test_only_an_empty_folder_is_removed_as_one(disk: Vault) -> None:
    await disk.write("a/b/one.md", "text", NOBODYS)
    await disk.remove_empty_folder("a/b")
    assert await disk.list_files() == ["a/b/one.md"]
    await disk.remove_file("a/b/one.md", frozenset({text_digest("text")}))
    for _ in range(2):
        await disk.remove_empty_folder("a/b")
    assert not (disk.root / "a/b").exists()


async def test_removing_a_file_that_is_not_there_is_fine(vault: Vault) -> None:
    assert await vault.remove_file("a/never.md", NOBODYS) is None


async def test_a_persons_version_of_a_removed_file_is_kept_beside(folder: Folder) -> None:
    folder.put("a/one.md", "mine")
    conflict = await folder.vault.remove_file("a/one.md", frozenset({text_digest("ours")}))
    assert conflict is not None
    assert await folder.vault.list_files() == [conflict]
    assert await folder.vault.read(conflict) == "mine"


async def test_a_vault_that_is_away_loses_no_file(folder: Folder) -> None:
    folder.put("a/one.md", "text")
    folder.take_away()
    with pytest.raises(StorageUnavailable):
        await folder.vault.remove_file("a/one.md", NOBODYS)
