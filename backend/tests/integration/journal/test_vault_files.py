"""Files on a disk that a vault must not read, cannot read, or reads by its links; whatever lies there, it goes on."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.domain.identity import text_digest
from recollect.domain.images import images_folder
from recollect.domain.vault_file import NOT_FOLLOWED, UNREADABLE, Listing
from recollect.errors import StorageUnavailable
from recollect.infra.image_files import ImageFiles
from recollect.infra.vault_folder import FolderVault
from recollect.infra.vault_read import real_path

ANN, BOB = "default/users/ann", "default/users/bob"
SECRET = "heron"
NOBODYS: frozenset[str] = frozenset()


@pytest.fixture
async def vault(tmp_path: Path) -> FolderVault:
    """With a note of Ann, one of Bob, and a file outside."""
    vault = FolderVault(tmp_path / "vault")
    await vault.open(expected=False)
    put(vault, f"{ANN}/notes/own.md", "own")
    put(vault, f"{BOB}/notes/bobs.md", SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text(SECRET)
    return vault


def put(vault: FolderVault, path: str, text: str) -> None:
    (vault.root / path).parent.mkdir(parents=True, exist_ok=True)
    (vault.root / path).write_text(text)


def link(vault: FolderVault, path: str, target: str) -> None:
    (vault.root / path).parent.mkdir(parents=True, exist_ok=True)
    (vault.root / path).symlink_to(target)


async def listed(vault: FolderVault, folder: str = "") -> Listing:
    return Listing.of(await vault.stamps(folder))


OUT = [
    pytest.param(f"{ANN}/notes/x.md", "../../bob/notes/bobs.md", id="another's note"),
    pytest.param(f"{ANN}/notes/x.md", "../../../../../outside/secret.md", id="a file outside"),
    pytest.param(f"{ANN}/preferences.md", "../bob/notes/bobs.md", id="preferences"),
    pytest.param("default/presets/x.md", "../users/bob/notes/bobs.md", id="a preset"),
    pytest.param(f"{ANN}/threads/t1/0001.md", "../../../bob/notes/bobs.md", id="a transcript"),
    pytest.param(f"{ANN}/episodes/2026-05-08.md", "../../bob/notes/bobs.md", id="a file of entries"),
]


@pytest.mark.parametrize(("path", "target"), OUT)
async def test_a_link_out_of_its_owners_folder_is_neither_read_nor_listed(
    vault: FolderVault, path: str, target: str
) -> None:
    link(vault, path, target)
    assert (vault.root / path).read_text() == SECRET
    assert (await vault.look(path), await vault.read(path)) == (None, None)
    assert path not in await vault.list_files()
    listing = await listed(vault)
    assert (path in listing.stamps, path in listing.not_followed) == (False, True)


@pytest.mark.parametrize("target", ["../../bob/notes", "../../../../../outside", "../../bob"])
async def test_a_folder_linked_from_elsewhere_is_neither_read_nor_listed(
    vault: FolderVault, target: str
) -> None:
    link(vault, f"{ANN}/notes/there", target)
    for name in ("bobs.md", "secret.md", "notes/bobs.md"):
        assert await vault.look(f"{ANN}/notes/there/{name}") is None
    listing = await listed(vault)
    assert set(listing.stamps) == {f"{ANN}/notes/own.md", f"{BOB}/notes/bobs.md"}
    assert listing.not_followed == {f"{ANN}/notes/there"}
    assert Listing.of(await vault.stamps(f"{ANN}/notes/there")).not_followed == {f"{ANN}/notes/there"}


@pytest.mark.parametrize("path", ["default/users/eve", "default/users/eve/notes"])
async def test_an_owners_folder_that_is_a_link_to_anothers_shows_nothing(
    vault: FolderVault, path: str
) -> None:
    link(vault, path, "bob" if path.endswith("eve") else "../bob/notes")
    assert await vault.look("default/users/eve/notes/bobs.md") is None
    assert not [name for name in (await listed(vault)).stamps if "eve" in name]


async def test_links_within_an_owners_folder_are_followed(vault: FolderVault) -> None:
    put(vault, f"{ANN}/clippings/a.md", "clipped")
    link(vault, f"{ANN}/notes/clippings", "../clippings")
    link(vault, f"{ANN}/notes/one.md", "../clippings/a.md")
    for path in (f"{ANN}/notes/clippings/a.md", f"{ANN}/notes/one.md"):
        found = await vault.look(path)
        assert found is not None
        assert found.text == "clipped"
        assert path in (await listed(vault)).stamps


async def test_a_walk_over_links_that_lead_in_a_circle_ends(vault: FolderVault) -> None:
    put(vault, f"{ANN}/a/in_a.md", "x")
    put(vault, f"{ANN}/b/in_b.md", "x")
    for path, target in (("notes/up", ".."), ("a/b", "../b"), ("b/a", "../a"), ("a/self", "../a")):
        link(vault, f"{ANN}/{path}", target)
    async with asyncio.timeout(30):
        listing = await listed(vault, ANN)
    assert sorted(listing.stamps) == [
        f"{ANN}/a/b/in_b.md",
        f"{ANN}/a/in_a.md",
        f"{ANN}/b/a/in_a.md",
        f"{ANN}/b/in_b.md",
        f"{ANN}/notes/own.md",
    ]
    assert await vault.look(f"{ANN}/notes/up/a/in_a.md") is None


async def test_a_link_that_is_put_in_the_way_in_the_very_moment_of_reading_leads_nowhere(
    vault: FolderVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(vault, f"{ANN}/clippings/bobs.md", "own")
    link(vault, f"{ANN}/notes/there", "../clippings")

    def swap_after_the_check(root: Path, path: str) -> str | None:
        real = real_path(root, path)
        (vault.root / ANN / "clippings").rename(vault.root / ANN / "other")
        link(vault, f"{ANN}/clippings", "../bob/notes")
        return real

    monkeypatch.setattr("recollect.infra.vault_read.real_path", swap_after_the_check)
    assert await vault.look(f"{ANN}/notes/there/bobs.md") is None


async def test_a_file_that_is_a_link_is_replaced_and_not_what_it_leads_to(vault: FolderVault) -> None:
    path = f"{ANN}/threads/t1/0001.md"
    link(vault, path, "../../../bob/notes/bobs.md")
    assert await vault.write(path, "ours", NOBODYS) is None
    assert await vault.read(path) == "ours"
    assert await vault.read(f"{BOB}/notes/bobs.md") == SECRET


async def test_nothing_is_written_or_removed_through_a_link_to_another_owner(vault: FolderVault) -> None:
    link(vault, f"{ANN}/threads", "../bob/notes")
    for change in (
        vault.write(f"{ANN}/threads/t1/0001.md", "ours", NOBODYS),
        vault.remove_file(f"{ANN}/threads/bobs.md", frozenset({text_digest(SECRET)})),
        vault.remove_folder(f"{ANN}/threads/t1"),
    ):
        with pytest.raises(StorageUnavailable, match="a link that leads elsewhere"):
            await change
    assert [file.name for file in (vault.root / BOB / "notes").iterdir()] == ["bobs.md"]


@pytest.fixture(params=["pipe", "socket", "folder"])
def no_file(
    request: pytest.FixtureRequest, vault: FolderVault, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """What goes by a note's name and is none."""
    path = vault.root / ANN / "notes" / "x.md"
    with socket.socket(socket.AF_UNIX) as listener:
        if request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "folder":
            path.mkdir()
        else:
            monkeypatch.chdir(path.parent)  # A socket's path must be short.
            listener.bind(path.name)
        yield f"{ANN}/notes/x.md"


