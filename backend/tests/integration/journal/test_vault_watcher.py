"""The watcher sees what happens in a real folder, survives its going and coming back, and ends when it is told to."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recollect.infra.watcher import VaultWatcher
from tests.eventually import eventually

CANNOT_WATCH = """
import asyncio, sys
from pathlib import Path
from recollect.infra.watcher import VaultWatcher

async def look():
    watcher = VaultWatcher(Path(sys.argv[1]))
    following = asyncio.ensure_future(anext(aiter(watcher.changes()), None))
    while watcher.problem() is None:
        await asyncio.sleep(0.01)
    watcher.stop()
    print(await following, watcher.problem())

asyncio.run(look())
"""


@asynccontextmanager
async def watched(root: Path) -> AsyncIterator[set[str]]:
    """All paths that were told so far, once the watch has begun."""
    watcher, seen = VaultWatcher(root), set[str]()

    async def follow() -> None:
        async for paths in watcher.changes():
            seen.update(paths)

    following = asyncio.create_task(follow())
    try:
        if root.exists():
            await eventually(lambda: "" in seen)
        seen.clear()
        yield seen
    finally:
        watcher.stop()
        await asyncio.wait_for(following, 20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "old.md").write_text("old")
    return folder


async def told(seen: set[str], *paths: str) -> None:
    await eventually(lambda: seen.issuperset(paths))


async def test_files_that_are_added_changed_renamed_and_removed_are_told(root: Path) -> None:
    async with watched(root) as seen:
        (root / "a" / "new.md").write_text("new")
        await told(seen, "a/new.md")
        seen.clear()
        (root / "a" / "old.md").write_text("newer")
        await told(seen, "a/old.md")
        seen.clear()
        (root / "a" / "old.md").rename(root / "a" / "other.md")
        await told(seen, "a/old.md", "a/other.md")
        seen.clear()
        (root / "a" / "other.md").unlink()
        await told(seen, "a/other.md")


async def test_a_folder_that_is_moved_away_is_told(root: Path, tmp_path: Path) -> None:
    async with watched(root) as seen:
        (root / "a").rename(tmp_path / "elsewhere")
        await told(seen, "a")


async def test_a_vault_behind_a_symbolic_link_is_watched(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    async with watched(tmp_path / "link") as seen:
        (root / "a" / "old.md").write_text("newer")
        await told(seen, "a/old.md")


async def test_what_is_hidden_being_written_or_no_markdown_is_not_told(root: Path) -> None:
    (root / ".obsidian").mkdir()
    async with watched(root) as seen:
        (root / ".obsidian" / "x.md").write_text("x")
        (root / ".trash").mkdir()
        (root / "a" / ".x.md").write_text("x")
        (root / "a" / "x.md.0a1b2c3d.tmp").write_text("x")
        (root / "a" / "image.png").write_bytes(b"x")
        (root / "a" / "last.md").write_text("x")
        await told(seen, "a/last.md")
        assert seen == {"a/last.md"}


async def test_a_vault_that_goes_and_comes_back_is_told_and_watched_again(root: Path, tmp_path: Path) -> None:
    async with watched(root) as seen:
        root.rename(tmp_path / "elsewhere")
        await eventually(lambda: "" in seen)
        seen.clear()
        (tmp_path / "elsewhere").rename(root)
        await eventually(lambda: "" in seen)
        (root / "a" / "old.md").write_text("newer")
        await told(seen, "a/old.md")


async def test_a_vault_that_is_not_there_yet_is_watched_as_soon_as_it_is(tmp_path: Path) -> None:
    async with watched(tmp_path / "vault") as seen:
        (tmp_path / "vault").mkdir()
        await eventually(lambda: "" in seen)


async def test_another_folder_in_the_vaults_place_is_noticed(root: Path, tmp_path: Path) -> None:
    """As when a disk is mounted over it."""
    async with watched(root) as seen:
        root.rename(tmp_path / "elsewhere")
        root.mkdir()
        await eventually(lambda: "" in seen)
        seen.clear()
        await eventually(lambda: "" in seen)
        (root / "x.md").write_text("x")
        await told(seen, "x.md")


@pytest.mark.parametrize("folder", ["vault", "gone"])
async def test_a_watch_that_is_cancelled_ends(root: Path, folder: str) -> None:
    async def follow() -> None:
        async for _ in VaultWatcher(root.with_name(folder)).changes():
            begun.set()

    begun = asyncio.Event()
    following = asyncio.create_task(follow())
    if folder == "vault":
        await begun.wait()
    following.cancel()
    await asyncio.wait({following}, timeout=20)
    assert following.cancelled()


async def test_a_folder_that_is_filled_while_it_is_made_is_told_and_watched_from_then_on(root: Path) -> None:
    async with watched(root) as seen:
        for number in range(50):
            folder = root / f"b{number}" / "notes"
            folder.mkdir(parents=True)
            (folder / "early.md").write_text("x")
        await eventually(lambda: all(seen & {f"b{number}", f"b{number}/notes"} for number in range(50)))
        for number in range(50):
            (root / f"b{number}" / "notes" / "late.md").write_text("x")
        await told(seen, *(f"b{number}/notes/late.md" for number in range(50)))


async def test_a_folder_that_was_renamed_is_told_by_its_new_name_alone(root: Path) -> None:
    async with watched(root) as seen:
        (root / "a").rename(root / "b")
        await told(seen, "a", "b")
        seen.clear()
        (root / "b" / "old.md").write_text("newer")
        await told(seen, "b/old.md")
        assert seen == {"b/old.md"}


def owners(root: Path) -> tuple[Path, Path]:
    """The folders of Ann and Bob, with notes in both."""
    ann, bob = root / "default" / "users" / "ann", root / "default" / "users" / "bob"
    for owner in (ann, bob):
        (owner / "notes").mkdir(parents=True)
        (owner / "notes" / "x.md").write_text("x")
    return ann, bob


@pytest.mark.parametrize("target", ["outside", "/", "vault/default/users/bob/notes"])
async def test_what_a_link_that_is_not_followed_leads_to_is_not_told(
    root: Path, tmp_path: Path, target: str
) -> None:
    ann, bob = owners(root)
    (tmp_path / "outside").mkdir()
    (ann / "notes" / "there").symlink_to(tmp_path / target)
    async with watched(root) as seen:
        (tmp_path / "outside" / "x.md").write_text("x")
        (bob / "notes" / "x.md").write_text("newer")
        await told(seen, "default/users/bob/notes/x.md")
        assert seen == {"default/users/bob/notes/x.md"}


async def test_a_new_folder_beside_a_link_that_leads_outside_is_told_and_watched(
    root: Path, tmp_path: Path
) -> None:
    ann, _ = owners(root)
    (ann / "notes" / "outside").symlink_to(tmp_path)
    async with watched(root) as seen:
        (ann / "notes" / "new").mkdir()
        await told(seen, "default/users/ann/notes/new")
        await eventually(lambda: "" in seen)
        (ann / "notes" / "new" / "x.md").write_text("x")
        await told(seen, "default/users/ann/notes/new/x.md")


async def test_what_is_linked_within_an_owners_folder_is_told_by_its_own_name(root: Path) -> None:
    ann, _ = owners(root)
    (ann / "clippings").mkdir()
    (ann / "notes" / "clippings").symlink_to("../clippings")
    async with watched(root) as seen:
        (ann / "notes" / "clippings" / "a.md").write_text("x")
        await told(seen, "default/users/ann/clippings/a.md")
        assert seen == {"default/users/ann/clippings/a.md"}


async def test_a_link_that_leads_elsewhere_is_told_once_so_that_it_can_be_counted(root: Path) -> None:
    ann, _ = owners(root)
    async with watched(root) as seen:
        (ann / "notes" / "bobs").symlink_to("../../bob/notes")
        await told(seen, "default/users/ann/notes/bobs")


async def test_a_name_that_is_no_utf8_makes_the_whole_vault_told_and_watched_again(root: Path) -> None:
    async with watched(root) as seen:
        Path(os.fsdecode(bytes(root / "a") + b"/caf\xe9.md")).write_text("x")
        await eventually(lambda: "" in seen)
        seen.clear()
        await eventually(lambda: "" in seen)
        (root / "a" / "old.md").write_text("newer")
        await told(seen, "a/old.md")


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_where_the_system_refuses_to_watch_it_says_what_to_do(root: Path, limit: str) -> None:
    """In a user namespace of its own, where the limit can be set."""
    script = f'echo 0 > /proc/sys/user/{limit} && exec "$@"'
    assert in_a_namespace("-Ur", "sh", "-c", script, "sh", *looking_at(root)).startswith(
        "None the vault cannot be watched (the system's limit"
    )


def test_where_a_folder_cannot_be_read_it_says_so(root: Path) -> None:
    """In a user namespace where root, too, has the rights of an owner alone."""
    (root / "a").chmod(0)
    try:
        assert in_a_namespace("-U", *looking_at(root)).startswith(
            "None the vault cannot be watched (a folder in it cannot be read)"
        )
    finally:
        (root / "a").chmod(0o700)


def looking_at(root: Path) -> list[str]:
    return [sys.executable, "-c", CANNOT_WATCH, str(root)]


def in_a_namespace(kind: str, *command: str) -> str:
    """What a command prints there."""
    if subprocess.run(["unshare", kind, "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    backend = Path(__file__).parents[3]
    return subprocess.run(
        ["unshare", kind, *command], stdout=subprocess.PIPE, text=True, timeout=90, cwd=backend
    ).stdout
