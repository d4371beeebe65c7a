"""What the stores of images promise, in a folder on disk and in a real journal."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from recollect.domain.images import image_name, reference
from recollect.domain.model import Append, NewTurn
from recollect.errors import StorageUnavailable
from recollect.infra.image_files import ImageFiles
from recollect.infra.journal.database import Database
from recollect.infra.journal.files import SqlImageReferences
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.journal.turns import Schedule
from recollect.infra.vault import Vault
from tests.fakes import START, FakeClock

CAT, DOG = b"\x89PNG\r\n\x1a\n a cat \x00\xff", b"GIF89a a dog"
CAT_NAME, DOG_NAME = image_name(CAT, "png"), image_name(DOG, "gif")
ANN, BOB = ("default", "ann"), ("default", "bob")


@dataclass(frozen=True)
class Folder:
    images: ImageFiles
    take_away: Callable[[], None]


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    vault = Vault(tmp_path / "vault")
    await vault.open(expected=False)

    def take_away() -> None:
        vault.root.rename(tmp_path / "elsewhere")

    return Folder(ImageFiles(vault), take_away)


@pytest.fixture
def images(folder: Folder) -> ImageFiles:
    return folder.images


async def test_an_image_that_is_a_link_to_elsewhere_is_none(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    await vault.open(expected=False)
    images, secret = ImageFiles(vault), tmp_path / "secret"
    secret.write_bytes(CAT)
    file = vault.root / "default/users/ann/images" / CAT_NAME
    file.parent.mkdir(parents=True)
    file.symlink_to(secret)
    assert await images.read(*ANN, CAT_NAME) is None
    await images.keep(*ANN, CAT_NAME, CAT)
    assert (file.is_symlink(), await images.read(*ANN, CAT_NAME)) == (False, CAT)
    assert secret.read_bytes() == CAT


async def test_a_folder_of_images_that_is_a_link_to_elsewhere_is_left_alone(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    await vault.open(expected=False)
    images, elsewhere = ImageFiles(vault), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / CAT_NAME).write_bytes(CAT)
    (vault.root / "default/users/ann").mkdir(parents=True)
    (vault.root / "default/users/ann/images").symlink_to(elsewhere)
    assert (await images.names(*ANN), await images.read(*ANN, CAT_NAME)) == (set(), None)
    for attempt in (images.keep(*ANN, DOG_NAME, DOG), images.remove(*ANN, {CAT_NAME})):
        with pytest.raises(StorageUnavailable):
            await attempt
    assert [path.name for path in elsewhere.iterdir()] == [CAT_NAME]


async def test_at_first_there_are_none(images: ImageFiles) -> None:
    assert await images.names(*ANN) == set()
    assert await images.read(*ANN, CAT_NAME) is None


async def test_the_bytes_come_back_exactly(images: ImageFiles) -> None:
    await images.keep(*ANN, CAT_NAME, CAT)
    await images.keep(*ANN, DOG_NAME, DOG)
    assert (await images.read(*ANN, CAT_NAME), await images.read(*ANN, DOG_NAME)) == (CAT, DOG)
    assert await images.names(*ANN) == {CAT_NAME, DOG_NAME}


async def test_an_image_that_is_kept_again_is_there_once(images: ImageFiles) -> None:
    await images.keep(*ANN, CAT_NAME, CAT)
    await images.keep(*ANN, CAT_NAME, CAT)
    assert await images.names(*ANN) == {CAT_NAME}
    assert await images.read(*ANN, CAT_NAME) == CAT


async def test_what_stands_there_and_is_something_else_is_replaced(images: ImageFiles) -> None:
    await images.keep(*ANN, CAT_NAME, b"damaged")
    await images.keep(*ANN, CAT_NAME, CAT)
    assert await images.read(*ANN, CAT_NAME) == CAT


async def test_another_user_and_another_space_see_nothing(images: ImageFiles) -> None:
    await images.keep(*ANN, CAT_NAME, CAT)
    for other in (BOB, ("work", "ann")):
        assert await images.read(*other, CAT_NAME) is None
        assert await images.names(*other) == set()


async def test_what_is_removed_is_gone_and_nothing_else(images: ImageFiles) -> None:
    for owner in (ANN, BOB):
        await images.keep(*owner, CAT_NAME, CAT)
        await images.keep(*owner, DOG_NAME, DOG)
    await images.remove(*ANN, {CAT_NAME, image_name(b"never was", "png")})
    assert await images.names(*ANN) == {DOG_NAME}
    assert await images.names(*BOB) == {CAT_NAME, DOG_NAME}


@pytest.mark.parametrize("name", ["../../bob/images/x.png", "cat.png", "", CAT_NAME.upper()])
async def test_a_name_that_is_none_of_ours_is_refused(images: ImageFiles, name: str) -> None:
    with pytest.raises(ValueError, match="no name of an image"):
        await images.keep(*ANN, name, CAT)
    with pytest.raises(ValueError, match="no name of an image"):
        await images.read(*ANN, name)
    with pytest.raises(ValueError, match="no name of an image"):
        await images.remove(*ANN, {name})


async def test_nothing_is_written_or_forgotten_while_the_vault_is_missing(folder: Folder) -> None:
    folder.take_away()
    with pytest.raises(StorageUnavailable):
        await folder.images.keep(*ANN, CAT_NAME, CAT)
    with pytest.raises(StorageUnavailable):
        await folder.images.names(*ANN)
    with pytest.raises(StorageUnavailable):
        await folder.images.remove(*ANN, {CAT_NAME})


async def test_on_disk_a_persons_own_pictures_are_left_alone(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    await vault.open(expected=False)
    images = ImageFiles(vault)
    await images.keep(*ANN, CAT_NAME, CAT)
    own = vault.root / "default/users/ann/images/holiday.png"
    own.write_bytes(b"mine")
    assert await images.names(*ANN) == {CAT_NAME}
    assert sorted(path.name for path in own.parent.iterdir()) == sorted([CAT_NAME, "holiday.png"])


@dataclass(frozen=True)
class Journal:
    threads: SqlThreadStore
    references: SqlImageReferences

    async def show(self, thread_id: str, *names: str, user_id: str = "ann", space: str = "default") -> None:
        parts = [{"type": "image_url", "image_url": {"url": reference(name)}} for name in names]
        turn = NewTurn("user", "", START, user_id, parts=parts)
        await self.threads.append(Append(space, thread_id, [turn], user_id))


@pytest.fixture
async def showing(tmp_path: Path) -> AsyncIterator[Journal]:
    database = Database(tmp_path / "journal.db")
    await database.open()
    schedule = Schedule(boundary_every=4, boundary_delay_ms=0, pause_ms=0, transcript_delay_ms=0)
    yield Journal(
        SqlThreadStore(database, clock=FakeClock(), schedule=schedule), SqlImageReferences(database)
    )
    await database.close()


async def test_what_any_thread_of_a_user_shows_is_referred_to(showing: Journal) -> None:
    assert await showing.references.referred(*ANN) == set()
    await showing.show("t1", CAT_NAME)
    await showing.show("t2", CAT_NAME, DOG_NAME)
    assert await showing.references.referred(*ANN) == {CAT_NAME, DOG_NAME}


async def test_what_others_show_is_not(showing: Journal) -> None:
    await showing.show("t1", CAT_NAME, user_id="bob")
    await showing.show("t2", CAT_NAME, space="work")
    assert await showing.references.referred(*ANN) == set()


async def test_what_was_forgotten_is_no_longer_referred_to(showing: Journal) -> None:
    await showing.show("t1", CAT_NAME)
    await showing.show("t2", DOG_NAME)
    await showing.threads.delete_thread("t1")
    assert await showing.references.referred(*ANN) == {DOG_NAME}