async def test_what_is_no_file_is_not_waited_for_and_is_no_note(vault: FolderVault, no_file: str) -> None:
    async with asyncio.timeout(30):
        assert (await vault.look(no_file), await vault.read(no_file)) == (None, None)
        assert no_file not in await vault.stamps()


async def test_neither_a_leftover_nor_an_image_that_is_a_pipe_is_waited_for(vault: FolderVault) -> None:
    """Each would keep a thread for good: this process must end, so a writer opens the pipe in the end."""
    leftover = vault.root / ANN / "notes" / "own.md.00000000-11111111-22222222.tmp"
    name = f"{'0' * 32}.png"
    image = vault.root / images_folder("default", "ann") / name
    image.parent.mkdir()
    images = ImageFiles(vault)
    for pipe in (leftover, image):
        os.mkfifo(pipe)
        look = vault.open(expected=True) if pipe == leftover else images.read("default", "ann", name)
        task = asyncio.create_task(look)
        done, _ = await asyncio.wait([task], timeout=20)
        if not done:
            await asyncio.to_thread(pipe.write_bytes, b"")
        assert (done, await task) == ({task}, None)


async def test_a_link_to_itself_is_there_and_the_error_says_that_it_was_read(vault: FolderVault) -> None:
    link(vault, f"{ANN}/notes/self.md", "self.md")
    with pytest.raises(StorageUnavailable, match="cannot be read: Too many levels"):
        await vault.look(f"{ANN}/notes/self.md")
    listing = await listed(vault)
    assert listing.unreadable == {f"{ANN}/notes/self.md"}
    assert f"{BOB}/notes/bobs.md" in listing.stamps


async def test_a_folder_that_cannot_be_read_hides_no_other_and_what_is_in_it_is_not_gone(
    vault: FolderVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(vault, f"{ANN}/notes/locked/x.md", "x")
    scan = os.scandir

    def refuse(folder: Path) -> "Iterator[os.DirEntry[str]]":
        if Path(folder).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert (await vault.stamps())[f"{ANN}/notes/locked"] == UNREADABLE
    listing = await listed(vault)
    assert f"{BOB}/notes/bobs.md" in listing.stamps
    assert listing.may_hold(f"{ANN}/notes/locked/x.md")
    assert not listing.may_hold(f"{ANN}/notes/lock.md")
    assert await vault.list_files(f"{ANN}/notes") == [f"{ANN}/notes/own.md"]


async def test_a_link_to_an_image_elsewhere_is_nothing_to_tell_of(vault: FolderVault) -> None:
    link(vault, f"{ANN}/notes/photo.png", "../../../../../outside/secret.md")
    assert NOT_FOLLOWED not in (await vault.stamps()).values()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
async def test_a_note_is_read_in_the_encoding_that_its_byte_order_mark_names(
    vault: FolderVault, encoding: str
) -> None:
    mark = "" if encoding in ("utf-16", "utf-32") else "\ufeff"
    (vault.root / ANN / "notes" / "own.md").write_bytes(f"{mark}Käse 你好 🧀\n".encode(encoding))
    found = await vault.look(f"{ANN}/notes/own.md")
    assert found is not None
    assert (found.text, found.is_whole) == ("Käse 你好 🧀\n", True)


async def test_a_transcript_is_utf_8_whatever_mark_it_begins_with(vault: FolderVault) -> None:
    put(vault, f"{ANN}/threads/t1/0001.md", "")
    (vault.root / ANN / "threads" / "t1" / "0001.md").write_bytes("words".encode("utf-16"))
    found = await vault.look(f"{ANN}/threads/t1/0001.md")
    assert found is not None
    assert not found.is_whole
