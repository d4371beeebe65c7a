"""The watcher sees what happens in a real folder, survives its going and coming back, and ends when it is told to."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recollect.infra.vault_watcher import VaultWatcher
from tests.eventually import eventually

SEEN_SECONDS = 2.0
CANNOT_WATCH = """
import asyncio, sys
from pathlib import Path
from recollect.infra.vault_watcher import VaultWatcher

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
        await asyncio.wait_for(following, 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "old.md").write_text("old")
    return folder


async def told(seen: set[str], *paths: str) -> None:
    await eventually(lambda: seen.issuperset(paths), seconds=SEEN_SECONDS)


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


async def test_a_new_folder_is_told_and_watched(root: Path) -> None:
    async with watched(root) as seen:
        (root / "b" / "c").mkdir(parents=True)
        (root / "b" / "c" / "early.md").write_text("x")
        await eventually(lambda: seen & {"b", "b/c", "b/c/early.md"}, seconds=SEEN_SECONDS)
        (root / "b" / "c" / "late.md").write_text("x")
        await told(seen, "b/c/late.md")


async def test_a_folder_that_is_moved_away_is_told(root: Path, tmp_path: Path) -> None:
    async with watched(root) as seen:
        (root / "a").rename(tmp_path / "elsewhere")
        await told(seen, "a")


async def test_a_vault_behind_a_symbolic_link_is_watched(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    async with watched(tmp_path / "link") as seen:
        (root / "a" / "old.md").write_text("newer")
        await told(seen, "a/old.md")


async def test_what_is_being_written_and_what_is_no_markdown_is_not_told(root: Path) -> None:
    async with watched(root) as seen:
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
    await asyncio.wait({following}, timeout=1)
    assert following.cancelled()


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_where_the_system_refuses_to_watch_it_says_what_to_do(root: Path, limit: str) -> None:
    """In a user namespace of its own, where the limit can be set."""
    script = f'echo 0 > /proc/sys/user/{limit} && exec "$@"'
    command = ["unshare", "-Ur", "sh", "-c", script, "sh", sys.executable, "-c", CANNOT_WATCH, str(root)]
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=Path(__file__).parents[2])
    assert done.stdout.startswith("None the vault cannot be watched (the system's limit"), done.stderr
